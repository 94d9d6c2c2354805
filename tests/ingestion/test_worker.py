"""The worker over real stores: nothing accepted is lost, versions replace each other, deletion leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assistant.core.domain import Access, Document, DocumentStatus, PageReading, PageStatus, Usage
from assistant.core.errors import AccessDenied, BadRequest, DiskFull, EmptyFile, NotFound, TooLarge, UnsupportedFile
from assistant.core.ports import Upload
from assistant.core.queue import SqlQueue
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion import crew, embedding, runs
from ingestion.openfiles import OpenFile
from ingestion.pipeline import Pipeline
from ingestion.runs import charged
from ingestion.worker import displayed_name
from tests.documents import shared

EVERYONE = Access("test", None)


@pytest_asyncio.fixture
async def perito() -> AsyncIterator[Perito]:
    async with open_perito(load_settings()) as perito:
        yield perito


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


async def taken_in(perito: Perito, path: Path, name: str = "", collection: str = "default") -> Document:
    submission = await perito.worker.submit(Upload(path, name or path.name, collection), EVERYONE)
    async for _ in perito.worker.progress(submission.document.id, EVERYONE):
        pass
    await perito.worker.drain()
    return perito.catalogue.document(submission.document.id, EVERYONE)


async def test_pages_are_published_and_embedded(perito: Perito, tmp_path: Path) -> None:
    document = await taken_in(perito, written(tmp_path, "a.md", "# Uno\n\nEl pago vence el día 5.\n"))
    assert document.status is DocumentStatus.COMPLETE
    assert document.chunks == document.chunks_embedded == perito.index.count(document.id) > 0
    assert not perito.index.unembedded(10)


async def test_the_same_bytes_at_once_give_one_document(perito: Perito, tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "La misma carta, dos veces a la vez.")
    both = await asyncio.gather(*(perito.worker.submit(Upload(path, "a.txt"), EVERYONE) for _ in range(2)))
    assert both[0].document.id == both[1].document.id
    assert sorted(submission.duplicate for submission in both) == [False, True]
    await perito.worker.drain()
    assert len(perito.catalogue.documents(EVERYONE)) == 1


async def test_a_new_version_replaces_the_old_one_when_it_is_complete(perito: Perito, tmp_path: Path) -> None:
    old = await taken_in(perito, written(tmp_path, "plan.txt", "El plazo termina en marzo."))
    new = await taken_in(perito, written(tmp_path, "plan.txt", "El plazo termina en octubre."))
    assert new.version == old.version + 1
    assert [document.id for document in perito.catalogue.documents(EVERYONE)] == [new.id]
    assert perito.index.count(old.id) == 0
    assert perito.index.count(new.id) > 0


async def test_deleting_leaves_no_points_rows_or_blobs(perito: Perito, tmp_path: Path) -> None:
    document = await taken_in(perito, written(tmp_path, "a.txt", "Nada de esto debe quedar."))
    perito.page_images.page_image(document.id, 1, EVERYONE)  # leaves a derived picture to be removed as well
    await perito.worker.delete(document.id, EVERYONE)
    assert perito.index.count(document.id) == 0
    assert perito.catalogue.documents(EVERYONE) == []
    with pytest.raises(NotFound):
        perito.catalogue.document(document.id, EVERYONE)
    assert [path for path in (perito.settings.home / "blobs").rglob("*") if path.is_file()] == []


async def test_what_cannot_be_read_is_refused_and_leaves_nothing(perito: Perito, tmp_path: Path) -> None:
    (tmp_path / "zero.pdf").write_bytes(b"")
    (tmp_path / "noise.pdf").write_bytes(bytes(range(256)) * 40)
    for name, kind in (("zero.pdf", EmptyFile), ("noise.pdf", UnsupportedFile)):
        with pytest.raises(kind):
            await perito.worker.submit(Upload(tmp_path / name, name), EVERYONE)
    assert perito.catalogue.documents(EVERYONE) == []
    assert [path for path in (perito.settings.home / "blobs").rglob("*") if path.is_file()] == []


async def test_limits_and_rights_are_checked_first(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "a.txt", "Texto.")
    with pytest.raises(AccessDenied):
        await perito.worker.submit(Upload(path, "a.txt", "hr"), Access("ana", frozenset({"sales"})))
    with pytest.raises(BadRequest):
        await perito.worker.submit(Upload(path, "a.txt", " "), EVERYONE)
    tight = perito.settings.limits.model_copy(update={"upload_mb": 0})
    monkeypatch.setattr(perito.worker, "_limits", tight)
    with pytest.raises(TooLarge):
        await perito.worker.submit(Upload(path, "a.txt"), EVERYONE)


async def test_a_full_disk_is_waited_out(perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the page is to be written down, and has room again later."""
    put_page, tries = perito.catalogue.put_page, 0

    def full_twice(*arguments: object) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise DiskFull("The disk is full")
        put_page(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(perito.catalogue, "put_page", full_twice)
    monkeypatch.setattr(crew, "RETRY_SECONDS", (0.01,))
    document = await taken_in(perito, written(tmp_path, "a.txt", "Esto se lee cuando vuelve a haber sitio."))
    assert tries == 3
    assert document.status is DocumentStatus.COMPLETE
    assert document.error == ""


async def test_unfinished_documents_go_on_after_a_restart_without_reading_pages_twice(tmp_path: Path) -> None:
    settings = load_settings()
    long = written(
        tmp_path, "largo.md", "\n\n".join(f"# Parte {n}\n\n" + f"La cláusula {n} dice algo. " * 120 for n in range(8))
    )
    async with open_perito(settings) as perito:
        submission = await perito.worker.submit(Upload(long, "largo.md"), EVERYONE)
        async for progress in perito.worker.progress(submission.document.id, EVERYONE):
            if progress.document.pages_done >= 2:
                break
    async with open_perito(settings) as perito:
        before = perito.catalogue.pages_done(submission.document.id)
        async for progress in perito.worker.progress(submission.document.id, EVERYONE):
            assert progress.page is None or progress.page.number not in before
        document = perito.catalogue.document(submission.document.id, EVERYONE)
        pages = list(perito.catalogue.pages(document.id, EVERYONE))
    assert document.status is DocumentStatus.COMPLETE
    assert [page.number for page in pages] == list(range(1, document.pages + 1))
    assert len(pages) > 2


async def test_a_document_that_ends_the_process_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reading never comes to an end here, and nothing is given back, as where the process was killed."""
    settings = load_settings()
    path = written(tmp_path, "bomba.md", "\n\n".join(f"# Parte {n}\n\n" + f"Dice {n} algo. " * 220 for n in range(8)))

    async def deadly(_: Pipeline, file: OpenFile, skip: Collection[int], *rest: Any) -> AsyncIterator[PageReading]:
        if 1 not in skip:
            async for page in read(_, file, range(2, 9)):
                yield page
        begun.set()
        await asyncio.Event().wait()

    begun, read = asyncio.Event(), Pipeline.read_document
    submitted: Document | None = None
    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "read_document", deadly)
        patched.setattr(SqlQueue, "dismiss", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        for _ in range(runs.DEATHS):  # the first gets a page further
            begun.clear()
            async with open_perito(settings) as perito:
                if submitted is None:
                    submitted = (await perito.worker.submit(Upload(path, path.name), EVERYONE)).document
                await asyncio.wait_for(begun.wait(), 30)
    assert submitted is not None
    async with open_perito(settings) as perito:
        await perito.worker.drain()
        document = perito.catalogue.document(submitted.id, EVERYONE)
        assert document.status is DocumentStatus.PARTIAL
        assert "ended 3 times while it read bomba.md, and got no further than 1 of" in document.error
        assert perito.index.count(document.id) > 0
        again = await taken_in(perito, path)  # a person may ask for it once more
        assert (again.id, again.status) == (document.id, DocumentStatus.COMPLETE)


async def test_a_truncated_pdf_is_partial_and_says_what_is_missing(perito: Perito, tmp_path: Path) -> None:
    whole = shared("digital_text/multi_page.pdf").read_bytes()
    cut = tmp_path / "cut.pdf"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    document = await taken_in(perito, cut)
    assert document.status is DocumentStatus.PARTIAL
    assert document.error
    pages = list(perito.catalogue.pages(document.id, EVERYONE))
    assert len(pages) == document.pages
    assert any(page.status is PageStatus.READ and "word processor" in page.text for page in pages)


async def test_who_follows_a_document_hears_that_it_was_deleted(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, go_on = asyncio.Event(), asyncio.Event()
    loop, publisher = asyncio.get_running_loop(), perito.worker._publisher  # pyright: ignore[reportPrivateUsage]
    publish_page = publisher.publish_page

    def slow(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(published.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(20)
        return publish_page(*arguments)

    monkeypatch.setattr(publisher, "publish_page", slow)
    submission = await perito.worker.submit(Upload(written(tmp_path, "a.txt", "Un texto."), "a.txt"), EVERYONE)
    steps = perito.worker.progress(submission.document.id, EVERYONE)
    await anext(steps)
    await published.wait()
    deleting = asyncio.create_task(perito.worker.delete(submission.document.id, EVERYONE))
    await asyncio.sleep(0.05)
    go_on.set()  # the page is published after the deletion was asked for
    await deleting
    with pytest.raises(NotFound):
        async for _ in steps:
            pass
    assert perito.index.count(submission.document.id) == 0


async def test_what_reading_a_page_costs_is_charged_to_its_document(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[Usage] = []
    pipeline, record = perito.worker._pipeline, charged(lines.append)  # pyright: ignore[reportPrivateUsage]
    read_page = pipeline.read_page

    async def at_a_price(*arguments: Any) -> PageReading:
        await asyncio.to_thread(record, Usage("page", "a model", prompt_tokens=100))
        return await read_page(*arguments)

    monkeypatch.setattr(pipeline, "read_page", at_a_price)
    document = await taken_in(perito, written(tmp_path, "a.txt", "Un texto."), collection="legal")
    assert lines == [Usage("page", "a model", 100, user="test", collection="legal", document_id=document.id)]


async def test_a_document_read_again_twice_at_once_is_read_by_one(perito: Perito, tmp_path: Path) -> None:
    document = await taken_in(perito, written(tmp_path, "a.txt", "Un texto."))
    begun = asyncio.create_task(_most_at_once("read a.txt"))
    await asyncio.gather(*(perito.worker.reread(document.id, EVERYONE) for _ in range(3)))
    await perito.worker.drain()
    begun.cancel()
    assert await begun == 1
    again = perito.catalogue.document(document.id, EVERYONE)
    assert (again.status, again.pages_done) == (DocumentStatus.COMPLETE, 1)


async def _most_at_once(name: str) -> int:
    """How many tasks of that name there were at the same time, until cancelled."""
    most = 0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            most = max(most, sum(task.get_name() == name for task in asyncio.all_tasks()))
            await asyncio.sleep(0)
    return most


async def test_a_failure_of_the_embedder_is_waited_out(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any kind: what is no error of ours must not end the embedding either."""
    embed, tries = perito.embedder.embed_passages, 0

    def broken_once(texts: list[str]) -> list[list[float]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("the engine broke")
        return embed(texts)

    monkeypatch.setattr(perito.embedder, "embed_passages", broken_once)
    monkeypatch.setattr(embedding, "RETRY_SECONDS", 0.01)
    document = await taken_in(perito, written(tmp_path, "a.txt", "Esto se encuentra también por su sentido."))
    assert document.chunks == document.chunks_embedded > 0


async def test_a_crash_before_the_old_version_is_dropped_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings()
    async with open_perito(settings) as perito:
        await taken_in(perito, written(tmp_path, "plan.txt", "El plazo termina en marzo."))
        dropping = asyncio.Event()

        async def never(_: Document) -> None:
            dropping.set()
            await asyncio.Event().wait()

        runner: Any = perito.worker._runner  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(runner, "_hooks", replace(runner._hooks, drop_older=never))
        path = written(tmp_path, "plan.txt", "El plazo termina en octubre.")
        submission = await perito.worker.submit(Upload(path, "plan.txt"), EVERYONE)
        await dropping.wait()
    async with open_perito(settings) as perito:
        await perito.worker.drain()
        assert [document.id for document in perito.catalogue.documents(EVERYONE)] == [submission.document.id]


async def test_a_full_disk_does_not_lose_that_a_document_failed(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, tries = perito.catalogue.queue.end, 0

    def full_once(*arguments: Any) -> bool:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise DiskFull("The disk is full")
        return end(*arguments)

    def gone(*_: object) -> Any:
        raise NotFound("There is no file with that key")

    monkeypatch.setattr(perito.catalogue.queue, "end", full_once)
    monkeypatch.setattr(perito.blobs, "path", gone)
    monkeypatch.setattr(crew, "RETRY_SECONDS", (0.01,))
    document = await taken_in(perito, written(tmp_path, "a.txt", "Un texto."))
    assert document.status is DocumentStatus.FAILED
    assert "no file" in document.error


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ana\\Informe.pdf", "Informe.pdf"),
        ("📄 informe 🇪🇸.pdf", "📄 informe 🇪🇸.pdf"),
        ("a\x00b\n.pdf", "ab.pdf"),
        ("..", ".."),
        ("", "document"),
    ],
)
def test_names_are_shown_without_their_paths(given: str, shown: str) -> None:
    assert displayed_name(given) == shown


def test_long_names_keep_their_ending() -> None:
    name = displayed_name("x" * 300 + ".pdf")
    assert len(name) == 200
    assert name.endswith("….pdf")
