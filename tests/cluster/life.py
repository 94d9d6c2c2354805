"""A stretch of Perito's life in a process of its own, that may be struck at a boundary, and goes on in the next.

``Life`` says which act is played over which stores and where the blow falls. What the process was told is done is noted
in ``told``, as a client would remember it; the next process goes on with what nobody was told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from assistant.core import database
from assistant.core.domain import Access, Correction
from assistant.core.errors import DiskFull, NotFound
from assistant.core.points import Where
from assistant.core.ports import DocumentQuery, Upload
from assistant.core.settings import load_settings
from compose import standalone
from compose.standalone import Perito, open_perito
from ingestion import crew
from tests.cluster.boundaries import Boundaries, Boundary
from tests.cluster.fulldisk import FullDisk
from tests.cluster.notes import Notes, noted, watch_pages
from tests.cluster.state import state_of

EVERYONE = Access("ana", None)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["__main__", "tests.cluster.preloaded"])
REFUSALS = 100  # of one request, by a full disk, before a client gives up

Step = Callable[[Perito, Path], Awaitable[object]]


@dataclass(frozen=True)
class Life:
    """What one process does. ``folder`` holds what the processes over the same stores note."""

    folder: Path
    papers: Path
    variables: Mapping[str, str]
    act: str
    blow: Boundary | None = None
    signal: int = signal.SIGKILL
    census: bool = False
    full_at: int = 0  # the write, from 1, that finds the disk full; 0: none
    full_for: int = 1  # writes
    stays: bool = False  # until SIGTERM, when the act is over

    @property
    def told(self) -> Path:
        """One byte for every step of the act that was said to be done."""
        return self.folder / "told"

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What all processes over this folder noted, in order."""
        return noted(self.folder / "notes")

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def begin(self) -> BaseProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        process = CONTEXT.Process(target=live, args=(self,))
        process.start()
        return process


# -- the acts: each begins where the one before it ended --------------------------------------


def _hand_in(name: str, paper: str = "") -> Step:
    async def step(perito: Perito, papers: Path) -> None:
        await perito.worker.submit(Upload(papers / (paper or name), name, "uno"), EVERYONE)

    return step


async def _wait(perito: Perito, papers: Path) -> None:
    await perito.worker.drain()


async def _correct(perito: Perito, papers: Path) -> None:
    block = (await asyncio.to_thread(perito.catalogue.page, _id(perito, "acta.pdf"), 2, EVERYONE)).blocks[0]
    said = Correction(2, block.bbox, "Lo que de verdad dice la segunda hoja", CORRECTED)
    await perito.worker.correct(_id(perito, "acta.pdf"), said, EVERYONE)


def _asked(ask: str, name: str, *more: str) -> Step:
    async def step(perito: Perito, papers: Path) -> None:
        await getattr(perito.worker, ask)(_id(perito, name), *more, EVERYONE)

    return step


async def _rename(perito: Perito, papers: Path) -> None:
    with contextlib.suppress(NotFound):  # it has its new name already, though nobody was told
        await perito.worker.rename(_id(perito, "cartas.zip"), "letras.zip", EVERYONE)


async def _delete(perito: Perito, papers: Path) -> None:
    for name in ("cartas.zip", "letras.zip"):
        with contextlib.suppress(NotFound):  # it is gone already, though nobody was told
            await perito.worker.delete(_id(perito, name), EVERYONE)


def _id(perito: Perito, name: str) -> str:
    for found in perito.catalogue.documents(EVERYONE, DocumentQuery(name=name)):
        if found.name == name:
            return found.id
    raise NotFound(f"There is no {name}")


CORRECTED = "Acta nueva 2"
ACTS: dict[str, list[Step]] = {
    "read": [_hand_in("acta.pdf"), _wait],
    "unpack": [_hand_in("cartas.zip"), _wait],
    "replace": [_hand_in("acta.pdf", "acta2.pdf"), _wait],
    "correct": [_correct, _wait],
    "reread": [_asked("reread", "acta.pdf"), _wait],
    "cancel": [_hand_in("largo.pdf"), _asked("cancel", "largo.pdf"), _asked("retry", "largo.pdf"), _wait],
    "move": [_asked("move", "cartas.zip", "dos"), _wait],
    "rename": [_rename, _wait],
    "delete": [_delete],
}
SCAN = {"scan": [_hand_in("recibo.tiff"), _wait]}
CLUSTER = {
    "accept": [_hand_in("acta.pdf"), _hand_in("cartas.zip")],
    "work": [_wait],
    "alone": [_hand_in("tomo.pdf"), _hand_in("recibo.tiff"), _hand_in("cartas.zip"), _wait],
    "all": [
        *ACTS["read"],
        *ACTS["unpack"],
        *ACTS["replace"],
        *ACTS["reread"],
        *ACTS["delete"],
    ],
}


