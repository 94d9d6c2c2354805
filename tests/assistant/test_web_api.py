"""The HTTP API over the kernel's fakes: shapes, statuses and streams."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from assistant.core.domain import Access, Answer, Usage
from assistant.core.errors import DiskFull, EndpointDown
from assistant.core.ports import Submission, Upload
from assistant.core.shapes import (
    AnswerShape,
    DocumentDetailShape,
    ErrorShape,
    IngestShape,
    PageShape,
    ProgressShape,
    UsageTotalsShape,
)
from tests.assistant.webparts import CONTRACT, Web, build_web, files, settings_for

TWO_PAGES = f"{CONTRACT}\f\nSegunda página.\n\nLa fianza son dos mensualidades."


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return build_web(settings_for(tmp_path / "home", limits={"upload_mb": 1}), tmp_path)


async def upload(web: Web, content: bytes = TWO_PAGES.encode(), name: str = "arrendamiento.txt", **data: str) -> str:
    async with web.client() as client:
        reply = await client.post("/api/documents", files=files((name, content)), data=data)
    assert reply.status_code == 202, reply.text
    return IngestShape.model_validate(reply.json()).documents[0].id or ""


def events(text: str) -> list[tuple[str, Any]]:
    found = [part.split("\ndata: ", 1) for part in text.split("\n\n") if part.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in found]


async def test_documents_go_in_and_come_back_page_by_page(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        shown = DocumentDetailShape.model_validate((await client.get(f"/api/documents/{document_id}")).json())
        page = PageShape.model_validate((await client.get(f"/api/documents/{document_id}/pages/2")).json())
    assert (shown.document.name, shown.document.pages, shown.document.status) == ("arrendamiento.txt", 2, "complete")
    assert [one.number for one in shown.pages] == [1, 2]
    assert "La fianza son dos mensualidades." in page.text


async def test_the_list_can_be_narrowed(web: Web) -> None:
    first = await upload(web)
    other = await upload(web, b"Another text.", "other.txt", collection="hr")
    async with web.client() as client:

        async def ids(**wanted: str) -> set[str | None]:
            reply = await client.get("/api/documents", params=wanted)
            return {document.id for document in IngestShape.model_validate(reply.json()).documents}

        assert await ids() == {first, other}
        assert await ids(collection="hr") == {other}
        assert await ids(name="ARREND") == {first}
        assert await ids(status="failed") == set()
        assert await ids(ids=f"{other},nothing") == {other}
        assert await ids(id_begins=other[:4]) == {other}
        assert await ids(limit="1") == {other}  # the newest
        assert await ids(limit="1", offset="1") == {first}
        assert (await client.get("/api/documents", params={"collection": "\u200b"})).status_code == 400
        collections = (await client.get("/api/collections")).json()["collections"]
    assert [(one["name"], one["documents"]) for one in collections] == [("default", 1), ("hr", 1)]


async def test_the_same_bytes_twice_are_said_to_be_there(web: Web) -> None:
    first = await upload(web)
    async with web.client() as client:
        reply = await client.post("/api/documents?wait=true", files=files(("b.txt", TWO_PAGES.encode())))
    assert reply.status_code == 200
    assert (reply.json()["documents"][0]["id"], reply.json()["documents"][0]["duplicate"]) == (first, True)


async def test_progress_is_a_stream_that_ends_with_the_end(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        reply = await client.get(f"/api/documents/{document_id}/progress")
    assert reply.headers["content-type"].startswith("text/event-stream")
    name, last = events(reply.text)[-1]
    assert name == "progress"
    assert ProgressShape.model_validate(last).document.status == "complete"


async def test_deleting_leaves_nothing_to_find(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        assert (await client.delete(f"/api/documents/{document_id}")).status_code == 204
        assert (await client.get(f"/api/documents/{document_id}")).status_code == 404
        assert (await client.delete(f"/api/documents/{document_id}")).status_code == 404
        assert (await client.get("/api/documents")).json() == {"documents": []}


async def test_reading_again_is_accepted(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        reply = await client.post(f"/api/documents/{document_id}/reread")
    assert (reply.status_code, reply.json()["id"]) == (202, document_id)


async def test_the_file_comes_back_as_it_was_and_never_as_a_page(web: Web) -> None:
    content = b"<script>alert(1)</script>"
    document_id = await upload(web, content, "evil.html")
    async with web.client() as client:
        reply = await client.get(f"/api/documents/{document_id}/file")
    assert reply.content == content
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["x-content-type-options"] == "nosniff"


async def test_a_page_image_has_the_boxes_drawn_and_is_cached_privately(web: Web) -> None:
    document_id = await upload(web)
    url = f"/api/documents/{document_id}/pages/1/image"
    async with web.client() as client:
        plain, boxed = await client.get(url), await client.get(url, params={"boxes": "0.25,0.5,0.75,0.6"})
        again = await client.get(url, headers={"If-None-Match": plain.headers["etag"]})
        outside = await client.get(url, params={"boxes": "0,0,1,1.5"})
        no_box = await client.get(url, params={"boxes": "1,2,3"})
    assert plain.headers["cache-control"].startswith("private")
    assert (again.status_code, again.content) == (304, b"")
    assert (outside.status_code, no_box.status_code) == (422, 422)
    picture = Image.open(io.BytesIO(boxed.content)).convert("RGB")
    assert picture.size == Image.open(io.BytesIO(plain.content)).size == (600, 800)
    inside, beside = picture.getpixel((300, 440)), picture.getpixel((300, 300))
    assert isinstance(inside, tuple) and isinstance(beside, tuple)
    assert min(beside) > 245  # paper stays white
    assert inside[0] - inside[2] > 40  # the passage is yellow


async def test_an_answer_carries_its_citations(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        reply = await client.post("/api/ask", json={"question": "¿Cuándo vence el contrato?"})
    answer = AnswerShape.model_validate(reply.json())
    assert answer.quoted and not answer.refused
    assert "31 de diciembre de 2027" in answer.answer
    assert {(one.document_id, one.page) for one in answer.citations} == {(document_id, 1)}
    assert all(0 <= x0 <= x1 <= 1 for one in answer.citations for x0, _, x1, _ in one.boxes)


async def test_an_answer_streams_in_pieces_that_make_the_whole(web: Web) -> None:
    await upload(web)
    body = {"question": "¿Cuánto es la renta mensual?"}
    async with web.client() as client:
        reply = await client.post("/api/ask", json=body, headers={"Accept": "text/event-stream"})
    *pieces, last = events(reply.text)
    assert {name for name, _ in pieces} == {"piece"}
    assert last[0] == "answer"
    assert "".join(data["text"] for _, data in pieces) == AnswerShape.model_validate(last[1]).answer


async def test_a_collection_narrows_an_answer(web: Web) -> None:
    await upload(web)
    async with web.client() as client:
        reply = await client.post("/api/ask", json={"question": "¿Cuándo vence el contrato?", "collection": "hr"})
    assert reply.json()["refused"]
    assert reply.json()["citations"] == []


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "empty_file"), (b"\0\1\2", "unsupported_file"), (b"LOCKED", "encrypted_file")]
)
async def test_what_cannot_be_read_is_refused_by_its_kind(web: Web, content: bytes, code: str) -> None:
    async with web.client() as client:
        reply = await client.post("/api/documents", files=files(("bad.bin", content)))
    (refused,) = reply.json()["documents"]
    assert (reply.status_code, refused["code"], refused["id"], refused["status"]) == (207, code, None, "failed")
    assert refused["error"].startswith("bad.bin is ") and refused["error"].count(".") >= 2  # what, and what to do


async def test_a_password_opens_what_is_locked(web: Web) -> None:
    assert await upload(web, b"LOCKED but with text", password="sesame")


async def test_one_bad_file_does_not_hold_up_the_others(web: Web) -> None:
    async with web.client() as client:
        reply = await client.post("/api/documents", files=files(("bad.bin", b""), ("good.txt", b"Good text.")))
    assert reply.status_code == 207
    bad, good = reply.json()["documents"]
    assert (bad["id"], bad["status"], "bad.bin is empty" in bad["error"]) == (None, "failed", True)
    assert (good["name"], good["error"]) == ("good.txt", None)


async def test_a_file_over_the_limit_is_stopped_and_leaves_nothing(web: Web) -> None:
    async with web.client() as client:
        reply = await client.post("/api/documents", files=files(("huge.txt", b"x" * 1_200_000)))
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert "huge.txt is larger than 1 MB" in reply.json()["error"]["message"]
    assert list((web.services.settings.home / "uploads").iterdir()) == []


async def test_uploads_do_not_outlive_their_request(web: Web) -> None:
    await upload(web)
    assert list((web.services.settings.home / "uploads").iterdir()) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "ñandú 🦤.txt", "a" * 300 + ".txt", "a;b=c.txt"])
async def test_a_name_is_a_name_and_never_a_path(web: Web, name: str) -> None:
    before = set(web.services.settings.home.parent.rglob("*"))
    document_id = await upload(web, name=name)
    async with web.client() as client:
        assert (await client.get(f"/api/documents/{document_id}")).json()["document"]["name"] == name
    new = set(web.services.settings.home.parent.rglob("*")) - before
    assert all(path.parent.name in ("blobs", "uploads", "home") or path.name == "blobs" for path in new)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"", "multipart/form-data; boundary=x"),
        (b"{}", "application/json"),
        (b"--x\r\nnonsense", "multipart/form-data"),
    ],
)
async def test_a_body_that_is_no_form_is_said_to_be_none(web: Web, body: bytes, media_type: str) -> None:
    async with web.client() as client:
        reply = await client.post("/api/documents", content=body, headers={"Content-Type": media_type})
    assert reply.status_code == 400
    assert ErrorShape.model_validate(reply.json()).error.code == "bad_request"


class FullDisk(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("size", [10, 500_000], ids=["met when the file is closed", "met while it is written"])
async def test_a_full_disk_says_so_and_the_next_upload_works(
    web: Web, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def opened(*_: object) -> io.BufferedWriter:
        return io.BufferedWriter(FullDisk(), 1000)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", opened)
        async with web.client() as client:
            reply = await client.post("/api/documents", files=files(("a.txt", b"x" * size)))
    assert (reply.status_code, reply.json()["error"]["code"]) == (507, "disk_full")
    assert await upload(web)


async def test_a_full_store_says_so_too(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def submit(upload: Upload, access: Access) -> Submission:
        raise DiskFull("There is no room left for the document")

    monkeypatch.setattr(web.ingestion, "submit", submit)
    async with web.client() as client:
        reply = await client.post("/api/documents", files=files(("a.txt", b"text")))
    assert (reply.status_code, reply.json()["error"]["code"]) == (507, "disk_full")


class Unreachable:
    async def answer(self, *_: Any, **__: Any) -> AsyncIterator[str | Answer]:
        yield "It was "
        raise EndpointDown("The model did not answer")


class Broken:
    async def answer(self, *_: Any, **__: Any) -> AsyncIterator[str | Answer]:
        raise ZeroDivisionError("a defect with a secret in it")
        yield ""


async def test_a_model_that_is_gone_is_told_in_both_forms(web: Web) -> None:
    web.app.state.services = _with_assistant(web, Unreachable())
    async with web.client() as client:
        whole = await client.post("/api/ask", json={"question": "What?"})
        stream = await client.post("/api/ask", json={"question": "What?"}, headers={"Accept": "text/event-stream"})
    assert (whole.status_code, whole.json()["error"]["code"]) == (503, "endpoint_down")
    assert [name for name, _ in events(stream.text)] == ["piece", "error"]
    assert events(stream.text)[-1][1]["error"]["code"] == "endpoint_down"


async def test_a_defect_is_told_without_its_insides(web: Web) -> None:
    web.app.state.services = _with_assistant(web, Broken())
    async with web.client() as client:
        reply = await client.post("/api/ask", json={"question": "What?"})
        stream = await client.post("/api/ask", json={"question": "What?"}, headers={"Accept": "text/event-stream"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")
    assert events(stream.text)[-1][1]["error"]["code"] == "internal_error"
    assert "secret" not in reply.text + stream.text


def _with_assistant(web: Web, assistant: Any) -> Any:
    from dataclasses import replace

    return replace(web.services, assistant=assistant)


async def test_what_is_no_question_gets_the_sentence_for_people(web: Web) -> None:
    async with web.client() as client:
        for question, words in (("😀?", "The question is empty"), ("a" * 4001, "over the 4,000 allowed")):
            reply = await client.post("/api/ask", json={"question": question})
            assert reply.status_code == 400
            assert words in ErrorShape.model_validate(reply.json()).error.message


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nothing", 404),
        ("GET", "/api/documents/none", 404),
        ("GET", "/api/documents/none/pages/1", 404),
        ("GET", "/api/documents/a%20b", 422),
        ("GET", "/api/documents/none/pages/0", 422),
        ("GET", "/api/documents/none/pages/1/image", 404),
        ("PATCH", "/api/documents", 405),
        ("POST", "/api/ask", 422),
    ],
)
async def test_every_refusal_has_the_one_shape(web: Web, method: str, path: str, status: int) -> None:
    async with web.client() as client:
        reply = await client.request(method, path)
    assert reply.status_code == status
    assert ErrorShape.model_validate(reply.json()).error.message


async def test_ready_says_what_is_not(web: Web, tmp_path: Path) -> None:
    async with web.client() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    full = build_web(settings_for(tmp_path / "other", limits={"free_disk_mb": 10_000_000}), tmp_path)
    async with full.client() as client:
        reply = await client.get("/readyz")
    assert reply.status_code == 503
    assert [check["name"] for check in reply.json()["checks"] if not check["ready"]] == ["disk"]


async def test_what_models_used_is_told_to_whom_it_concerns(tmp_path: Path) -> None:
    web = build_web(settings_for(tmp_path / "home", users=True), tmp_path)
    for user, collection in (("ana", "contracts"), ("carl", ""), ("bea", "hr")):
        web.services.catalogue.record(Usage("answer", "llama", 100, 20, price=0.5, user=user, collection=collection))

    async def seen(user: str) -> list[tuple[str, int]]:
        async with web.client(user) as client:
            reply = UsageTotalsShape.model_validate((await client.get("/api/usage", params={"days": 7})).json())
        return [(total.collection, total.prompt_tokens) for total in reply.usage]

    assert await seen("ana") == [("contracts", 100)]
    assert sorted(await seen("carl")) == [("", 100), ("hr", 100)]
    assert len(await seen("bea")) == 3
