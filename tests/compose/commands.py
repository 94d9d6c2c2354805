"""Runs the real `perito` command in processes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.documents import ROOT


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Commands:
    """The command line over one home."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERITO_")}
        return inherited | {"PERITO_HOME": str(self.home), "COLUMNS": "200", "PYTHONPATH": str(ROOT)}

    def __call__(self, *words: str | Path, timeout: float = 180, stdin: str = "", **variables: str) -> Outcome:
        command = [sys.executable, "-m", "compose.cli", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=self.environment | variables, input=stdin
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str | Path, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "compose.cli", *map(str, words)]
        return subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | variables,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def server(self, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        """A running `perito serve`, ready, as (its URL, its process)."""
        port = free_port()
        process = self.start("serve", "--port", str(port), **variables)
        try:
            wait_ready(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}", process
        finally:
            end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_ready(url: str, process: subprocess.Popen[str], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended: {process.stderr.read() if process.stderr else ''}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5) as reply:
            if reply.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the server was not ready in time")


def end(process: subprocess.Popen[str]) -> None:
    """Ctrl-C as a person would; by force when that does not help."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
    if process.stderr:
        process.stderr.close()
