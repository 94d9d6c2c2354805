"""A collection follows a real folder: through this process's own Perito, with the system's real notices of changes, and
through a running server."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from rich.console import Console

from assistant.core.domain import Access, Document, DocumentStatus
from assistant.core.errors import DiskFull, StoreBusy, TransientError
from assistant.core.ports import SearchQuery, Upload
from assistant.core.settings import Settings, load_settings
from compose.backends import Backend, LocalBackend
from compose.standalone import Perito, open_perito
from compose.watch import events, loop, manifest
from compose.watch.folder import Ignored
from compose.watch.loop import Options, Told, Watch
from compose.watch.manifest import Entry, Manifest, files_manifest, make_manifest
from compose.watch.shown import manifest_table
from tests.compose.commands import Commands
from tests.documents import shared

ALL = Access("ana", None)
QUICK = Options(settle=0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    (folder / "2031").mkdir(parents=True)
    (folder / "fianza.txt").write_text("La fianza son dos mensualidades.")
    (folder / "2031" / "contrato.md").write_text("# Contrato\n\nEl contrato vence el 3 de mayo de 2033.\n")
    return folder


@pytest_asyncio.fixture
async def perito(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Perito]:
    """The real one, opened once for a test instead of for each watch in it."""
    async with open_perito(load_settings()) as perito:

        @asynccontextmanager
        async def opened(_: Settings) -> AsyncIterator[LocalBackend]:
            yield LocalBackend(perito)

        @asynccontextmanager
        async def looked_at(settings: Settings, *, reads: bool) -> AsyncIterator[LocalBackend]:
            yield LocalBackend(perito)

        monkeypatch.setattr(loop, "open_backend", opened)
        monkeypatch.setattr(manifest, "open_backend", looked_at)
        yield perito


async def once(perito: Perito, folder: Path) -> list[Told]:
    told: list[Told] = []
    await Watch(perito.settings, folder, "legal", QUICK, told.append).once()
    return told


def deeds(told: list[Told]) -> set[tuple[str, str]]:
    return {(one.done.deed, one.done.path) for one in told if one.done}


def held(perito: Perito, collection: str = "legal") -> dict[str, Document]:
    return {one.name: one for one in perito.catalogue.documents(ALL.narrowed(collection))}


def cited(perito: Perito, words: str) -> list[tuple[str, str]]:
    hits = perito.index.search(SearchQuery(words, None, ALL))
    return [(hit.chunk.document, hit.chunk.text) for hit in hits]


async def test_a_collection_is_brought_up_to_its_folder_again_and_again(perito: Perito, folder: Path) -> None:
    told = await once(perito, folder)
    assert deeds(told) == {("added", "fianza.txt"), ("added", "2031/contrato.md")}
    assert {one.read.name: one.read.status for one in told if one.read} == {
        "fianza.txt": "complete",
        "2031 › contrato.md": "complete",
    }
    (unchanged,) = await once(perito, folder)
    assert "Nothing to do" in unchanged.sentence and "(2 files)" in unchanged.sentence
    before = held(perito)

    shutil.move(folder / "fianza.txt", folder / "2031" / "fianza.txt")
    (folder / "2031" / "contrato.md").write_text("# Contrato\n\nEl contrato vence el 9 de junio de 2044.\n")
    assert deeds(await once(perito, folder)) == {("renamed", "2031/fianza.txt"), ("changed", "2031/contrato.md")}
    after = held(perito)
    assert set(after) == {"2031 › fianza.txt", "2031 › contrato.md"}
    assert after["2031 › fianza.txt"].id == before["fianza.txt"].id
    assert after["2031 › fianza.txt"].status is DocumentStatus.COMPLETE
    assert after["2031 › contrato.md"].version == 2
    assert [name for name, _ in cited(perito, "fianza")] == ["2031 › fianza.txt"]
    (passage,) = [text for _, text in cited(perito, "contrato vence")]
    assert "9 de junio de 2044" in passage

    (folder / "2031" / "fianza.txt").unlink()
    assert deeds(await once(perito, folder)) == {("removed", "2031/fianza.txt")}
    assert set(held(perito)) == {"2031 › contrato.md"}
    assert cited(perito, "fianza") == []


async def test_only_what_it_brought_in_is_removed_and_a_persons_deletion_is_respected(
    perito: Perito, folder: Path
) -> None:
    await perito.worker.submit(Upload(folder / "fianza.txt", "mine.txt", "legal"), ALL)
    await perito.worker.drain()
    assert ("known", "fianza.txt") in deeds(await once(perito, folder))
    (folder / "fianza.txt").unlink()
    assert deeds(await once(perito, folder)) == set()
    assert set(held(perito)) == {"mine.txt", "2031 › contrato.md"}
    await perito.worker.delete(held(perito)["2031 › contrato.md"].id, ALL)
    assert deeds(await once(perito, folder)) == set()
    assert set(held(perito)) == {"mine.txt"}


async def test_two_files_that_change_places_keep_their_documents(perito: Perito, folder: Path) -> None:
    shutil.move(folder / "2031" / "contrato.md", folder / "contrato.txt")
    await once(perito, folder)
    before = held(perito)
    (folder / "fianza.txt").rename(folder / "aside.tmp")
    (folder / "contrato.txt").rename(folder / "fianza.txt")
    (folder / "aside.tmp").rename(folder / "contrato.txt")
    assert {deed for deed, _ in deeds(await once(perito, folder))} == {"renamed"}
    after = held(perito)
    assert after["contrato.txt"].id == before["fianza.txt"].id
    assert after["fianza.txt"].id == before["contrato.txt"].id
    assert len(after) == 2
    assert deeds(await once(perito, folder)) == set()


async def test_a_crash_between_accepting_and_remembering_forgets_nothing(
    perito: Perito, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compose.watch.memory import Memory

    class Killed(BaseException): ...

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "took", dies)
        with pytest.raises(Killed):
            await once(perito, folder)
    await once(perito, folder)
    assert set(held(perito)) == {"fianza.txt", "2031 › contrato.md"}
    (folder / "fianza.txt").unlink()
    assert deeds(await once(perito, folder)) == {("removed", "fianza.txt")}


async def test_files_with_equal_names_stay_apart_in_one_collection(
    perito: Perito, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "others"
    other.mkdir()
    (other / "fianza.txt").write_text("La fianza de los otros es de un mes.")
    await once(perito, folder)
    await once(perito, other)
    assert set(held(perito)) == {"fianza.txt", "2031 › contrato.md", "others › fianza.txt"}


async def test_what_cannot_be_read_is_told_once_and_tried_when_it_changes(perito: Perito, folder: Path) -> None:
    (folder / "acta.pdf").write_bytes(b"")
    told = await once(perito, folder)
    (refused,) = [one.done for one in told if one.done and one.done.deed == "refused"]
    assert (refused.path, "is empty (0 bytes)" in refused.said) == ("acta.pdf", True)
    (unchanged,) = await once(perito, folder)
    assert "(2 files, and 1 that cannot be read)" in unchanged.sentence
    (folder / "acta.pdf").write_text("El acta 17-C se firmó en Zaragoza.")
    assert ("added", "acta.pdf") in deeds(await once(perito, folder))


async def test_trouble_leaves_everything_to_the_next_time(
    perito: Perito, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise DiskFull("There is no room left")

    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "submit", full)
        with pytest.raises(DiskFull):
            await once(perito, folder)
    with monkeypatch.context() as patched:
        patched.setattr(LocalBackend, "follow", full)
        with pytest.raises(TransientError, match="not known how some documents were read"):
            await once(perito, folder)
    assert len(held(perito)) == 2
    shutil.move(folder, folder.parent / "away")
    await asyncio.to_thread(folder.mkdir)
    with pytest.raises(TransientError, match="is its disk mounted"):
        await once(perito, folder)
    assert len(held(perito)) == 2


@asynccontextmanager
async def watching(perito: Perito, folder: Path) -> AsyncIterator[list[Told]]:
    """A watch that goes on, as a task; stopped at the end, in order."""
    told: list[Told] = []
    watch = Watch(perito.settings, folder, "legal", QUICK, told.append)
    task = asyncio.create_task(watch.forever())
    try:
        await until(lambda: bool(told), task)
        yield told
    finally:
        watch.stop()
        watch.stop()  # as by a second Ctrl+C
        await asyncio.wait_for(task, 20)


async def until(holds: Callable[[], bool], task: asyncio.Task[None] | None = None, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        if task is not None and task.done():
            task.result()
        await asyncio.sleep(0.05)


async def test_a_folder_of_which_the_system_gives_no_notice_is_not_looked_at_all_the_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(*_: object, **__: object) -> AsyncIterator[set[object]]:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(events, "awatch", too_many)
    monkeypatch.setattr(events, "ABSENT_SECONDS", 0.01)
    wake, told = asyncio.Event(), list[str]()
    task = asyncio.create_task(events.wake_on_changes(folder, Ignored(), wake, told.append))
    await until(lambda: bool(told), task)
    wake.clear()
    await asyncio.sleep(0.2)
    assert (wake.is_set(), task.done(), len(told)) == (False, False, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_home_that_takes_no_copies_is_told(perito: Perito, folder: Path) -> None:
    await asyncio.to_thread((perito.settings.home / "watch-1").write_text, "in the way")
    with pytest.raises(StoreBusy, match="watch-1 cannot be made: File exists"):
        await once(perito, folder)


async def test_changes_are_seen_as_they_happen(perito: Perito, folder: Path) -> None:
    async with watching(perito, folder) as told:
        await until(lambda: {one.read.name for one in told if one.read} == {"fianza.txt", "2031 › contrato.md"})
        growing = folder / "acta.txt"
        for line in range(8):
            with growing.open("a") as file:
                file.write(f"Renglón {line} del acta.\n\n")
            await asyncio.sleep(0.08)
        await until(lambda: any(one.read and one.read.name == "acta.txt" for one in told))
        shutil.move(folder / "fianza.txt", folder / "2031" / "fianza.txt")
        await until(lambda: ("renamed", "2031/fianza.txt") in deeds(told))
        (folder / "2031" / "contrato.md").unlink()
        await until(lambda: ("removed", "2031/contrato.md") in deeds(told))
        await asyncio.to_thread(shutil.rmtree, folder)
        await until(lambda: any("is not there" in one.sentence for one in told))
        (folder / "2031").mkdir(parents=True)
        (folder / "acta.txt").write_text("Otra acta.")
        (folder / "2031" / "fianza.txt").write_text("La fianza son dos mensualidades.")
        await until(lambda: ("changed", "acta.txt") in deeds(told))
        assert [one.done.path for one in told if one.done and one.done.deed == "added"].count("acta.txt") == 1
        assert not any(one.done.deed == "removed" for one in told if one.done and one.done.path != "2031/contrato.md")
    found = held(perito)
    assert set(found) == {"acta.txt", "2031 › fianza.txt"}


async def test_a_busy_home_is_waited_for(perito: Perito, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RETRY_SECONDS", (0.1,))
    real, tries = loop.open_backend, [0]

    @asynccontextmanager
    async def busy(settings: Settings) -> AsyncIterator[Backend]:
        tries[0] += 1
        if tries[0] < 3:
            raise StoreBusy("Another Perito process works there")
        async with real(settings) as backend:
            yield backend

    monkeypatch.setattr(loop, "open_backend", busy)
    async with watching(perito, folder) as told:
        await until(lambda: len([one for one in told if one.read]) == 2)
    assert sum(one.trouble for one in told) == 2


async def test_while_it_waits_after_trouble_others_may_have_the_home(
    perito: Perito, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_open = loop.open_backend, [False]

    @asynccontextmanager
    async def seen(settings: Settings) -> AsyncIterator[Backend]:
        async with real(settings) as backend:
            is_open[0] = True
            try:
                yield backend
            finally:
                is_open[0] = False

    async def full(*_: object) -> None:
        raise DiskFull("There is no room left")

    monkeypatch.setattr(loop, "open_backend", seen)
    monkeypatch.setattr(LocalBackend, "submit", full)
    async with watching(perito, folder) as told:
        await until(lambda: any("no room" in one.sentence for one in told))
        await until(lambda: not is_open[0], seconds=loop.RETRY_SECONDS[0] / 2)


# -- the command ------------------------------------------------------------------------------


def lines(process: subprocess.Popen[str]) -> Iterator[dict[str, object]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def test_the_command_watches_through_a_running_server_until_it_is_told_to_end(tmp_path: Path, folder: Path) -> None:
    perito = Commands(tmp_path / "home")
    with perito.server():
        command = [sys.executable, "-m", "compose.cli", "watch", str(folder), "--settle", "0.3", "--json"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=perito.environment
        )
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            heard = lines(process)
            events = [next(heard) for _ in range(5)]
            assert [one["event"] for one in events].count("read") == 2
            (folder / "fianza.txt").rename(folder / "aval.txt")
            renamed = next(heard)
            assert (renamed["event"], renamed["path"], renamed["name"]) == ("renamed", "aval.txt", "aval.txt")
            listed = perito("documents", "list", "--json").json["documents"]
            assert {one["name"] for one in listed} == {"aval.txt", "2031 › contrato.md"}
            second = perito("watch", folder, "--once")
            assert (second.code, "already being watched" in second.err) == (1, True)
            dry = perito("watch", folder, "--dry-run", "--json", "--settle", "0.2")
            assert (dry.code, dry.json["changes"], dry.json["total"]["pages"]) == (0, [], 0)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()
    assert sorted(path.name for path in (tmp_path / "home").glob("watch*")) == ["watch-1.lock", "watch.db"]
    assert (tmp_path / "home" / "watch.db").stat().st_mode & 0o077 == 0


async def test_the_manifest_tells_what_would_change_and_what_it_takes(perito: Perito, folder: Path) -> None:
    await once(perito, folder)
    shutil.copy(shared("digital_text/es_aeat_modelo190_instrucciones.pdf"), folder / "modelo.pdf")
    shutil.copy(shared("scan_hard/sroie_004.jpg"), folder / "receipt.jpg")
    shutil.copy(folder / "fianza.txt", folder / "copy.txt")
    shutil.copy(folder / "fianza.txt", folder / "copy of the copy.txt")
    await asyncio.to_thread((folder / "empty.pdf").write_bytes, b"")
    await asyncio.to_thread((folder / "fianza.txt").write_text, "La fianza es de un mes.")
    before = held(perito)
    made = await make_manifest(perito.settings, folder, "legal", QUICK, lambda _: None)
    entries = {entry.path: entry for entry in made.entries}
    assert {path: entry.action for path, entry in entries.items()} == {
        "modelo.pdf": "add",
        "receipt.jpg": "add",
        "copy.txt": "known",
        "copy of the copy.txt": "rename",
        "empty.pdf": "refuse",
        "fianza.txt": "add",
    }
    receipt, modelo = entries["receipt.jpg"].estimate, entries["modelo.pdf"].estimate
    assert receipt.readers == {"ocr": 1}
    assert receipt.seconds is not None
    assert receipt.seconds > 1
    assert modelo.pages == sum(modelo.readers.values()) == 7
    assert modelo.readers["text"] > 3
    assert (made.total.pages, made.total.price) == (9, 0.0)
    assert json.loads(json.dumps(made.as_dict()))["total"]["pages"] == 9
    shown = Console(record=True, width=160, file=io.StringIO())
    shown.print(manifest_table(made))
    assert "receipt.jpg" in shown.export_text()
    assert held(perito) == before
    shutil.copy(folder / "receipt.jpg", folder / "again.jpg")
    names = ("receipt.jpg", "again.jpg", "2031/contrato.md", "empty.pdf", "empty.pdf")
    told = await files_manifest(perito.settings, [folder / name for name in names], "legal")
    assert [entry.action for entry in told.entries] == ["add", "known", "known", "refuse", "refuse"]
    assert told.entries[1].said == f"It is the same as {folder / 'receipt.jpg'}."
    assert told.entries[2].said == "The collection holds it as 2031 › contrato.md."
    assert (told.folder, told.total.pages) == (folder, 1)


@pytest.mark.parametrize("count", [1, 2])
def test_the_sum_of_a_manifest_reads_right_for_any_number(tmp_path: Path, count: int) -> None:
    changed = tuple(Entry("change", f"{number}.txt") for number in range(count))
    shown = Console(record=True, width=160, file=io.StringIO())
    shown.print(manifest_table(Manifest(tmp_path, "legal", changed)))
    assert f"{count} changed" in shown.export_text()
