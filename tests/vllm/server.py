"""The real vLLM server with the tiny model, as a process that tests start, kill and start again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

MODEL = "tiny-qwen3-vl"
IMAGES = 2  # the server's limit of pictures in a prompt
READY_SECONDS = 600  # on a very busy machine; a minute is usual

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; the default takes half the machine
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_FLAGS = [
    *("--load-format", "dummy"),  # random weights, made up at start
    *("--served-model-name", MODEL),
    *("--max-model-len", "8192"),
    *("--max-num-seqs", "4"),
    *("--dtype", "bfloat16"),
    *("--limit-mm-per-prompt", f'{{"image": {IMAGES}, "video": 0}}'),
    "--enable-prompt-tokens-details",
    "--enforce-eager",
    "--skip-mm-profiling",
]


class VllmServer:
    """One server on one port. It can be started again after ``kill``, on the same port."""

    def __init__(self, python: Path, model: Path, log: Path) -> None:
        self._python = python
        self._model = model
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start and wait until it answers. RuntimeError with the end of its log when it does not."""
        with self._log.open("ab") as log:
            self._process = self._spawn(log)
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"vLLM did not start:\n{self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.5)

    def kill(self) -> None:
        """End it at once, with its engine, as a crash or a power cut would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def metric(self, name: str) -> float:
        """The sum of one of its Prometheus metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [str(self._python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(self._model)]
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port), *_FLAGS],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # a group of its own, so that its engine dies with it
        )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
