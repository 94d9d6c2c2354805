"""What every test gets: no network model hubs, a home of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK"] = "True"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings or the state of the person who runs it."""
    for variable in [name for name in os.environ if name.startswith("PERITO_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PERITO_HOME", str(tmp_path / "home"))
