"""One child process, from its start to its end, seen from the server: it does what may end or exhaust a process.

A child is started by the name of its program (``python -m ingestion.…``), so it shares nothing with the server but a
socket, and ends by itself when that socket's other end is gone (``program``): no orphans. One job at a time goes
to it. What a job does to it (crash, endless loop, memory) costs that process only.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

from ingestion.children.wire import Channel

log = logging.getLogger(__name__)

PATIENCE = 3  # times the seconds of computing, by the clock: a busy machine is not the job's fault
TICK_SECONDS = 0.25  # how often a running job is looked at
ROOT = Path(__file__).resolve().parents[2]  # where the package lies
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


class ProcessGone(Exception):
    """The process crashed or was killed; says how it ended."""


class OutOfMemory(ProcessGone):
    """It took more memory than it may; it was killed, or died of it."""


class OutOfTime(Exception):
    """The job took too long; its process is to be killed."""


class Cancelled(Exception):
    """Nobody waits for the job any more; its process is to be killed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a job may take: seconds of computing, and bytes of memory that its process has meanwhile."""

    seconds: float
    memory: float


class ChildProcess:
    """A child and the socket to it. Not thread-safe: one job at a time."""

    def __init__(self, program: str, called: str, tick: float | None = None, **variables: str) -> None:
        """Start ``python -m program``. ``called`` is what people call it in the log; ``tick`` is how often a job is
        looked at, in seconds; ``variables`` go into its environment."""
        ours, theirs = socket.socketpair()
        self._called = called
        self._errors = TemporaryFile()  # noqa: SIM115 - closed in kill
        self._most_data = 0
        self._unwanted = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=_environment(variables),
            )
        self._channel = Channel(ours, tick or TICK_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(
        self,
        messages: Sequence[bytes | memoryview],
        bounds: Bounds,
        cancelled: threading.Event | None = None,
    ) -> bytearray:
        """Send ``messages``, maybe none, and wait for one. ProcessGone, OutOfMemory, OutOfTime and Cancelled leave
        the process to be killed."""
        deadline = time.monotonic() + PATIENCE * bounds.seconds
        cpu_limit = self._cpu_seconds() + bounds.seconds
        self._most_data = 0

        def still_worth_it() -> None:
            if cancelled is not None and cancelled.is_set():
                raise Cancelled
            if time.monotonic() > deadline or self._cpu_seconds() > cpu_limit:
                raise OutOfTime
            self._check_memory(bounds.memory)

        try:
            for message in messages:
                self._channel.send(message, still_worth_it)
            return self._channel.receive(still_worth_it)
        except EOFError:
            raise self._ending(bounds.memory) from None

    def end(self) -> None:
        """Have it end now, whatever it does; ``kill`` is still to be called, when nobody asks it any more."""
        self._unwanted = True
        self._process.kill()

    def kill(self) -> None:
        """End it now, whatever it does, and let go of it."""
        self.end()
        self._process.wait()
        self._channel.close()
        self._errors.close()

    def _cpu_seconds(self) -> float:
        try:
            times = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return 0.0  # it is gone; the socket says so in a moment
        return times.user + times.system

    def _check_memory(self, most: float) -> None:
        try:
            memory = psutil.Process(self.pid).memory_info()
        except psutil.Error:
            return  # it is gone; the socket says so in a moment
        self._most_data = max(self._most_data, memory.rss, getattr(memory, "data", 0))
        if memory.rss > most:
            raise OutOfMemory(f"took {memory.rss / 1e9:.1f} GB of memory and was stopped")

    def _ending(self, most: float) -> ProcessGone:
        """How it ended, in words, with its last words in the log."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return ProcessGone("stopped answering")
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        words = self._errors.read().decode("utf-8", "replace")
        level = logging.DEBUG if self._unwanted else logging.WARNING
        log.log(level, "%s %s ended with %s: %s", self._called, self.pid, code, words)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return OutOfMemory(how) if _died_of_memory(code, self._most_data, most) else ProcessGone(how)


OUT_OF_MEMORY = 70  # the code with which a child ends when it gets no more memory


def _died_of_memory(code: int, data: float, most: float) -> bool:
    """Whether it said so, or crashed by itself (libraries in C do where they get no memory) when it had much."""
    return code == OUT_OF_MEMORY or (code < 0 and code != -9 and data > most / 2)


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """One thread a process, and a path on which it finds us."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": path, **variables}
