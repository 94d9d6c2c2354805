"""The library's pages and what can be done there, over real stores: what is shown, to whom, and how fast."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert

from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Access, Block, BlockKind, Box, Document, DocumentStatus, Reader
from assistant.core.ports import DocumentQuery
from assistant.core.records import document_row, page_row
from assistant.core.tables import documents, pages
from assistant.web.app import Services, create_api
from assistant.web.library import live, numbers, tables
from assistant.web.library.pages import POLICY
from assistant.web.library.texts import LANGUAGES, en, es, preferred
from tests.assistant.webparts import CONTRACT, Web, build_web, files, settings_for
from tests.fakes import page_of

EVERYONE = Access("local", None)
NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(2)>.txt'
HTMX = {"hx-request": "true"}


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return build_web(settings_for(tmp_path / "home", limits={"upload_mb": 1}), tmp_path)


@pytest.fixture
def team(tmp_path: Path) -> Web:
    return build_web(settings_for(tmp_path / "home", users=True), tmp_path)


async def upload(web: Web, content: str = CONTRACT, name: str = "renta.txt", user: str = "", **data: str) -> str:
    async with web.client(user) as client:
        reply = await client.post("/api/documents", files=files((name, content.encode())), data=data)
    return reply.json()["documents"][0]["id"]


class Inline(HTMLParser):
    """Collects what a strict policy would forbid: scripts and styles in the page, handlers, addresses of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag == "script"
        self.found += [f"{tag} {name}" for name, _ in attrs if name.startswith("on") or name == "style"]
        self.found += [f"{tag} {value}" for _, value in attrs if (value or "").lower().startswith("javascript:")]
        if tag == "style":
            self.found.append(tag)

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.found.append(data)


def inline(html: str) -> list[str]:
    parser = Inline()
    parser.feed(html)
    return parser.found


async def test_names_are_shown_and_never_run(web: Web) -> None:
    document_id = await upload(web, name=NASTY)
    async with web.client() as client:
        for path in ("/library", f"/library/documents/{document_id}", "/library/documents/nothing"):
            reply = await client.get(path)
            assert reply.headers["content-security-policy"] == POLICY
            assert inline(reply.text) == []
            assert "<script>alert" not in reply.text
            assert "<img src=x" not in reply.text
        file = await client.get(f"/api/documents/{document_id}/file")
    assert "attachment" in file.headers["content-disposition"]
    assert file.headers["x-content-type-options"] == "nosniff"


async def test_the_page_speaks_the_browsers_language(web: Web) -> None:
    async with web.client() as client:
        spanish = await client.get("/library", headers={"accept-language": "fr, es-MX;q=0.9, en;q=0.5"})
        english = await client.get("/library", headers={"accept-language": "en-GB,es;q=0.8"})
    assert '<html lang="es">' in spanish.text
    assert "Aún no hay documentos" in spanish.text
    assert "No documents yet" in english.text
    assert preferred("de").code == preferred("").code == preferred("es;q=x").code == "en"


def test_both_languages_say_the_same_things() -> None:
    assert set(en.TEXTS) == set(es.TEXTS)
    for key, text in en.TEXTS.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", es.TEXTS[key])), key
    assert LANGUAGES["en"]("pages", n=1) == "1 page"
    assert LANGUAGES["es"]("pages", n="2.000") == "2.000 páginas"


@pytest.mark.parametrize(
    ("value", "language", "written"),
    [(1204, "en", "1,204"), (1204, "es", "1204"), (12045.5, "es", "12.045,5"), (0.5, "en", "0.5")],
)
def test_numbers_are_written_as_people_write_them(value: float, language: str, written: str) -> None:
    assert numbers.number(value, language, 0 if value == int(value) else 1) == written


def test_sizes_and_shares_do_not_flatter() -> None:
    assert [numbers.size(n, "en") for n in (0, 999, 1000, 1_250_000, 999_600)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.2 MB",
        "1.0 MB",
    ]
    assert numbers.size(1_250_000, "es") == "1,2 MB"
    assert [numbers.percent(share) for share in (0, 0.001, 0.5, 0.9999, 1)] == [0, 1, 50, 99, 100]


