"""A small pool of OCR processes, driven from threads.

A process is started by name (``python -m ingestion.readers.ocrworker``), so it shares nothing with the server
but a socket, and ends by itself when that socket's other end is gone: no orphans. One job at a time goes to a
process. What a page does to it (crash, endless loop, memory) costs that process only.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

from assistant.core.domain import Box, Reading, Word
from assistant.core.errors import PeritoError, WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.readers.ocrwire import Channel

log = logging.getLogger(__name__)

START_SECONDS = 100.0  # loading the models on a busy machine
PATIENCE = 3  # times ocr.page_seconds by the clock: a busy machine is not the page's fault
TICK_SECONDS = 0.25  # how often a running page is looked at
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


class ProcessGone(Exception):
    """The process crashed or was killed; says how it ended."""


class OutOfTime(Exception):
    """The page took too long; its process was killed."""


class Cancelled(Exception):
    """Nobody waits for the page any more; its process was killed."""


class OcrProcess:
    """One process with one OCR thread, from its start to its end. Not thread-safe: one job at a time."""

    def __init__(self, settings: OcrSettings) -> None:
        """Start it; ``wait_until_ready`` before the first job."""
        ours, theirs = socket.socketpair()
        self._settings = settings
        self._errors = TemporaryFile()  # noqa: SIM115 - closed in kill
        self.pages = 0
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ingestion.readers.ocrworker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=_environment(),
            )
        self._channel = Channel(ours, TICK_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Until its models are loaded. ProcessGone, OutOfTime; Misconfigured where there are no models."""
        reply = self._ask([pickle.dumps(self._settings)], START_SECONDS, None)
        if reply.error is not None:
            raise reply.error

    def run(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Reply:
        """Have one page read. ProcessGone, OutOfTime and Cancelled leave the process to be killed."""
        self.pages += 1
        return self._ask([pickle.dumps(job), pixels], self._settings.page_seconds, cancelled)

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self._errors.close()

    def _ask(self, messages: Sequence[bytes | memoryview], seconds: float, cancelled: threading.Event | None) -> Reply:
        deadline = time.monotonic() + PATIENCE * seconds
        cpu_limit = self._cpu_seconds() + seconds

        def still_worth_it() -> None:
            if cancelled is not None and cancelled.is_set():
                raise Cancelled
            if time.monotonic() > deadline or self._cpu_seconds() > cpu_limit:
                raise OutOfTime
            self._check_memory()

        try:
            for message in messages:
                self._channel.send(message, still_worth_it)
            reply: Reply = pickle.loads(self._channel.receive(still_worth_it))
        except EOFError:
            raise ProcessGone(self._ending()) from None
        return reply

    def _cpu_seconds(self) -> float:
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return 0.0  # it is gone; the socket says so in a moment
        return times.user + times.system

    def _check_memory(self) -> None:
        try:
            resident = psutil.Process(self.pid).memory_info().rss
        except psutil.Error:
            return  # it is gone; the socket says so in a moment
        if resident > (self._settings.memory_mb + RUNAWAY_MB) * 1_000_000:
            raise ProcessGone(f"took {resident / 1e9:.1f} GB of memory and was stopped")

    def _ending(self) -> str:
        """How it ended, in words, with its last words in the log."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "stopped answering"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        log.warning("OCR process %s ended with %s: %s", self.pid, code, self._errors.read().decode("utf-8", "replace"))
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


class OcrPool:
    """As many OCR processes as asked for, started when first needed; jobs are done in the order they come."""

    def __init__(self, settings: OcrSettings) -> None:
        self._settings = settings
        self.size = settings.processes or usable_processes()
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="ocr")
        self._idle: list[OcrProcess] = []
        self._live: set[OcrProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Future[Reading]:
        """The page's reading, as a future. WorkerDied; Misconfigured."""
        return self._threads.submit(self._read, job, pixels, cancelled)

    def warm(self) -> list[Future[None]]:
        """Start all processes now; each future is done when one more is ready."""
        return [self._threads.submit(self._warm_one) for _ in range(self.size)]

    @property
    def pids(self) -> list[int]:
        """The processes there are now."""
        with self._lock:
            return [process.pid for process in self._live]

    def close(self) -> None:
        """End all processes at once; pages being read are lost (WorkerDied)."""
        with self._lock:
            self._closed = True
            processes = list(self._live)
        for process in processes:
            _end(process.pid)
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in processes:
            self._discard(process)

    def _read(self, job: Job, pixels: bytes | memoryview, cancelled: threading.Event) -> Reading:
        ending = ""
        for _ in range(2):  # a crash costs one retry of the page
            if cancelled.is_set():
                raise Cancelled
            process = self._take()
            try:
                reply = process.run(job, pixels, cancelled)
            except ProcessGone as gone:
                ending = str(gone)
                self._discard(process)
            except OutOfTime:
                self._discard(process)
                raise WorkerDied(
                    f"Reading the page took longer than {self._settings.page_seconds:g} seconds of computing",
                    "Raise ocr.page_seconds and read the document again",
                ) from None
            except BaseException:
                self._discard(process)
                raise
            else:
                self._give_back(process, reply)
                if reply.reading is None:
                    raise reply.error or WorkerDied("The OCR process gave no reading", "Read the document again")
                return reply.reading
        raise WorkerDied(f"The OCR process {ending}, twice on the same page", "Look at that page; read it again later")

    def _take(self) -> OcrProcess:
        while process := self._pop_idle():
            if process.is_alive:
                return process
            self._discard(process)  # killed while it had nothing to do: no page's fault
        return self._start()

    def _pop_idle(self) -> OcrProcess | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _start(self) -> OcrProcess:
        """A process that is ready. One that is killed while it loads its models is no page's fault either."""
        try:
            return self._started()
        except ProcessGone as gone:
            log.warning("An OCR process %s while it started; another is started", gone)
        try:
            return self._started()
        except ProcessGone as gone:
            advice = "See `perito doctor`, and the log"
            raise WorkerDied(f"The OCR process did not start: it {gone}, twice", advice) from None

    def _started(self) -> OcrProcess:
        """ProcessGone; WorkerDied; Misconfigured."""
        with self._lock:
            if self._closed:
                raise WorkerDied("Perito is shutting down", "Read the document again after its start")
            process = OcrProcess(self._settings)
            self._live.add(process)
        try:
            process.wait_until_ready()
        except OutOfTime:
            self._discard(process)
            advice = "See `perito doctor`, and the log"
            raise WorkerDied("The OCR process did not start: it took too long", advice) from None
        except BaseException:
            self._discard(process)
            raise
        return process

    def _give_back(self, process: OcrProcess, reply: Reply) -> None:
        full = reply.resident > self._settings.memory_mb * 1_000_000
        if full or process.pages >= self._settings.pages_per_process:
            self._discard(process)
            return
        with self._lock:
            self._idle.append(process)

    def _discard(self, process: OcrProcess) -> None:
        with self._lock:
            known = process in self._live
            self._live.discard(process)
            if process in self._idle:
                self._idle.remove(process)
        if known:
            process.kill()

    def _warm_one(self) -> None:
        with self._lock:
            missing = len(self._live) < self.size
        if missing:
            process = self._start()
            with self._lock:
                self._idle.append(process)


def usable_processes() -> int:
    """One process a core that we may use, and no more than fit into memory."""
    room = psutil.virtual_memory().total // MEMORY_A_PROCESS
    return max(1, min(usable_cores(), room))


def usable_cores() -> int:
    """The cores this process may use: affinity and, in a container, its CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max": no quota
        return cores


def _end(pid: int) -> None:
    with suppress(psutil.Error):  # it may be gone already
        psutil.Process(pid).kill()


def _environment() -> dict[str, str]:
    """One thread a process, no look at the network, and a path on which it finds us."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    single: dict[str, Any] = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
    return {
        **os.environ,
        **single,
        "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True",
        "PYTHONPATH": os.pathsep.join(filter(None, (root, inherited))),
    }
