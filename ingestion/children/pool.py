"""Child processes that are kept between jobs, whatever they do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from assistant.core.errors import WorkerDied
from ingestion.children.process import OutOfTime, ProcessGone

log = logging.getLogger(__name__)

_TRIES = 2
_ADVICE = "See `perito doctor`, and the log"


class Startable(Protocol):
    """A process that takes jobs once it is ready."""

    @property
    def pid(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...

    def wait_until_ready(self) -> None:
        """ProcessGone, OutOfTime; PeritoError where it cannot work."""
        ...

    def end(self) -> None: ...

    def kill(self) -> None: ...


P = TypeVar("P", bound=Startable)


class ChildPool(Generic[P]):
    """Processes that wait for a job, and those at one. Thread-safe."""

    def __init__(self, start: Callable[[], P], called: str) -> None:
        """``start`` begins a process; ``called`` is what people call it."""
        self._begin = start
        self._called = called
        self._idle: list[P] = []
        self._live: set[P] = set()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes there are now."""
        with self._lock:
            return [process.pid for process in self._live]

    @property
    def idle(self) -> int:
        """How many wait for a job."""
        with self._lock:
            return len(self._idle)

    def take(self) -> P:
        """A process that is ready for a job: one that waits, else a new one. WorkerDied; PeritoError."""
        while process := self._pop_idle():
            if process.is_alive:
                return process
            self.discard(process)  # killed while it had nothing to do: no job's fault
        return self.start()

    def start(self) -> P:
        """A new process that is ready. One that is killed while it starts is no job's fault either."""
        ending = ""
        for _ in range(_TRIES):
            try:
                return self._started()
            except ProcessGone as gone:
                ending = str(gone)
                if self._closed:
                    raise _closing() from None
                log.warning("%s %s while it started", self._called, gone)
        raise WorkerDied(f"{self._called} did not start: it {ending}, twice", _ADVICE)

    def keep(self, process: P) -> None:
        """Let a process wait for its next job."""
        with self._lock:
            if not self._closed:
                self._idle.append(process)
                return
        self.discard(process)

    def discard(self, process: P) -> None:
        """End a process, whatever it does."""
        with self._lock:
            known = process in self._live
            self._live.discard(process)
            if process in self._idle:
                self._idle.remove(process)
        if known:
            process.kill()

    def end(self) -> list[P]:
        """End all processes at once and start none any more. Whoever waits for one is told that it is gone; the
        processes are still to be discarded, when nobody uses them any more."""
        with self._lock:
            self._closed = True
            processes = list(self._live)
        for process in processes:
            process.end()
        return processes

    def _pop_idle(self) -> P | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _started(self) -> P:
        with self._lock:
            if self._closed:
                raise _closing()
            process = self._begin()
            self._live.add(process)
        try:
            process.wait_until_ready()
        except OutOfTime:
            self.discard(process)
            raise WorkerDied(f"{self._called} did not start: it took too long", _ADVICE) from None
        except BaseException:
            self.discard(process)
            raise
        return process


def _closing() -> WorkerDied:
    return WorkerDied("Perito is shutting down", "Read the document again after its start")