async def test_the_list_is_searched_filtered_and_sorted_by_address(web: Web) -> None:
    await upload(web, "Una.", "alfa.txt")
    await upload(web, "Otra cosa, más larga.", "beta.txt", collection="hr")

    async def shown(query: str) -> list[str]:
        async with web.client() as client:
            reply = await client.get(f"/library?{query}")
        assert reply.status_code == 200
        return re.findall(r'<a href="/library/documents/[^"]+">([^<]+)</a>', reply.text)

    assert await shown("") == ["beta.txt", "alfa.txt"]
    assert await shown("name=ALF") == ["alfa.txt"]
    assert await shown("collection=hr") == ["beta.txt"]
    assert await shown("status=failed") == []
    assert await shown("order=made-up&status=made-up&direction=sideways&page=7") == ["beta.txt", "alfa.txt"]


async def test_nobody_sees_what_is_not_theirs(team: Web) -> None:
    secret = await upload(team, "Nóminas.", "nominas.txt", "carl", collection="hr")
    mine = await upload(team, user="ana", collection="contracts")
    async with team.client() as client:
        reply = await client.get("/library")
        assert (reply.status_code, reply.headers["location"]) == (303, "/login")
        reply = await client.get("/library", headers=HTMX)
        assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/login")
    async with team.client("ana") as client:
        listed = await client.get("/library")
        assert "renta.txt" in listed.text
        assert "nominas.txt" not in listed.text
        assert ">hr<" not in listed.text
        assert (await client.get("/library?collection=hr")).text.count("<tr") == 0
        for path in (f"/library/documents/{secret}", f"/library/documents/{secret}/pages/1/small"):
            assert (await client.get(path)).status_code == 404
        for change in ({"action": "delete"}, {"action": "reread"}, {"action": "move", "collection": "contracts"}):
            reply = await client.post("/library/change", data={**change, "ids": secret})
            assert "There is no document" in reply.text
        denied = await client.post("/library/change", data={"action": "move", "collection": "hr", "ids": mine})
        assert "may not add" in denied.text
        sha = hashlib.sha256("Nóminas.".encode()).hexdigest()
        assert (await client.get(f"/library/sending/{sha}?collection=hr&size=9")).status_code == 403
        assert (await client.get(f"/library/sending/{sha}?collection=contracts&size=9")).json()["known"] is None
    assert team.services.catalogue.document(secret, EVERYONE).collection == "hr"


async def test_changes_come_from_our_own_pages_only(web: Web) -> None:
    document_id = await upload(web)
    async with web.client() as client:
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            for path in ("/library/change", f"/library/documents/{document_id}/pages/1/corrections"):
                reply = await client.post(path, data={"action": "delete", "ids": document_id}, headers=headers)
                assert reply.status_code == 403
    assert web.services.catalogue.document(document_id, EVERYONE)


async def test_many_are_changed_at_once_and_one_that_cannot_be_holds_up_none(web: Web) -> None:
    ids = [await upload(web, f"Texto {number}.", f"{number}.txt") for number in range(3)]
    async with web.client() as client:
        moved = await client.post("/library/change", data={"action": "move", "ids": ids[:2], "collection": " Archive "})
        assert "2 documents moved to Archive." in moved.text
        assert moved.headers["hx-trigger"] == "library-changed"
        gone = await client.post("/library/change", data={"action": "delete", "ids": [ids[0], "nothing", ids[2]]})
        assert "2 documents deleted." in gone.text
        assert 'data-tone="bad"' in gone.text
        nothing = await client.post("/library/change", data={"action": "delete"})
        assert "No document is selected." in nothing.text
        nameless = await client.post("/library/change", data={"action": "move", "ids": ids[1], "collection": "?"})
        assert nameless.status_code == 400
    (left,) = web.services.catalogue.documents(EVERYONE)
    assert (left.id, left.collection) == (ids[1], "Archive")


def fields(html: str) -> dict[str, str]:
    """The hidden fields of the form that corrects the first block."""
    form = html[html.index('<details class="misread"') :]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[: form.index("</form>")]))


