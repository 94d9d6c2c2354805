"""The server, once for all tests here. ``make test-vllm`` sets up its environment and selects them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.vllm.server import VllmServer

VENV = ROOT / ".venvs" / "vllm"


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    return VENV / "bin" / "python"


@pytest.fixture(scope="session")
def server(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    running = VllmServer(vllm_python, VENV / "tiny-qwen3-vl", tmp_path_factory.mktemp("vllm") / "server.log")
    try:
        running.start()
        yield running
    finally:
        running.kill()
