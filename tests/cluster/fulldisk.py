"""A disk that is full for a while, at every place where we write: files, the catalogue, the embedded index.

A file's ``write`` raises what the kernel raises, SQLite's commit what SQLite raises, and the index, which looks for
room first (DESIGN.md says why), finds none.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy.exc import OperationalError

from assistant.core import indexedge
from assistant.core.blobs import FolderBlobStore
from assistant.core.database import Database
from tests.cluster.boundaries import HEART


class FullDisk:
    """Writes number ``at`` to ``at + for_ - 1`` of this process find no room."""

    def __init__(self, at: int, for_: int, note: Callable[..., None]) -> None:
        self._full = range(at, at + for_) if at else range(0)
        self._note = note
        self._lock = threading.Lock()
        self.writes = 0

    def finds_none(self, what: str) -> bool:
        """Count a write; whether it finds no room."""
        if threading.current_thread().name == HEART:
            return False
        with self._lock:
            self.writes += 1
            full = self.writes in self._full
        if full:
            self._note(full=what)
        return full

    def install(self) -> None:
        self._files()
        self._catalogue()
        self._index()

    def _files(self) -> None:
        disk, opened = self, FolderBlobStore._open_incoming

        class File(io.BufferedWriter):
            def write(self, data: Any) -> int:
                if disk.finds_none("a file"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data)

        def incoming(store: FolderBlobStore) -> Any:
            return File(opened(store).detach())  # type: ignore[attr-defined]

        FolderBlobStore._open_incoming = incoming  # type: ignore[method-assign]

    def _catalogue(self) -> None:
        disk, writing = self, Database.writing

        @contextlib.contextmanager
        def full(database: Database, **how: Any) -> Iterator[Any]:
            with writing(database, **how) as connection:
                yield connection
                if disk.finds_none("the catalogue"):
                    error = sqlite3.OperationalError("database or disk is full")
                    error.sqlite_errorcode = sqlite3.SQLITE_FULL
                    raise OperationalError("COMMIT", {}, error)

        Database.writing = full  # type: ignore[method-assign,assignment]

    def _index(self) -> None:
        disk, required = self, indexedge._require_room

        def room(folder: Any, size: int) -> None:
            required(folder, 1 << 62 if disk.finds_none("the index") else size)

        indexedge._require_room = room
