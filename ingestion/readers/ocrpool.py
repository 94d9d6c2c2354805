"""A small pool of OCR processes, driven from threads (``ocrworker`` is their program).

What a page does to a process (crash, endless loop, memory) costs that process only, and the page a retry.
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psutil

from assistant.core.domain import Box, Reading, Word
from assistant.core.errors import PeritoError, WorkerDied
from assistant.core.machine import usable_cores
from assistant.core.settings import MEGABYTE, OcrSettings
from ingestion.children.pool import ChildPool
from ingestion.children.process import Bounds, Cancelled, ChildProcess, OutOfTime, ProcessGone

START_SECONDS = 100.0  # loading the models on a busy machine
RUNAWAY_MB = 1500  # over ocr.memory_mb at which a process is killed in the middle of a page
MEMORY_A_PROCESS = 1_500_000_000  # bytes to count on when nobody says how many processes


@dataclass(frozen=True, slots=True)
class Job:
    """What a process is asked: ``read`` a picture, or give its ``structure`` to known words. The picture's
    pixels (RGB, 8 bits, row by row) follow as bytes."""

    task: str
    width: int
    height: int
    regions: tuple[Box, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes back. ``resident`` is the process's resident memory in bytes after the job."""

    reading: Reading | None
    error: PeritoError | None
    resident: int


class OcrProcess(ChildProcess):
    """One process with one OCR thread, from its start to its end. Not thread-safe: one job at a time."""

    def __init__(self, settings: OcrSettings) -> None:
        """Start it; ``wait_until_ready`` before the first job."""
        super().__init__("ingestion.readers.ocrworker", "OCR process", PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK="True")
        self._settings = settings
        self.pages = 0

    def wait_until_ready(self) -> None:
        """Until its models are loaded. ProcessGone, OutOfTime; Misconfigured where there are no models."""
        bounds = Bounds(START_SECONDS, self._most_memory)
        reply: Reply = pickle.loads(self.ask([pickle.dumps(self._settings)], bounds))
        if reply.error is not None:
            raise reply.error

    def run(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Reply:
        """Have one page read. ProcessGone, OutOfTime and Cancelled leave the process to be killed."""
        self.pages += 1
        bounds = Bounds(self._settings.page_seconds, self._most_memory)
        return pickle.loads(self.ask([pickle.dumps(job), pixels], bounds, cancelled))

    @property
    def _most_memory(self) -> float:
        return (self._settings.memory_mb + RUNAWAY_MB) * 1e6


class OcrPool:
    """As many OCR processes as asked for, started when first needed; jobs are done in the order they come."""

    def __init__(self, settings: OcrSettings) -> None:
        self._settings = settings
        self.size = settings.processes or usable_processes()
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="ocr")
        self._processes = ChildPool(lambda: OcrProcess(settings), "The OCR process")

    def submit(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Future[Reading]:
        """The page's reading, as a future. WorkerDied; Misconfigured."""
        return self._threads.submit(self._read, job, pixels, cancelled)

    def warm(self) -> list[Future[None]]:
        """Start all processes now; each future is done when one more is ready."""
        return [self._threads.submit(self._warm_one) for _ in range(self.size)]

    @property
    def pids(self) -> list[int]:
        """The processes there are now."""
        return self._processes.pids

    def close(self) -> None:
        """End all processes at once; pages being read are lost (WorkerDied)."""
        ended = self._processes.end()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in ended:
            self._processes.discard(process)

    def _read(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Reading:
        ending = ""
        for _ in range(2):  # a crash costs one retry of the page
            if cancelled.is_set():
                raise Cancelled
            process = self._processes.take()
            try:
                reply = process.run(job, pixels, cancelled)
            except ProcessGone as gone:
                ending = str(gone)
                self._processes.discard(process)
            except OutOfTime:
                self._processes.discard(process)
                raise WorkerDied(
                    f"Reading the page took longer than {self._settings.page_seconds:g} seconds of computing",
                    "Raise ocr.page_seconds and read the document again",
                ) from None
            except BaseException:
                self._processes.discard(process)
                raise
            else:
                self._give_back(process, reply)
                if reply.reading is None:
                    raise reply.error or WorkerDied("The OCR process gave no reading", "Read the document again")
                return reply.reading
        raise WorkerDied(f"The OCR process {ending}, twice on the same page", "Look at that page; read it again later")

    def _give_back(self, process: OcrProcess, reply: Reply) -> None:
        full = reply.resident > self._settings.memory_mb * MEGABYTE
        if full or process.pages >= self._settings.pages_per_process:
            self._processes.discard(process)
        else:
            self._processes.keep(process)

    def _warm_one(self) -> None:
        if len(self._processes.pids) < self.size:
            self._processes.keep(self._processes.start())


def usable_processes() -> int:
    """One process a core that we may use, and no more than fit into memory."""
    room = psutil.virtual_memory().total // MEMORY_A_PROCESS
    return max(1, min(usable_cores(), room))
