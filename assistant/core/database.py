"""The SQL database under the catalogue and the chat: SQLite in a file, or PostgreSQL.

Opening brings the tables up to date. Every transaction goes through ``reading`` or ``writing``, which turn what
the driver raises into our errors. SQLite runs in WAL mode: readers never wait for the writer.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from assistant.core.errors import (
    DiskFull,
    EndpointBusy,
    EndpointDown,
    Misconfigured,
    PeritoError,
    StoreBusy,
    StoreMismatch,
)
from assistant.core.migrations import FOLDER, HEAD, REVISIONS

BUSY_SECONDS = 20  # how long a transaction waits for another one
# PostgreSQL ends a transaction in which nothing happens for so long: its process sleeps, or its host is gone, and what
# it had locked others wait for, no longer than BUSY_SECONDS.
IDLE_SECONDS = 10
UPGRADE_SECONDS = 300  # … and a starting process for one that brings the tables up to date
UPGRADE_LOCK = 0x5045_5249_544F  # PostgreSQL's advisory locks are numbers; this one spells "PERITO"

_upgrading = threading.Lock()  # Alembic keeps the running migration in module globals


class Database:
    """An engine with our transactions and errors. Thread-safe. Make it with ``open_database``."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
        # A transaction that only reads has no time limits, so it may lock no row: PostgreSQL sees to that.
        self._for_reading = self.engine if self.is_sqlite else self.engine.execution_options(postgresql_readonly=True)

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A transaction that only reads, and locks nobody out: one consistent state."""
        with self._errors_as_ours(), self._for_reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = False) -> Generator[Connection]:
        """A transaction that writes, alone from its first statement on SQLite. All of it survives a crash of
        the process; a ``durable`` one (and all before it) a power cut too, at the price of a disk sync.

        StoreBusy when another writer did not finish in time; DiskFull; EndpointDown.
        """
        options = {"sqlite_begin": "IMMEDIATE", "sqlite_synchronous": "FULL" if durable else "NORMAL"}
        with self._errors_as_ours(), self.engine.execution_options(**options).begin() as connection:
            if not self.is_sqlite:
                _bound(connection, BUSY_SECONDS, IDLE_SECONDS)
            yield connection

    def lock(self, connection: Connection, key: int) -> None:
        """Let no other transaction past the same ``key`` before this one ends. SQLite writers are alone anyway."""
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})

    def ping(self) -> None:
        """Raise EndpointDown, Misconfigured, … when the database does not answer."""
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _errors_as_ours(self) -> Generator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            ours = _translated(error, self.url)
            if ours is None:
                raise
            raise ours from error


def open_database(url: str) -> Database:
    """Connect and bring the tables up to date; several processes may do so at once.

    Misconfigured for a URL that makes no sense or a file that cannot be opened; StoreMismatch when a newer
    Perito was here, or another program; EndpointDown; StoreBusy.
    """
    database = Database(parsed_url(url))
    try:
        if database.is_sqlite:
            _prepare_sqlite(database)
        _upgrade(database)
    except BaseException:
        database.close()
        raise
    return database


def parsed_url(url: str) -> URL:
    """A SQLAlchemy URL with the driver we use. Misconfigured."""
    advice = "Set catalogue.url to sqlite:////path/to/file or postgresql://user:password@host/database"
    try:
        parsed = make_url(url)
        backend = {"postgres": "postgresql"}.get(parsed.get_backend_name(), parsed.get_backend_name())
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise Misconfigured("The catalogue's URL is no database URL", advice) from None
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise Misconfigured(f"The catalogue cannot live in {backend}", advice)
    if parsed.database in (None, "", ":memory:"):
        raise Misconfigured("The catalogue's URL names no file, and a catalogue in memory would forget all", advice)
    return parsed.set(drivername="sqlite+pysqlite", database=str(Path(parsed.database).expanduser()))


def lock_key(name: str) -> int:
    """A signed 64-bit number for PostgreSQL's advisory locks."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big", signed=True)


def chat_connection(url: str) -> tuple[str, dict[str, Any]]:
    """What Chainlit's ``SQLAlchemyDataLayer`` takes for the same database: ``conninfo`` and ``connect_args``.

    That data layer binds lists (tags) as they are, which PostgreSQL takes; for SQLite they become JSON text.
    """
    parsed = parsed_url(url)
    if parsed.get_backend_name() != "sqlite":
        return parsed.render_as_string(hide_password=False), {}
    sqlite3.register_adapter(list, json.dumps)
    return parsed.set(drivername="sqlite+aiosqlite").render_as_string(hide_password=False), {"timeout": BUSY_SECONDS}


def _dump(value: object) -> str:
    return json.dumps(value, default=float)  # numbers of numpy among features and boxes


_POOL: dict[str, Any] = {
    "pool_size": 8,
    "max_overflow": 24,
    "pool_timeout": BUSY_SECONDS,
    "json_serializer": _dump,
}


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, **_POOL)

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # we begin transactions ourselves, just below
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        options = connection.get_execution_options()
        if level := options.get("sqlite_synchronous"):
            connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
        connection.exec_driver_sql(f"BEGIN {options.get('sqlite_begin', '')}")

    return engine


