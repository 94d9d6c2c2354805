"""Foreign files, opened in child processes (``fileprogram`` is their program): no file can end or exhaust the server.

An open file has a process to itself, which works within a time and a memory limit. What a page does to it (crash,
endless loop, memory) costs that page, not the others: they go on in a fresh process. Processes are kept between files,
so that opening one does not wait for a process to start.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from assistant.core.errors import PeritoError, TooLarge, UnreadableFile
from assistant.core.machine import usable_cores
from assistant.core.settings import MEGABYTE, LimitSettings, TriageSettings
from ingestion.children.pool import ChildPool
from ingestion.children.process import (
    Bounds,
    Cancelled,
    ChildProcess,
    OutOfMemory,
    OutOfTime,
    ProcessGone,
)
from ingestion.firstlook import About, FirstLook

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

START_SECONDS = 30.0
CLOSE_SECONDS = 5.0
TICK_SECONDS = 0.05  # a bomb takes a gigabyte a second
TRIES = 2  # a crash costs one retry
FILES_A_PROCESS = 500
LEAST_IDLE = 4  # kept: three documents are read while one is accepted, and to start one costs most of a second
GROWN = 400_000_000  # bytes of resident memory with which a process is not kept for the next file
PIECE = 4_000_000  # bytes of an unlocked copy that travel at once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a process is told at its start."""

    limits: LimitSettings
    triage: TriageSettings
    recording_mb: int = 0  # up to which recordings are taken


@dataclass(frozen=True, slots=True)
class Opening:
    """Open this file; the answer is its ``About``."""

    path: Path
    name: str
    password: str
    shunned: frozenset[int] = frozenset()  # pages not to be loaded on the way to others


@dataclass(frozen=True, slots=True)
class Look:
    """Take a page in; the answer is its ``FirstLook``."""

    number: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draw a page; the answer is its width and height, and its pixels (RGB, 8 bits, row by row) as bytes."""

    number: int
    dpi: float


@dataclass(frozen=True, slots=True)
class Copy:
    """The next piece of the file as it opens without a password, as bytes; none when it is whole."""


@dataclass(frozen=True, slots=True)
class Extract:
    """The next piece of a file within the file, as bytes, ``anew`` from its beginning; none when it is whole."""

    index: int
    anew: bool


@dataclass(frozen=True, slots=True)
class Closing:
    """Close the file."""


Order = Opening | Look | Drawing | Copy | Extract | Closing


@dataclass(frozen=True, slots=True)
class Peeking:
    """What may come before an answer: another page is loaded on the way, to compare running heads."""

    number: int


class PeekFailed(Exception):
    """Another page than the one that was wanted broke a limit (then ``error`` says which), or ended the process."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(number)
        self.number = number
        self.error = error


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back for an order, with bytes after it. ``trace`` is there for errors nobody foresaw; ``resident`` is
    the process's resident memory in bytes afterwards."""

    value: Any
    error: PeritoError | None
    trace: str
    resident: int


class FileProcess(ChildProcess):
    """One process, from its start to its end. Not thread-safe: one order at a time."""

    def __init__(self, terms: Terms) -> None:
        """Start it; ``wait_until_ready`` before the first order."""
        super().__init__("ingestion.fileprogram", "The process that opens files", TICK_SECONDS)
        self._terms = terms
        self.files = 0
        self.resident = 0

    @property
    def is_worn(self) -> bool:
        """Whether a fresh one is better for the next file."""
        return self.files >= FILES_A_PROCESS or self.resident > GROWN

    def wait_until_ready(self) -> None:
        """Until its libraries are loaded. ProcessGone, OutOfTime."""
        self.ask([pickle.dumps(self._terms)], self._bounds(START_SECONDS))

    def done(self, order: Order, seconds: float, cancelled: threading.Event | None = None) -> tuple[Any, bytearray]:
        """The answer's value and bytes. PeritoError as the process says; ProcessGone, OutOfTime and Cancelled leave
        the process to be killed."""
        self.files += isinstance(order, Opening)
        answer = self._heard([pickle.dumps(order)], seconds, cancelled)
        while isinstance(answer, Peeking):
            try:
                answer = self._heard([], seconds, cancelled)
            except (ProcessGone, OutOfTime) as error:
                raise PeekFailed(answer.number, error) from None
        data = self.ask([], self._bounds(seconds), cancelled)
        self.resident = answer.resident
        if answer.trace:
            log.error("%s: %s", type(order).__name__, answer.trace)
        if answer.error is not None:
            raise answer.error
        return answer.value, data

    def _heard(self, messages: list[bytes], seconds: float, cancelled: threading.Event | None) -> Answer | Peeking:
        return pickle.loads(self.ask(messages, self._bounds(seconds), cancelled))

    def _bounds(self, seconds: float) -> Bounds:
        return Bounds(seconds, self._terms.limits.file_memory_mb * 1e6)


