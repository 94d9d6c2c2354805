"""Stores that several processes share: a database of PostgreSQL and a collection on Qdrant's double for each trial."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assistant.core.database import open_database
from tests.cluster.life import Life
from tests.postgres import Cluster
from tests.qdrantdouble import QdrantDouble

LEASE_SECONDS = 1.0
TEMPLATE = "migrated"


@dataclass
class Shared:
    """The two servers. ``life`` gives stores that are empty."""

    postgres: Cluster
    double: QdrantDouble
    index_url: str
    papers: Path
    _numbers: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.postgres.run_sql(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8'")
        open_database(self.postgres.url(TEMPLATE)).close()

    def variables(self, home: Path) -> dict[str, str]:
        """Settings for a new database, a new collection and the folder ``home``."""
        name = f"trial_{next(self._numbers)}"
        self.postgres.run_sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return {
            "PERITO_HOME": str(home),
            "PERITO_CATALOGUE__URL": self.postgres.url(name),
            "PERITO_INDEX__KIND": "server",
            "PERITO_INDEX__URL": self.index_url,
            "PERITO_INDEX__COLLECTION": name,
            "PERITO_OCR__PROCESSES": "1",
            "PERITO_WORKER__LEASE_SECONDS": str(LEASE_SECONDS),
        }

    def life(self, folder: Path, act: str, **how: Any) -> Life:
        return Life(folder, self.papers, self.variables(folder / "home"), act, **how)
