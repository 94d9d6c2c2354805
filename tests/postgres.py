"""A real PostgreSQL of our own for tests: a private cluster in a temporary folder, gone afterwards.

``tests/core/conftest.py`` shows how a package takes the fixtures: by importing them into its conftest.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 30
OPTIONS = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=60", "shared_buffers=16MB")
# The shell waits for the end of its input, which comes when this process ends, however it ends.
RUN = '"$@" & server=$!; read -r _; kill -INT $server; wait $server'


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running server that trusts the user ``perito`` on loopback."""

    port: int
    binaries: Path

    def url(self, database: str, driver: str = "postgresql+psycopg") -> str:
        return f"{driver}://perito@127.0.0.1:{self.port}/{database}"

    def run_sql(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres", "postgresql"), autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The server; it is started once, when a test first asks."""
    folder = Path(tempfile.mkdtemp(prefix="perito-postgres-"))
    try:
        with _Running(folder) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    postgres.run_sql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    yield postgres.url(name)
    postgres.run_sql(f"DROP DATABASE {name} WITH (FORCE)")


class _Running:
    """Sets up the cluster in ``folder`` and runs it until the end of the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._identity = _unprivileged(folder)
        self._binaries = find_binaries()
        self._server: subprocess.Popen[Any] | None = None

    def __enter__(self) -> Cluster:
        data, log = self._folder / "data", self._folder / "log"
        make = [self._binaries / "initdb", "-D", data, "-U", "perito", "-A", "trust", "-E", "UTF8", "--no-sync"]
        made = subprocess.run(
            [*make, "--locale=C"], capture_output=True, text=True, cwd=self._folder, check=False, **self._identity
        )
        if made.returncode:
            pytest.fail(f"initdb failed: {made.stderr}")
        port = _free_port()
        serve = [self._binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", self._folder]
        options = [part for option in OPTIONS for part in ("-c", option)]
        with log.open("wb") as file:
            self._server = subprocess.Popen(
                ["sh", "-c", RUN, "sh", *serve, *options],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=self._folder,
                **self._identity,
            )
        self._wait_until_ready(port, log)
        return Cluster(port, self._binaries)

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.communicate(b"", timeout=START_SECONDS)

    def _wait_until_ready(self, port: int, log: Path) -> None:
        ready = [self._binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "perito"]
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run(ready, check=False).returncode:
            assert self._server is not None
            if self._server.poll() is not None or time.monotonic() > deadline:
                self._server.kill()
                pytest.fail(f"PostgreSQL did not start: {log.read_text()}")
            time.sleep(0.05)


def find_binaries() -> Path:
    """The folder with ``initdb`` and ``postgres``; the test fails with a sentence where there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))[::-1]
    if config := shutil.which("pg_config"):
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        folders.insert(0, Path(told))
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.fail("PostgreSQL's server programs are not on this machine: install the package postgresql")


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then its folder is given to ``nobody``, and it runs as that."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
