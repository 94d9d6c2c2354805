"""The worker over real stores: nothing accepted is lost, versions replace each other, deletion leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from assistant.core.domain import Access, Document, DocumentStatus, PageStatus
from assistant.core.errors import AccessDenied, BadRequest, DiskFull, EmptyFile, NotFound, TooLarge, UnsupportedFile
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion import worker as worker_module
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
    async for progress in perito.worker.progress(submission.document.id, EVERYONE):
        document = progress.document
    await perito.worker.drain()
    return perito.catalogue.document(document.id, EVERYONE)


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
    monkeypatch.setattr(worker_module, "RETRY_SECONDS", (0.01,))
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
