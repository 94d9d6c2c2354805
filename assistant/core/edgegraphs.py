"""Graphs (HNSW) for the embedded store, built in a process of their own on a copy of it.

Edge builds graphs only when asked, and holds the interpreter's lock until it is done (measured: 13 s for 9,000
chunks on busy cores), in which nothing else in the process would run, not even the event loop. So the store is
copied, a child process works on the copy with low priority, and the store then takes the copy's place.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

BUILD_AFTER = 20_000  # points without a graph: all are compared until then, in about a millisecond


class GraphBuilder:
    """Decides when graphs are built, and has it done, one build at a time."""

    def __init__(self, rebuild: Callable[[Callable[[Path], bool]], None], points: int, without_graph: int) -> None:
        """``rebuild`` calls what it is given with the folder of a copy, and takes the copy when told True."""
        self._rebuild = rebuild
        self._points = points
        self._new = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.wrote(without_graph)

    def wrote(self, count: int) -> None:
        """So many points were written or deleted. Builds, in a thread, once a quarter as many are new as there
        were: each build goes over all points, so building more often would cost a growing store ever more."""
        with self._lock:
            self._new += count
            if self._new >= max(BUILD_AFTER, self._points // 4):
                self._start()

    def build_now(self) -> None:
        """Build whatever is missing and wait for it. (A build that runs already may have begun without it.)"""
        self._wait()
        with self._lock:
            if self._new:
                self._start()
        self._wait()

    def _wait(self) -> None:
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Start no other; a running build is given up."""
        with self._lock:
            self._stopped = True
            child = self._child
        if child is not None:
            child.kill()
        self._wait()

    def _start(self) -> None:
        if self._thread is None and not self._stopped:
            self._points += self._new
            self._new = 0
            self._thread = threading.Thread(target=self._run, name="index-graphs", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._rebuild(self._build)
        except Exception as error:  # the index works without, only slower; later writes try again
            log.warning("the graphs of the index could not be built: %s", error)
        finally:
            with self._lock:
                self._thread = None

    def _build(self, copy: Path) -> bool:
        command = [sys.executable, "-m", "assistant.core.indexedge", str(copy)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self._lock:
            if self._stopped:
                return False
            self._child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        _, said = self._child.communicate()
        done, self._child = self._child.returncode == 0, None
        if not done and not self._stopped:
            log.warning("the graphs of the index could not be built: %s", said.decode("utf-8", "replace")[-500:])
        return done and not self._stopped
