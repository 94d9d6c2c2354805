"""What this process may use of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assistant.core import machine


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000\n", 8), ("250000 100000\n", 2), ("50000 100000\n", 1), ("9000000 100000\n", 8), ("", 8), (None, 8)],
)
def test_a_containers_quota_counts_where_it_is_less(
    quota: str | None, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota)
    monkeypatch.setattr(machine, "CPU_QUOTA", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert machine.usable_cores() == cores
