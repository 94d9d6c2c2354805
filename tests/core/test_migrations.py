"""The tables at opening: the same as the metadata, for any number of processes, and never from the future."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from assistant.core.database import Database, chat_connection, open_database, parsed_url
from assistant.core.errors import EndpointDown, Misconfigured, StoreMismatch
from assistant.core.migrations import FOLDER, HEAD, REVISIONS
from assistant.core.tables import metadata
from tests.postgres import Cluster


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def test_migrations_make_exactly_the_tables_of_the_metadata(empty_url: str) -> None:
    database = open_database(empty_url)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    database.close()


def test_known_revisions_are_those_in_the_folder() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)
    assert scripts.get_current_head() == HEAD


def test_documents_of_the_first_version_have_no_parent_and_get_a_job(empty_url: str) -> None:
    open_database(empty_url).close()
    for statement in (
        "DROP TABLE corrections",
        "DROP INDEX ix_pages_document_id_status_confidence",
        "DROP TABLE enclosures",
        "DROP TABLE jobs",
        "DROP TABLE workers",
        "DROP TABLE switches",
        "DROP INDEX ix_documents_parent",
        "ALTER TABLE documents DROP COLUMN parent",
        "UPDATE alembic_version SET version_num = '0001'",
        "INSERT INTO documents VALUES ('d1', 'default', 'a.pdf', 'a.pdf', 1, 'x', 'x', 'complete', 1, 1, 0, '{}', 0, "
        "0, 9, '', 0, '', '', '2026-11-29 10:00:00')",
        "INSERT INTO documents VALUES ('d2', 'default', 'b.pdf', 'b.pdf', 1, 'y', 'y', 'reading', 5, 2, 0, '{}', 0, "
        "0, 9, '', 0, '', '', '2026-11-29 10:00:00')",
    ):
        execute(empty_url, statement)
    open_database(empty_url).close()
    assert execute(empty_url, "SELECT id, parent FROM documents ORDER BY id") == [("d1", None), ("d2", None)]
    jobs = execute(empty_url, "SELECT document_id, state, pages_before FROM jobs ORDER BY document_id")
    assert jobs == [("d1", "done", 1), ("d2", "waiting", 2)]
    assert execute(empty_url, "SELECT count(*) FROM enclosures") == [(0,)]


def test_opening_again_changes_nothing_and_loads_no_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'perito.db'}"
    open_database(url).close()
    code = (
        "import sys; from assistant.core.database import open_database; open_database(sys.argv[1]).close();"
        "print('alembic' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
    assert execute(url, "SELECT version_num FROM alembic_version") == [(HEAD,)]


OPEN = """
import sys
from assistant.core.database import open_database
print("ready", flush=True)
sys.stdin.readline()
open_database(sys.argv[1]).close()
"""


def test_processes_that_start_at_once_all_find_the_tables(empty_url: str) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", OPEN, empty_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert execute(empty_url, "SELECT count(*) FROM alembic_version") == [(1,)]


def test_threads_that_open_at_once_all_find_the_tables(empty_url: str) -> None:
    problems: list[Exception] = []

    def open_it() -> None:
        try:
            open_database(empty_url).close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_database_from_the_future_is_refused_untouched(empty_url: str) -> None:
    open_database(empty_url).close()
    execute(empty_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreMismatch, match="newer Perito") as refused:
        open_database(empty_url)
    assert "backup" in refused.value.advice
    assert execute(empty_url, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_database_of_another_program_is_refused_untouched(empty_url: str) -> None:
    execute(empty_url, "CREATE TABLE users (shoe_size INTEGER)")
    with pytest.raises(StoreMismatch, match="another program"):
        open_database(empty_url)
    execute(empty_url, "SELECT shoe_size FROM users")
    with pytest.raises(Exception, match="documents"):
        execute(empty_url, "SELECT * FROM documents")  # what was begun was undone


def test_an_interrupted_upgrade_leaves_nothing(empty_url: str) -> None:
    """As if the process died inside: the transaction is rolled back, and the next start succeeds."""
    database = Database(parsed_url(empty_url))
    with pytest.raises(KeyboardInterrupt), database.writing() as connection:
        connection.execute(text("CREATE TABLE documents (half INTEGER)"))
        raise KeyboardInterrupt
    database.close()
    opened = open_database(empty_url)
    opened.ping()
    opened.close()


def test_sqlite_runs_in_wal_mode_with_foreign_keys(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'a folder' / 'perito.db'}")
    with database.writing(durable=True) as connection:
        pragmas = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "foreign_keys")
        }
        assert pragmas == {"journal_mode": "wal", "foreign_keys": 1}
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL
    with database.writing() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1  # NORMAL
    database.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "perito.db"
    file.write_text("This is a shopping list, not a database. " * 200)
    with pytest.raises(StoreMismatch, match=r"perito\.db is no catalogue"):
        open_database(f"sqlite:///{file}")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Misconfigured, match="cannot be made"):
        open_database(f"sqlite:///{tmp_path / 'file' / 'perito.db'}")


def test_a_folder_in_the_database_s_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be used"):
        open_database(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://host/db", "oracle://host/db", "sqlite://", "sqlite:///:memory:"]
)
def test_urls_that_make_no_sense_are_refused(url: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        open_database(url)
    assert "sqlite:////" in refused.value.advice


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+asyncpg"])
def test_any_spelling_of_postgresql_uses_our_driver(scheme: str) -> None:
    assert parsed_url(f"{scheme}://me:secret@host/db").drivername == "postgresql+psycopg"
    assert chat_connection(f"{scheme}://me:secret@host/db") == ("postgresql+psycopg://me:secret@host/db", {})


def test_a_server_that_is_not_there_is_down_and_no_password_is_told() -> None:
    with pytest.raises(EndpointDown, match=r"127\.0\.0\.1:1 cannot be reached") as down:
        open_database("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(down.value)


def test_a_database_that_is_not_there_is_a_mistake_in_the_settings(postgres: Cluster) -> None:
    with pytest.raises(Misconfigured, match='database "nowhere" does not exist'):
        open_database(postgres.url("nowhere"))


def test_a_server_that_returns_is_found_again(postgres: Cluster, postgres_url: str) -> None:
    database = open_database(postgres_url)
    name = parsed_url(postgres_url).database
    postgres.run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    database.ping()  # the pool notices that its connections are dead
    database.close()


def test_a_connection_cut_in_the_middle_is_down(postgres: Cluster, postgres_url: str) -> None:
    database = open_database(postgres_url)
    name = parsed_url(postgres_url).database
    with pytest.raises(EndpointDown), database.writing() as connection:
        postgres.run_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        connection.execute(text("SELECT 1"))
    database.close()


def test_lists_reach_sqlite_as_json(tmp_path: Path) -> None:
    conninfo, arguments = chat_connection(f"sqlite:///{tmp_path / 'perito.db'}")
    assert conninfo == f"sqlite+aiosqlite:///{tmp_path / 'perito.db'}"
    connection = sqlite3.connect(":memory:", **arguments)
    assert connection.execute("SELECT ?", (["a", "ñ"],)).fetchone() == ('["a", "\\u00f1"]',)
    connection.close()