# -- the process ------------------------------------------------------------------------------


def live(life: Life) -> None:
    """Play the act from where it was told to be, note the state, end. The target of a process."""
    for name in [name for name in os.environ if name.startswith("PERITO_")]:
        del os.environ[name]
    os.environ.update(life.variables)
    log = os.open(life.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True, format="%(process)d %(name)s %(message)s")
    crew.RETRY_SECONDS = (0.05,)  # so that the tests need not wait for what waits a second,
    database.IDLE_SECONDS = 3  # or ten
    asyncio.run(_live(life))


async def _live(life: Life) -> None:
    note = Notes(life.folder / "notes")
    census = Census() if life.census else None

    def reached(boundary: Boundary) -> None:
        if census is not None:
            census.passed(boundary)
        if boundary == life.blow:
            note(struck=str(boundary))
            os.kill(os.getpid(), life.signal)

    full = FullDisk(life.full_at, life.full_for, note)
    full.install()
    boundaries = Boundaries(reached)
    build = standalone.build_worker

    def build_and_find(*arguments: Any, **named: Any) -> Any:
        worker = build(*arguments, **named)
        watch_pages(worker, note)
        boundaries.find(worker)
        return worker

    standalone.build_worker = build_and_find
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with open_perito(load_settings()) as perito:
        if census is not None:
            census.look_at(perito)
        playing = asyncio.create_task(_play(life, perito, note))
        ending = asyncio.create_task(ended.wait())
        await asyncio.wait({playing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            playing.result()
            if census is not None:
                note(passed=census.told(), writes=full.writes)
            note(state=state_of(perito))
            if life.stays:
                await ending
        for task in (playing, ending):
            task.cancel()
        await asyncio.gather(playing, ending, return_exceptions=True)


async def _play(life: Life, perito: Perito, note: Notes) -> None:
    """What was begun goes on by itself; then the steps that nobody was told of."""
    done = life.told.stat().st_size if life.told.exists() else 0
    await perito.worker.drain()
    for step in ({**ACTS, **SCAN, **CLUSTER})[life.act][done:]:
        await _insist(step, perito, life.papers, note)
        with life.told.open("ab", buffering=0) as told:
            told.write(b".")


async def _insist(step: Step, perito: Perito, papers: Path, note: Notes) -> None:
    """Ask again, as a person would, where the disk is full."""
    for _ in range(REFUSALS):
        try:
            await step(perito, papers)
            return
        except DiskFull as error:
            note(refused=str(error))
            await asyncio.sleep(0.02)
    raise AssertionError("the disk stays full")


class Census:
    """The boundaries an undisturbed life comes to, and between which of them anything changed in its stores."""

    def __init__(self) -> None:
        self._passed: list[tuple[Boundary, int]] = []
        self._stage = 0
        self._seen: object = None
        self._look: Callable[[], object] | None = None
        self._busy = threading.Lock()
        self._looking = threading.local()

    def look_at(self, perito: Perito) -> None:
        """Look at its stores from now on."""
        changes = _changes(standalone.catalogue_url(perito.settings))
        files, alone = perito.settings.home / "blobs", perito.settings.index.kind == "edge"

        def look() -> object:
            found = perito.index._store.fetch(Where(), 10_000) if alone else []  # type: ignore[attr-defined]
            points = sorted(f"{point.id} {point.payload}" for point in found)
            names = sorted(str(path) for path in files.rglob("*"))
            return changes(), hashlib.sha256(repr((points, names)).encode()).hexdigest()

        self._look = look

    def passed(self, boundary: Boundary) -> None:
        if getattr(self._looking, "now", False):  # by looking
            return
        with self._busy:
            self._looking.now = True
            seen = self._look() if self._look is not None else None
            self._looking.now = False
            self._stage += seen != self._seen
            self._seen = seen
            self._passed.append((boundary, self._stage))

    def told(self) -> list[tuple[Boundary, int]]:
        """Each boundary with the number of the change before it. Nothing is looked at from now on."""
        with self._busy:
            self._look = None
            return list(self._passed)


def _changes(url: str) -> Callable[[], object]:
    """What differs whenever somebody wrote to the database since."""
    if url.startswith("sqlite"):
        lite = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
        return lambda: lite.execute("PRAGMA data_version").fetchone()
    import psycopg

    postgres = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
    return lambda: str(postgres.execute("SELECT pg_current_wal_insert_lsn()").fetchone())
