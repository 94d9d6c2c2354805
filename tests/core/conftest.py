"""What the kernel's tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from assistant.core.database import Database, open_database, parsed_url
from assistant.core.tables import metadata
from tests.postgres import Cluster, postgres, postgres_url  # noqa: F401 - fixtures


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables: each test that takes it runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'perito.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database whose tables are up to date and hold no rows, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_file"), tmp_path / "perito.db")
        return f"sqlite:///{tmp_path / 'perito.db'}"
    database: Database = request.getfixturevalue("postgres_database")
    tables = ", ".join(f'"{table}"' for table in metadata.tables)
    with database.writing() as connection:
        connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY"))
    return database.url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with our tables, to be copied."""
    file = tmp_path_factory.mktemp("catalogue") / "perito.db"
    open_database(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def postgres_database(postgres: Cluster) -> Iterator[Database]:  # noqa: F811
    """A PostgreSQL database with our tables, shared by the tests one after another."""
    postgres.run_sql("CREATE DATABASE shared TEMPLATE template0 ENCODING 'UTF8'")
    open_database(postgres.url("shared")).close()
    database = Database(parsed_url(postgres.url("shared")))
    yield database
    database.close()