async def test_a_block_is_corrected_seen_and_undone(web: Web) -> None:
    document_id = await upload(web)
    path = f"/library/documents/{document_id}"
    async with web.client() as client:
        hidden = fields((await client.get(path)).text)
        right = {"how": "save", "text": "Arrendamiento de la <b>calle Mayor</b> 41."}
        saved = await client.post(f"{path}/pages/1/corrections", data={**hidden, **right})
        assert "Corrected by local" in saved.text
        assert "&lt;b&gt;calle Mayor" in saved.text
        stale = await client.post(f"{path}/pages/1/corrections", data={**hidden, "digest": "0" * 16, "how": "mark"})
        assert stale.status_code == 400
        again = await client.get(path)
        assert again.text.count("Corrected by local") == 1
        (word,) = web.services.catalogue.corrections(document_id, EVERYONE)
        assert (word.text, word.original) == (right["text"], "Arrendamiento de la calle Mayor 14.")
        undone = await client.post(f"{path}/pages/1/corrections/{word.id}/withdraw", data={"block": "0"})
        assert "Arrendamiento de la calle Mayor 14." in undone.text
        marked = await client.post(f"{path}/pages/1/corrections", data={**hidden, "how": "mark"})
        assert "Marked as misread by local" in marked.text
    assert web.services.catalogue.page(document_id, 1, EVERYONE).blocks[0].corrected_by == ""


def test_a_tables_html_can_do_nothing() -> None:
    said = tables.harmless(
        '<table onclick="x()"><tr><td colspan="2" style="position:fixed">1 &lt; 2<script>alert(1)</script></td>'
        '<td rowspan="99999"><img src=x onerror=y()><b>fett<td>open'
    )
    assert said == '<table><tr><td colspan="2">1 &lt; 2</td><td><b>fett<td>open</td></b></td></tr></table>'
    assert (
        tables.from_markdown("| a | <b> |\n|---|---|\n| 1 | 2 |").count("<t") == 9
    )  # table, thead, tr, 2 th, tbody, tr, 2 td
    assert "&lt;b&gt;" in tables.from_markdown("| a | <b> |\n|---|---|\n| 1 | 2 |")
    assert tables.from_markdown("no <table>") == '<p class="said">no &lt;table&gt;</p>'


# -- files on their way in ------------------------------------------------------------------------


async def send(client: httpx.AsyncClient, content: bytes, at: int = 0, upto: int | None = None) -> httpx.Response:
    sha = hashlib.sha256(content).hexdigest()
    return await client.put(f"/library/sending/{sha}?offset={at}", content=content[at:upto])


async def test_a_broken_upload_goes_on_where_it_broke_off(web: Web) -> None:
    content = CONTRACT.encode()
    url = f"/library/sending/{hashlib.sha256(content).hexdigest()}"
    about = {"collection": "legal", "size": str(len(content)), "name": "renta.txt"}
    async with web.client() as client:
        assert (await client.get(url, params=about)).json() == {"known": None, "received": 0}
        assert (await send(client, content, 50)).json() == {"received": 0}  # what was here before is gone
        assert (await send(client, content, 0, 50)).json() == {"received": 50}
        twice = await send(client, content, 0, 50)
        assert (twice.status_code, twice.json()) == (409, {"received": 50})
        early = await client.post(url, data={"name": "renta.txt", "collection": "legal"})
        assert early.status_code == 400  # not whole: nothing is taken in
        assert (await send(client, content, 0, 50)).json() == {"received": 50}
        assert (await client.get(url, params=about)).json() == {"known": None, "received": 50}
        assert (await send(client, content, 50)).json() == {"received": len(content)}
        taken = (await client.post(url, data={"name": "renta.txt", "collection": "legal"})).json()
        assert (taken["known"], taken["document"]["final"]) == (False, True)
        assert (await client.get(url, params=about)).json()["known"] == taken["document"]["id"]
    assert list((web.services.settings.home / "sending").iterdir()) == []


async def test_what_cannot_be_taken_in_says_why_in_the_persons_language(web: Web) -> None:
    async def taken(content: bytes, **more: str) -> httpx.Response:
        url = f"/library/sending/{hashlib.sha256(content).hexdigest()}"
        async with web.client(headers={"accept-language": "es"}) as client:
            await send(client, content)
            return await client.post(url, data={"name": "a.bin", "collection": "legal", **more})

    refused = await taken(b"\x00\x01\x02")
    assert refused.status_code == 415
    assert refused.json()["error"] == {
        "code": "unsupported_file",
        "said": "Su formato no se puede leer. Conviértelo a PDF o a imagen y envíalo de nuevo.",
        "passing": False,
    }
    assert (await taken(b"LOCKED text")).json()["error"]["code"] == "encrypted_file"
    url = f"/library/sending/{hashlib.sha256(b'LOCKED text').hexdigest()}"
    async with web.client() as client:  # the bytes are still here: only the password is sent
        opened = await client.post(url, data={"name": "a.txt", "collection": "legal", "password": "sesame"})
        assert opened.status_code == 200
        too_large = await client.get(f"/library/sending/{'0' * 64}?collection=legal&size=2000000")
        assert too_large.status_code == 413
        over = await send(client, b"x" * 1_000_001)
        assert over.status_code == 413