def _postgres_engine(url: URL) -> Engine:
    arguments = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    try:
        # A restarted server is noticed before a transaction is.
        return create_engine(url, pool_pre_ping=True, connect_args=arguments, **_POOL)
    except ImportError as error:
        raise Misconfigured(
            f"PostgreSQL's driver cannot be loaded ({error})", "Install Perito with its extra: perito[cluster]"
        ) from error


def _prepare_sqlite(database: Database) -> None:
    """The folder, and WAL mode, which stays with the file. Switching to it does not wait by itself."""
    folder = Path(cast("str", database.url.database)).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"The catalogue's folder {folder} cannot be made: {error.strerror}", "Choose a folder that may be written"
        ) from error
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            _switch_to_wal(database)
            return
        except StoreBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _switch_to_wal(database: Database) -> None:
    """Outside any transaction, so not through ``writing``."""
    try:
        connection = database.engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
    except sqlite3.Error as error:
        ours = _from_sqlite(error, Path(cast("str", database.url.database)))
        if ours is None:
            raise
        raise ours from error


def _upgrade(database: Database) -> None:
    with database.reading() as connection:
        if _revision(connection) == HEAD:
            return
    with _upgrading, database.writing(durable=True) as connection:
        if not database.is_sqlite:
            _bound(connection, UPGRADE_SECONDS, UPGRADE_SECONDS)
        database.lock(connection, UPGRADE_LOCK)
        revision = _revision(connection)  # once more: another process may have been faster
        if revision == HEAD:
            return
        if revision is not None and revision not in REVISIONS:
            raise StoreMismatch(
                f"The catalogue was made by a newer Perito (revision {revision}; this one knows {HEAD})",
                "Start the newer Perito, or restore a backup from before it",
            )
        _migrate(connection, database.url)


def _bound(connection: Connection, waiting: float, idle: float) -> None:
    """How long this transaction may wait for a lock, and how long nothing may happen in it, in seconds."""
    names = {"lock_timeout": waiting, "idle_in_transaction_session_timeout": idle}
    settings = ", ".join(f"set_config('{name}', '{seconds * 1000:.0f}ms', true)" for name, seconds in names.items())
    connection.execute(text(f"SELECT {settings}"))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(connection: Connection, url: URL) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except DBAPIError as error:
        if "already exists" in str(error.orig):
            raise StoreMismatch(
                f"The database {url.database} already holds tables of another program",
                "Give Perito a database of its own",
            ) from error
        raise


def _translated(error: SQLAlchemyError, url: URL) -> PeritoError | None:
    """Our error for what the driver reports; None for what would be a mistake of ours."""
    if isinstance(error, PoolTimeout):
        return StoreBusy("All connections to the catalogue are in use", "Try again in a moment")
    if not isinstance(error, DBAPIError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _from_sqlite(error.orig, Path(cast("str", url.database)))
    return _from_postgres(error, url)


def _from_sqlite(error: sqlite3.Error, file: Path) -> PeritoError | None:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte is the kind, the rest its shade
        case sqlite3.SQLITE_FULL:
            return DiskFull(f"The disk of {file} is full, so the catalogue cannot be written")
        case sqlite3.SQLITE_IOERR if _disk_is_full(file):
            return DiskFull(f"The disk of {file} is full, so the catalogue cannot be written")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"The catalogue {file} is being written by someone else", "Try again in a moment")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return Misconfigured(
                f"The catalogue {file} cannot be used: {error}",
                "Check that the file and its folder may be read and written, and the disk is sound",
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return StoreMismatch(
                f"{file} is no catalogue, or a damaged one: {error}", "Restore it from a backup, or move it away"
            )
        case _:
            return None


def _disk_is_full(file: Path) -> bool:
    return shutil.disk_usage(file.parent).free < 1024 * 1024


def _from_postgres(error: DBAPIError, url: URL) -> PeritoError | None:
    state: str = getattr(error.orig, "sqlstate", None) or ""
    where = f"PostgreSQL at {url.host or 'the local socket'}:{url.port or 5432}"
    said = (str(error.orig).strip().splitlines() or [""])[-1]
    refused = ("authentication failed", "does not exist", "pg_hba.conf", "not permitted")
    if state == "53100":
        return DiskFull(f"The disk of {where} is full, so the catalogue cannot be written")
    if state in {"55P03", "40P01", "40001"}:
        return StoreBusy(f"The catalogue in {where} is being written by someone else", "Try again in a moment")
    if state.startswith("53") or "too many clients" in said or "starting up" in said:
        return EndpointBusy(f"{where} cannot take more work now: {said}")
    if state.startswith(("28", "3D", "42501")) or (not state and any(words in said for words in refused)):
        return Misconfigured(
            f"{where} refuses the catalogue: {said}", "Check user, password and database in catalogue.url"
        )
    if error.connection_invalidated or state.startswith(("08", "57P", "25P03")) or _is_operational(error, state):
        return EndpointDown(f"{where} cannot be reached: {said}", "Check catalogue.url and that the server is running")
    return None


def _is_operational(error: DBAPIError, state: str) -> bool:
    return not state and type(error).__name__ in {"OperationalError", "InterfaceError"}