class OpenFile:
    """A file in its process; a context manager. Thread-safe: what is asked is done in order, and comes as futures.

    After ``close`` what was not done yet fails with ``Cancelled``; closing never waits.
    """

    def __init__(self, files: FilePool, opening: Opening, limits: LimitSettings) -> None:
        self._files = files
        self._opening = opening
        self._limits = limits
        self._process: FileProcess | None = None
        self._lost: dict[int, TooLarge] = {}
        self._described: About | None = None  # by the process there is now
        self._closed = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="file")
        self.about: Future[About] = self._thread.submit(self._do, f"{opening.name} cannot be opened", self._opened)
        """Of the file as a whole. What ``open_source`` raises, and TooLarge or UnreadableFile where opening it takes
        more time or memory than it may, or ends its process."""

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._opening.path

    def look(self, number: int) -> Future[FirstLook]:
        """Page ``number``, from 1. UnreadableFile when it cannot be loaded, or ends its process twice; TooLarge when
        it takes more time or memory than it may."""

        def look() -> FirstLook:
            return self._page(number, Look(number))[0]

        return self._thread.submit(self._do, f"{self._what(number)} cannot be read", look)

    def render(self, number: int, dpi: float) -> Future[Image]:
        """Page ``number`` as shown, RGB, of at most ``limits.render_megapixels``. Errors as ``look``."""

        def render() -> Image:
            from PIL import Image

            size, pixels = self._page(number, Drawing(number, dpi))
            return Image.frombytes("RGB", size, pixels)

        return self._thread.submit(self._do, f"{self._what(number)} cannot be drawn", render)

    @contextmanager
    def unlocked(self) -> Generator[BinaryIO]:
        """A copy of the file that opens without its password; for callers without an event loop."""
        with TemporaryFile() as copy:
            self._thread.submit(self._do, f"{self._opening.name} cannot be copied", lambda: self._copy(copy)).result()
            copy.seek(0)
            yield copy

    def extract(self, index: int, copy: BinaryIO, most: int) -> Future[None]:
        """Write the file within that is ``about.enclosures[index]`` to ``copy``. UnreadableFile; TooLarge also where
        it has more than ``most`` bytes, whatever it claims; OSError where it cannot be written."""

        def extract() -> None:
            self._extract(index, copy, most)

        return self._thread.submit(self._do, f"A file in {self._opening.name} cannot be taken out", extract)

    def close(self) -> None:
        """Let go of the file, at once."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.submit(self._let_go)
            self._thread.shutdown(wait=False)

    def wait(self) -> None:
        """Until a closed file has let go of its process, for callers without an event loop. A moment, unless something
        is being done with it."""
        self._thread.shutdown(wait=True)

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the file's thread -----------------------------------------------------------------

    def _do(self, failure: str, task: Callable[[], T]) -> T:
        """``task`` with the file open. Where its process ends, it is tried once more in a fresh one."""
        tries_left = TRIES
        while True:
            if self._closed.is_set():
                raise Cancelled
            try:
                self._opened()
                return task()
            except PeritoError:
                raise
            except PeekFailed as failed:  # no fault of the page that was wanted
                self._drop()
                self._shun(failed)
            except ProcessGone as gone:
                self._drop()
                tries_left -= 1
                if not tries_left:
                    raise UnreadableFile(f"{failure}: the process that tried {gone}, twice") from None
            except BaseException:  # nobody waits for it any more, or it cannot be told how far the process is
                self._drop()
                raise

    def _opened(self) -> About:
        about = self._described
        if about is None:
            about, _ = self._bounded(self._opening, self._opening.name, "open")
            self._described = about
        return about

    def _shun(self, failed: PeekFailed) -> None:
        """Load a page no more on the way to others; what it does over the limits, it would do again."""
        number = failed.number
        self._opening = replace(self._opening, shunned=self._opening.shunned | {number})
        too_large = self._too_large(failed.error, self._what(number), "page")
        if too_large is not None:
            self._lost[number] = too_large

    def _page(self, number: int, order: Order) -> tuple[Any, bytearray]:
        if number in self._lost:
            raise self._lost[number]
        return self._bounded(order, self._what(number), "page")

    def _copy(self, copy: BinaryIO) -> None:
        copy.seek(0)
        copy.truncate()
        while data := self._bounded(Copy(), self._opening.name, "open")[1]:
            copy.write(data)

    def _extract(self, index: int, copy: BinaryIO, most: int) -> None:
        copy.seek(0)
        copy.truncate()
        anew, what = True, f"A file in {self._opening.name}"
        while data := self._bounded(Extract(index, anew), what, "page")[1]:
            if copy.tell() + len(data) > most:
                raise TooLarge(f"It has more than {most // MEGABYTE} MB unpacked, which is the limit")
            copy.write(data)
            anew = False

    def _bounded(self, order: Order, what: str, kind: str) -> tuple[Any, bytearray]:
        """The answer to ``order``. TooLarge where a limit ends it; ProcessGone, PeekFailed, Cancelled."""
        try:
            return self._running().done(order, self._seconds(kind), self._closed)
        except (OutOfMemory, OutOfTime) as error:
            self._drop()
            raise self._too_large(error, what, kind) or error from None

    def _too_large(self, error: Exception, what: str, kind: str) -> TooLarge | None:
        """What to say of ``what``, which broke a limit; None where it did not."""
        advice = "Save it anew in the program that made it and send that copy. If it has to be so, raise limits."
        if isinstance(error, OutOfMemory):
            memory = self._limits.file_memory_mb
            return TooLarge(f"{what} takes more than {memory} MB of memory", f"{advice}file_memory_mb")
        if isinstance(error, OutOfTime):
            seconds = self._seconds(kind)
            return TooLarge(f"{what} takes more than {seconds:g} seconds of computing", f"{advice}{kind}_seconds")
        return None

    def _seconds(self, kind: str) -> float:
        return self._limits.page_seconds if kind == "page" else self._limits.open_seconds

    def _running(self) -> FileProcess:
        if self._process is None:
            self._process = self._files.take()
        return self._process

    def _drop(self) -> None:
        """End the process; the next order gets a fresh one."""
        process, self._process, self._described = self._process, None, None
        if process is not None:
            self._files.discard(process)

    def _let_go(self) -> None:
        """Give the process back for the next file."""
        process, self._process, self._described = self._process, None, None
        if process is not None:
            try:
                process.done(Closing(), CLOSE_SECONDS)
            except (ProcessGone, OutOfTime, PeritoError):
                self._files.discard(process)
            else:
                self._files.give_back(process)
        self._files.forget(self)

    def _what(self, number: int) -> str:
        return f"Page {number} of {self._opening.name}"


class FilePool:
    """Opens files. Thread-safe; ``close`` ends it."""

    def __init__(self, limits: LimitSettings, triage: TriageSettings, recording_mb: int = 0) -> None:
        """``recording_mb``: the size up to which recordings are taken; 0: none is."""
        self._limits = limits
        terms = Terms(limits, triage, recording_mb)
        self._processes = ChildPool(lambda: FileProcess(terms), "The process that opens files")
        self._most_idle = max(LEAST_IDLE, usable_cores() + 1)
        self._open: set[OpenFile] = set()
        self._lock = threading.Lock()
        self._keeper: ThreadPoolExecutor | None = None

    def open(self, path: Path, *, name: str = "", password: str = "") -> OpenFile:
        """Begin to open a file; returns at once. ``name`` is what people call it."""
        file = OpenFile(self, Opening(path.absolute(), name or path.name, password), self._limits)
        with self._lock:
            self._open.add(file)
        return file

    def warm(self) -> None:
        """Have a process ready from now on; returns at once."""
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="files")
        self._keep_one_ready()

    @property
    def pids(self) -> list[int]:
        """The processes there are now."""
        return self._processes.pids

    @property
    def idle(self) -> int:
        """How many of them wait for a file."""
        return self._processes.idle

    def close(self) -> None:
        """End all processes; what was still asked of a file fails."""
        with self._lock:
            opened = list(self._open)
        for file in opened:
            file.close()
        ended = self._processes.end()
        for file in opened:
            file.wait()
        if self._keeper is not None:
            self._keeper.shutdown(wait=True, cancel_futures=True)
        for process in ended:
            self._processes.discard(process)

    # -- for open files -----------------------------------------------------------------------

    def take(self) -> FileProcess:
        """A process that is ready to open a file. WorkerDied."""
        return self._processes.take()

    def give_back(self, process: FileProcess) -> None:
        """Keep a process whose file is closed, unless it is worn or there are enough."""
        if process.is_worn or self._processes.idle >= self._most_idle:
            self.discard(process)
        else:
            self._processes.keep(process)

    def discard(self, process: FileProcess) -> None:
        """End a process, whatever it does."""
        self._processes.discard(process)
        self._keep_one_ready()

    def forget(self, file: OpenFile) -> None:
        """A file that is closed."""
        with self._lock:
            self._open.discard(file)

    def _keep_one_ready(self) -> None:
        keeper = self._keeper
        if keeper is not None:
            try:
                keeper.submit(self._start_one)
            except RuntimeError:  # it is closed
                return

    def _start_one(self) -> None:
        if self._processes.idle:
            return
        try:
            self._processes.keep(self._processes.start())
        except PeritoError as error:  # who needs one will be told
            log.info("no process to open files is ready: %s", error)
