"""A real `perito serve` over a home of its own, for the figures that are about the whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

READY_SECONDS = 120.0
IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and how it may be asked."""

    http: httpx.Client
    process: psutil.Process
    seconds_to_ready: float

    def add(self, file: Path, *, bulk: bool = False) -> dict[str, Any]:
        """Hand a file over; returns its document, or why it was refused."""
        with file.open("rb") as content:
            reply = self.http.post("/api/documents", params={"bulk": bulk}, files={"files": (file.name, content)})
        reply.raise_for_status()
        return reply.json()["documents"][0]

    def listed(self, **wanted: Any) -> list[dict[str, Any]]:
        """The documents there are, newest first; ``wanted`` as GET /api/documents takes it."""
        reply = self.http.get("/api/documents", params=wanted)
        reply.raise_for_status()
        return reply.json()["documents"]

    def progress(self, document_id: str) -> Iterator[dict[str, Any]]:
        """The document's progress events until its end."""
        with self.http.stream("GET", f"/api/documents/{document_id}/progress") as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    def ask(self, question: str) -> dict[str, Any]:
        """The answer to a question."""
        reply = self.http.post("/api/ask", json={"question": question})
        reply.raise_for_status()
        return reply.json()

    def wait_until_idle(self) -> None:
        """Until it and its processes take (nearly) no processor time: what they prepare between jobs is done."""
        deadline, before = time.monotonic() + IDLE_SECONDS, self._busy_seconds()
        while time.monotonic() < deadline:
            time.sleep(0.5)
            now = self._busy_seconds()
            if now - before < 0.03:
                return
            before = now
        raise RuntimeError(f"the server was not idle within {IDLE_SECONDS:.0f} s")

    def _busy_seconds(self) -> float:
        seconds = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds += times.user + times.system
        return seconds

    def resident_mb(self) -> float:
        """Memory of the server's own process, without its OCR processes."""
        return self.process.memory_info().rss / 1e6

    def own_mb(self) -> float:
        """``resident_mb`` without files that are mapped into it (the index's, libraries), which the system may take
        back at any time. Linux only; the whole elsewhere."""
        memory = self.process.memory_info()
        return (memory.rss - getattr(memory, "shared", 0)) / 1e6

    def tree_mb(self) -> float:
        """Memory of the server and of all its processes; what they share is counted in each."""
        return sum(_resident(process) for process in (self.process, *self.process.children(recursive=True))) / 1e6


@contextlib.contextmanager
def running_server(home: Path | None = None) -> Generator[Server]:
    """A server over ``home``, or over an empty one of its own that is gone afterwards; ready."""
    with contextlib.ExitStack() as stack:
        home = home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perito-bench-")))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERITO_")}
        command = [sys.executable, "-m", "compose.cli", "serve", "--port", str(port)]
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environment | {"PERITO_HOME": str(home), "PERITO_LOG_LEVEL": "WARNING"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False) as http:
                _wait_ready(http, process)
                yield Server(http, psutil.Process(process.pid), time.perf_counter() - started)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


def _wait_ready(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if http.get("/readyz").status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server was not ready within {READY_SECONDS:.0f} s (exit code {process.poll()})")
