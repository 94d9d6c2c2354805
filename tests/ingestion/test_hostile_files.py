"""What a file may do to the process that opens it, and what that costs: a page, never the server or another file."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from assistant.core.domain import Access, Document, DocumentStatus, PageReading, PageStatus
from assistant.core.errors import EncryptedFile, NotFound, TooLarge, UnreadableFile, WorkerDied
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion.openfiles import FilePool, FileProcess, Look, Order
from tests.documents import shared
from tests.ingestion.bombs import LETTERS, PATHS, SANE, expanding, write_nested
from tests.ingestion.pdfs import PdfPage, write_pdf
from tests.ingestion.processes import cpu_seconds, is_busy, is_gone, kill_when_busy, until

EVERYONE = Access("test", None)
SMALL = {"file_memory_mb": 300}  # the program itself has about 75
SLOW = expanding(PATHS, 4)  # takes a second or two, and less memory than is allowed by default


@asynccontextmanager
async def running(**limits: float) -> AsyncIterator[Perito]:
    async with open_perito(load_settings(limits=limits)) as perito:
        await until(lambda: bool(perito.worker.files.idle))
        yield perito


@contextmanager
def pool(**limits: float) -> Iterator[FilePool]:
    settings = load_settings(limits=limits)
    files = FilePool(settings.limits, settings.triage)
    try:
        yield files
    finally:
        files.close()


async def taken_in(perito: Perito, path: Path) -> tuple[Document, dict[int, PageReading]]:
    submission = await perito.worker.submit(Upload(path, path.name), EVERYONE)
    async for _ in perito.worker.progress(submission.document.id, EVERYONE):
        pass
    document = perito.catalogue.document(submission.document.id, EVERYONE)
    return document, {page.number: page for page in perito.catalogue.pages(document.id, EVERYONE)}


async def test_pages_that_take_all_memory_cost_themselves_only(tmp_path: Path) -> None:
    bombs = [SANE, expanding(PATHS, 300), PdfPage("/X0 Do"), expanding(LETTERS, 300), SANE]
    hostile = write_nested(tmp_path / "bombas.pdf", bombs)
    assert hostile.stat().st_size < 20_000
    async with running(**SMALL) as perito:
        before = psutil.Process().memory_info().rss
        (document, pages), (other, _) = await asyncio.gather(
            taken_in(perito, hostile), taken_in(perito, write_pdf(tmp_path / "sano.pdf", [SANE, SANE]))
        )
        assert other.status is DocumentStatus.COMPLETE
        assert document.status is DocumentStatus.PARTIAL
        assert {number: page.status for number, page in pages.items()} == {
            1: PageStatus.READ, 2: PageStatus.FAILED, 3: PageStatus.FAILED, 4: PageStatus.FAILED, 5: PageStatus.READ,
        }  # fmt: skip
        assert all("takes more than 300 MB of memory" in pages[number].error for number in (2, 3, 4))
        assert "limits.file_memory_mb" in pages[2].error
        assert psutil.Process().memory_info().rss - before < 200_000_000  # the page alone would take gigabytes
        assert perito.page_images.page_image(document.id, 1, EVERYONE)[:2] == b"\xff\xd8"
        with pytest.raises(TooLarge, match=r"Page 3 of bombas\.pdf takes more than 300 MB of memory"):
            await asyncio.to_thread(perito.page_images.page_image, document.id, 3, EVERYONE)


async def test_a_file_that_cannot_be_opened_within_its_limits_is_refused(tmp_path: Path) -> None:
    """The only page of a file is looked at before the file is accepted."""
    path = write_pdf(tmp_path / "bomba.pdf", [expanding(PATHS, 300)])
    async with running(**SMALL) as perito:
        with pytest.raises(TooLarge, match=r"bomba\.pdf takes more than 300 MB of memory"):
            await perito.worker.submit(Upload(path, path.name), EVERYONE)
        assert perito.catalogue.documents(EVERYONE) == []
        assert [file for file in (perito.settings.home / "blobs").rglob("*") if file.is_file()] == []


async def test_a_process_killed_in_the_middle_of_a_page_costs_a_retry(tmp_path: Path) -> None:
    async with running() as perito:
        (first,) = perito.worker.files.pids
        before = cpu_seconds(first)
        path = write_pdf(tmp_path / "lento.pdf", [SLOW, SANE])
        killing = asyncio.create_task(kill_when_busy(first, before))
        document, pages = await taken_in(perito, path)
        await killing
        assert is_gone(first)
        assert document.status is DocumentStatus.COMPLETE, document.error
        assert pages[2].status is PageStatus.READ
        assert first not in perito.worker.files.pids


async def test_a_document_is_deleted_in_the_middle_of_an_endless_page(tmp_path: Path) -> None:
    path = write_nested(tmp_path / "sin fin.pdf", [SANE, PdfPage("/X0 Do")])
    async with running(file_memory_mb=20_000) as perito:
        (pid,) = perito.worker.files.pids
        before = cpu_seconds(pid)
        document = (await perito.worker.submit(Upload(path, path.name), EVERYONE)).document
        await until(lambda: is_busy(pid, before))
        begun = time.monotonic()
        await perito.worker.delete(document.id, EVERYONE)
        assert time.monotonic() - begun < 3
        await until(lambda: is_gone(pid))
        assert perito.catalogue.documents(EVERYONE) == []


async def test_an_upload_waits_for_no_process_to_start(tmp_path: Path) -> None:
    async with running() as perito:
        started = perito.worker.files.pids
        document, _ = await taken_in(perito, write_pdf(tmp_path / "uno.pdf", [SANE]))
        await until(lambda: bool(perito.worker.files.idle))  # its process was let go
        assert perito.page_images.page_image(document.id, 1, EVERYONE)
        assert perito.worker.files.pids == started


async def test_a_locked_file_is_kept_without_its_lock() -> None:
    path = shared("broken_or_hostile/password-example.pdf")
    async with running() as perito:
        with pytest.raises(EncryptedFile, match="does not open with that password"):
            await perito.worker.submit(Upload(path, path.name, password="wrong"), EVERYONE)
        submission = await perito.worker.submit(Upload(path, path.name, password="test"), EVERYONE)
        assert perito.page_images.page_image(submission.document.id, 1, EVERYONE)


def test_a_page_that_takes_too_long_is_given_up_and_the_next_is_read(tmp_path: Path) -> None:
    path = write_nested(tmp_path / "sin fin.pdf", [SANE, PdfPage("/X0 Do"), SANE])
    with pool(page_seconds=1, file_memory_mb=20_000) as files, files.open(path) as file:
        assert file.about.result().page_count == 3
        looks = [file.look(number) for number in (1, 2, 3)]
        with pytest.raises(TooLarge, match=r"Page 2 of sin fin\.pdf takes more than 1 seconds.*limits\.page_seconds"):
            looks[1].result()
        for number in (0, 2):
            text = looks[number].result().text
            assert text is not None
            assert "Sevilla" in text.blocks[1].text


def test_a_page_that_kills_twice_is_given_up_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = FileProcess.done

    def deadly(process: FileProcess, order: Order, *arguments: Any) -> Any:
        if order == Look(2):
            os.kill(process.pid, signal.SIGKILL)
        return done(process, order, *arguments)

    monkeypatch.setattr(FileProcess, "done", deadly)
    with pool() as files, files.open(write_pdf(tmp_path / "asesina.pdf", [SANE, SANE])) as file:
        with pytest.raises(UnreadableFile, match=r"Page 2 of asesina\.pdf .* was ended by signal 9, twice"):
            file.look(2).result()
        assert file.look(1).result().text is not None


def test_a_bug_on_one_page_costs_that_page_only(tmp_path: Path) -> None:
    with pool() as files, files.open(write_pdf(tmp_path / "a.pdf", [SANE, SANE])) as file:
        broken: Any = "2"
        with pytest.raises(UnreadableFile, match="Page 2 could not be read: TypeError"):
            file.look(broken).result()
        assert file.look(2).result().text is not None


def test_what_a_process_says_went_wrong_arrives_whole() -> None:
    error = pickle.loads(pickle.dumps(EncryptedFile("a.pdf is protected", "Give the password")))
    assert (type(error), error.message, error.advice) == (EncryptedFile, "a.pdf is protected", "Give the password")
    with pool() as files, files.open(Path("/nowhere/a.pdf")) as file, pytest.raises(NotFound, match=r"no file a\.pdf"):
        file.about.result()


def test_processes_are_kept_for_the_next_file_and_end_with_the_pool(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [SANE])
    with pool() as files:
        used: set[int] = set()
        for _ in range(3):
            with files.open(path) as file:
                file.about.result()
                used |= set(files.pids)
            file.wait()
        assert len(used) == 1
        opened = files.open(path)
    assert all(is_gone(pid) for pid in used)
    with pytest.raises(Exception):  # noqa: B017 - Cancelled or WorkerDied: the pool was closed around it
        opened.about.result()
    with files.open(path) as file, pytest.raises(WorkerDied, match="shutting down"):
        file.about.result()


def test_no_process_outlives_a_killed_server(tmp_path: Path) -> None:
    """Killed with -9 while a page is being read: nobody is left to tidy up."""
    path = write_nested(tmp_path / "sin fin.pdf", [SANE, PdfPage("/X0 Do")])
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from assistant.core.settings import load_settings\n"
        "from ingestion.wiring import build_files\n"
        "files = build_files(load_settings(limits={'file_memory_mb': 20_000}))\n"
        "file = files.open(Path(sys.argv[1]))\n"
        "file.about.result()\n"
        "print(*files.pids, flush=True)\n"
        "file.look(2).result()\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        before = cpu_seconds(pid)
        asyncio.run(until(lambda: is_busy(pid, before)))
        os.kill(server.pid, signal.SIGKILL)
    asyncio.run(until(lambda: is_gone(pid), seconds=10))
