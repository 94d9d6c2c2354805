"""The server, once for all tests here. They are collected only when told where vLLM is (``make test-vllm``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.server import VllmServer

collect_ignore_glob = [] if "PERITO_TEST_VLLM" in os.environ else ["test_*.py"]
# taken at import: the tests' own environment knows no PERITO_ variables
VENV = Path(os.environ.get("PERITO_TEST_VLLM", "")).absolute()


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
