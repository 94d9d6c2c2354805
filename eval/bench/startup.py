"""How long until the server is ready, and how large the installed environment is."""

from __future__ import annotations

import sys
from pathlib import Path

from eval.bench._server import running_server
from eval.bench.table import Table

STARTS = 3


def run(documents: Path) -> Table:  # noqa: ARG001 - every figure takes the documents
    """Seconds from `perito serve` to a ready /readyz, and the size of the environment that runs it."""
    seconds: list[float] = []
    resident: list[float] = []
    for _ in range(STARTS):
        with running_server() as server:
            seconds.append(server.seconds_to_ready)
            resident.append(server.resident_mb())
    size = sum(file.stat().st_size for file in Path(sys.prefix).rglob("*") if file.is_file() and not file.is_symlink())
    row = (min(seconds), sorted(seconds)[STARTS // 2], max(seconds), max(resident), size / 1e6)
    columns = ("ready after s, best", "median", "worst", "resident MB", "environment MB")
    notes = ("The environment includes the development tools when they are installed in it.",)
    return Table("startup", "Start to ready", columns, [row], notes, "under 12 s")