# -- many -----------------------------------------------------------------------------------------

MANY = 10_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """10,000 documents of two pages in a real catalogue, some of them still being read."""
    folder = tmp_path_factory.mktemp("crowd")
    catalogue = SqlCatalogue.open(f"sqlite:///{folder / 'perito.db'}")
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        document_row(
            Document(
                f"d{number:05}", f"Acta nº {number}.pdf", f"{number:064x}", f"c{number % 7}",
                DocumentStatus.READING if number < 40 else DocumentStatus.COMPLETE, pages=2, pages_done=2,
                readers={"ocr": 2}, size=number, created=begun + timedelta(minutes=number), owner="ana",
            ),
            f"{number:064x}",
        )
        for number in range(MANY)
    ]  # fmt: skip
    one = page_of("Acta.")
    sheets = [page_row(row["id"], replace(one, number=number)) for row in rows for number in (1, 2)]
    with catalogue._database.writing() as connection:
        connection.execute(insert(documents), rows)
        connection.execute(insert(pages), sheets)
    base = build_web(settings_for(folder / "home"), folder)
    services = replace(base.services, catalogue=catalogue)
    yield Web(create_api(services), services, base.ingestion)
    catalogue.close()


@pytest.mark.parametrize(
    "query",
    ["", "name=nº+99", "order=confidence", "order=name&direction=up&page=150&size=50", "collection=c3&size=100"],
)
async def test_ten_thousand_documents_are_listed_at_once(crowd: Web, query: str) -> None:
    async with crowd.client() as client:
        await client.get("/library?size=25")  # templates are compiled once
        seconds: list[float] = []
        for _ in range(3):
            began = time.process_time()
            reply = await client.get(f"/library?{query}")
            seconds.append(time.process_time() - began)
    assert reply.status_code == 200
    assert 25 <= reply.text.count('<tr role="row" id="doc-') <= 100
    assert min(seconds) < 0.3, seconds


async def test_live_updates_of_ten_thousand_documents_cost_little(crowd: Web) -> None:
    parts: Services = crowd.services
    wanted = frozenset(document.id for document in parts.catalogue.documents(EVERYONE, DocumentQuery(limit=50)))
    seen = live._Seen()
    changed, gone, sums = live._look(parts, EVERYONE, wanted | {"gone"}, seen)
    assert (len(changed), gone, sums and sums.total) == (50, ["gone"], MANY)
    began = time.process_time()
    assert live._look(parts, EVERYONE, wanted, seen) == ((), [], None)
    assert time.process_time() - began < 0.1


