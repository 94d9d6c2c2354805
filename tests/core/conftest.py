"""What the kernel's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import postgres, postgres_url  # noqa: F401 - fixtures


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database: each test that takes it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'perito.db'}"
    return request.getfixturevalue("postgres_url")