async def test_a_change_is_told_with_what_the_page_shows_of_it(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(live, "IDLE_SECONDS", 0.01)
    document_id = await upload(web)
    catalogue = web.services.catalogue
    catalogue.update_document(replace(catalogue.document(document_id, EVERYONE), status=DocumentStatus.READING))
    events = live._events(web.services, EVERYONE, frozenset({document_id}), LANGUAGES["en"])
    name, told = await anext(events)
    shown = json.loads(told.model_dump_json())
    assert (name, shown["final"], "reading" in shown["row"]) == ("document", False, True)
    name, told = await anext(events)
    assert (name, json.loads(told.model_dump_json())["count"]) == ("sums", 1)
    catalogue.update_document(replace(catalogue.document(document_id, EVERYONE), status=DocumentStatus.COMPLETE))
    name, told = await anext(events)
    assert json.loads(told.model_dump_json())["heard"] == "renta.txt: read, 1 of 1 page read"
    await anext(events)
    catalogue.delete_document(document_id, EVERYONE)
    assert (await anext(events))[0] == "gone"
    await events.aclose()


def within(mail: str, name: str, collection: str = "default") -> Document:
    key = hashlib.sha256(name.encode()).hexdigest()
    return Document(key[:32], name, key, collection, DocumentStatus.COMPLETE, pages=1, parent=mail)


async def test_a_mail_and_what_hangs_on_it_lead_to_each_other(web: Web) -> None:
    catalogue, mail = web.services.catalogue, await upload(web, name="carta.eml.txt")
    part = within(mail, "carta.eml.txt › anejo.txt")
    catalogue.claim_document(part, "b" * 64)
    async with web.client() as client:
        shown = (await client.get(f"/library/documents/{mail}")).text
        below = (await client.get(f"/library/documents/{part.id}")).text
    assert f'Found in it: <a href="/library/documents/{part.id}">anejo.txt</a></p>' in shown
    assert "Found in:" not in shown
    assert f'Found in: <a href="/library/documents/{mail}">carta.eml.txt</a>' in below


@pytest.mark.parametrize(("parts", "named", "all_of_it"), [(50, 50, False), (51, 50, True)])
async def test_of_an_archive_of_many_files_some_are_named(web: Web, parts: int, named: int, all_of_it: bool) -> None:
    archive = await upload(web, name="todo & más.txt")
    for number in range(parts):
        web.services.catalogue.claim_document(within(archive, f"todo & más.txt › {number}.txt"), "b" * 64)
    async with web.client() as client:
        shown = (await client.get(f"/library/documents/{archive}")).text
        more = re.search(r'<a href="([^"]*)">all of it</a>', shown)
        assert (more is not None) == all_of_it
        if more:
            listed = (await client.get(more[1].replace("&amp;", "&"))).text
            assert listed.count(" › ") >= 50 and "todo &amp; más.txt" in listed
    assert len(re.findall(r'">\d+\.txt</a>', shown)) == named


async def test_the_mail_of_a_part_that_was_moved_stays_with_those_who_may_see_it(team: Web) -> None:
    mail = await upload(team, name="secreto.eml.txt", user="carl", collection="hr")
    moved, left = within(mail, "secreto.eml.txt › a.txt", "contracts"), within(mail, "secreto.eml.txt › b.txt", "hr")
    for part in (moved, left):
        team.services.catalogue.claim_document(part, "b" * 64)
    async with team.client("ana") as client:
        shown = await client.get(f"/library/documents/{moved.id}")
        assert shown.status_code == 200 and "Found in" not in shown.text and mail not in shown.text
        asked = await client.get("/api/documents", params={"ids": mail, "with_parts": True})
        assert [one["id"] for one in asked.json()["documents"]] == [moved.id]


async def test_a_table_is_shown_as_one_and_the_receipt_in_words(web: Web) -> None:
    document_id = await upload(web)
    table = Block(
        BlockKind.TABLE,
        "| a |",
        Box(0.1, 0.1, 0.9, 0.3),
        0.7,
        Reader.OCR,
        html="<table><tr><td>Precio</td></tr></table>",
    )
    web.services.catalogue.put_page(
        document_id, replace(page_of("x"), blocks=(table,), reader=Reader.OCR, confidence=0.7)
    )
    async with web.client() as client:
        shown = await client.get(f"/library/documents/{document_id}")
        beyond = await client.get(f"/library/documents/{document_id}?page=9")
        small = await client.get(f"/library/documents/{document_id}/pages/1/small")
        style = await client.get("/library/theme.css")
        script = await client.get("/library/static/htmx.min.js")
        nothing = await client.get("/library/static/..%2Fpages.py")
        nowhere = await client.get("/library/nowhere/at/all")
        slash, filtered = await client.get("/library/"), await client.get("/library/?collection=a%20b&page=2")
    assert "<table><tr><td>Precio</td></tr></table>" in shown.text
    assert '<rect class="reader-ocr" x="0.1" y="0.1" width="0.8" height="0.2"/>' in shown.text
    assert "Read by: OCR. 70 % sure." in shown.text
    assert beyond.status_code == 404
    assert small.headers["content-type"] == "image/jpeg"
    assert len(small.content) < 10_000
    assert "--background" in style.text
    assert script.status_code == 200
    assert nothing.status_code == 404
    assert nowhere.status_code == 404 and "no such page in the library" in nowhere.text
    assert slash.headers["location"] == "/library"
    assert filtered.headers["location"] == "/library?collection=a%20b&page=2"
