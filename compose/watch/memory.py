"""What a watch did so far, kept in Perito's home (``watch.db``) so that it goes on after a restart.

A watch is a folder and a collection. Of every file it knows how it looked, what it said, and the document that stands
for it; of every document, whether this watch brought it in: only those it may ever remove. What is about to be brought
in is noted before, so that after a crash in between it is known whose it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from assistant.core.errors import DiskFull, PeritoError, StoreBusy, StoreMismatch
from compose.watch.folder import Sign

FILE = "watch.db"
BUSY_SECONDS = 30.0
VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS watches (
  id INTEGER PRIMARY KEY, folder BLOB NOT NULL, collection TEXT NOT NULL, UNIQUE (folder, collection));
CREATE TABLE IF NOT EXISTS files (
  watch INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, device INTEGER NOT NULL,
  sha256 TEXT NOT NULL, document TEXT NOT NULL, refused TEXT NOT NULL, terms TEXT NOT NULL,
  PRIMARY KEY (watch, path));
CREATE TABLE IF NOT EXISTS documents (
  watch INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, path BLOB NOT NULL, sha256 TEXT NOT NULL,
  brought INTEGER NOT NULL, PRIMARY KEY (watch, id));
CREATE TABLE IF NOT EXISTS intents (
  watch INTEGER NOT NULL, sha256 TEXT NOT NULL, since REAL NOT NULL, PRIMARY KEY (watch, sha256));
"""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was when it was last dealt with. ``document`` stands for it ("" where none does); ``refused`` says
    why what it says now was not accepted, under the ``terms`` of that time."""

    sign: Sign
    sha256: str
    document: str
    refused: str = ""
    terms: str = ""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document this watch met. ``name`` is what it is called after the file at ``path``; ``brought``: it was not
    there before."""

    id: str
    name: str
    path: str
    sha256: str
    brought: bool


class Memory:
    """Of one watch. Thread-safe; StoreBusy or DiskFull where it cannot be written. What is known is also held here:
    only one process acts for a watch (``sole_watcher``)."""

    def __init__(self, home: Path, folder: Path, collection: str) -> None:
        self._lock = threading.Lock()
        self._written: list[Callable[[], None]] = []  # what to hold when the write at hand has succeeded
        self._connection = _opened(home / FILE)
        place = (os.fsencode(folder), collection)
        with self._writing() as connection:
            connection.execute("INSERT OR IGNORE INTO watches (folder, collection) VALUES (?, ?)", place)
            found = connection.execute("SELECT id FROM watches WHERE folder = ? AND collection = ?", place)
            self.watch: int = found.fetchone()[0]
        self._collection = collection
        self._files: dict[str, KnownFile] = {}
        self._documents: dict[str, KnownDocument] = {}
        self._holders = defaultdict[str, set[str]](set)  # the paths of the files that a document stands for
        self._versions = defaultdict[str, set[str]](set)  # the documents after a path
        self._load()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # -- what is known ------------------------------------------------------------------------

    def files(self) -> dict[str, KnownFile]:
        """By path."""
        with self._lock:
            return dict(self._files)

    def file(self, path: str) -> KnownFile | None:
        with self._lock:
            return self._files.get(path)

    def documents(self) -> dict[str, KnownDocument]:
        """By id; also those that a newer version replaced, or will replace when it is read."""
        with self._lock:
            return dict(self._documents)

    def document(self, document_id: str) -> KnownDocument | None:
        with self._lock:
            return self._documents.get(document_id)

    def holders(self, document_id: str) -> frozenset[str]:
        """The paths of the files that the document stands for."""
        with self._lock:
            return frozenset(self._holders.get(document_id, ()))

    def versions(self, path: str) -> list[KnownDocument]:
        """The documents after the file at ``path``, newer and older."""
        with self._lock:
            return [self._documents[one] for one in sorted(self._versions.get(path, ()))]

    def names_elsewhere(self) -> set[str]:
        """What other watches call their documents in the same collection."""
        rows = self._rows(
            "SELECT name FROM documents JOIN watches ON watches.id = documents.watch "
            "WHERE watches.collection = ? AND watches.id <> ?",
            self._collection,
            self.watch,
        )
        return {row[0] for row in rows}

    def held_elsewhere(self, document_id: str) -> bool:
        """Whether a file of another watch stands for the document as well."""
        return bool(self._rows("SELECT 1 FROM files WHERE document = ? AND watch <> ?", document_id, self.watch))

    def intended(self, sha256: str) -> float | None:
        """Since when such a file was about to be brought in, in seconds of the clock; None: it was not."""
        found = self._rows("SELECT since FROM intents WHERE watch = ? AND sha256 = ?", self.watch, sha256)
        return found[0][0] if found else None

    # -- what is done -------------------------------------------------------------------------

    def intend(self, sha256: str) -> float:
        """Note what is about to be brought in; since when."""
        with self._writing() as connection:
            row = (self.watch, sha256, time.time())
            connection.execute("INSERT OR IGNORE INTO intents (watch, sha256, since) VALUES (?, ?, ?)", row)
        return self.intended(sha256) or row[2]

    def keep_files(self, files: Mapping[str, KnownFile]) -> None:
        """By path, as they are now; what they say is no longer intended."""
        with self._writing() as connection:
            for path, file in files.items():
                self._keep_file(connection, path, file)
                connection.execute("DELETE FROM intents WHERE watch = ? AND sha256 = ?", (self.watch, file.sha256))

    def took(self, path: str, file: KnownFile, document: KnownDocument) -> None:
        """A file and the document that stands for it now; it is no longer intended."""
        with self._writing() as connection:
            self._keep_file(connection, path, file)
            self._keep_document(connection, document)
            connection.execute("DELETE FROM intents WHERE watch = ? AND sha256 = ?", (self.watch, file.sha256))

    def moved(self, path: str, file: KnownFile, gone: Iterable[str], document: KnownDocument) -> None:
        """A document has another name, after the file at ``path``; the files ``gone`` are forgotten."""
        with self._writing() as connection:
            self._forget_files(connection, gone)
            self._keep_file(connection, path, file)
            self._keep_document(connection, document)

    def forget(self, paths: Iterable[str] = (), documents: Iterable[str] = ()) -> None:
        with self._writing() as connection:
            self._forget_files(connection, paths)
            for document in documents:
                connection.execute("DELETE FROM documents WHERE watch = ? AND id = ?", (self.watch, document))
                self._written.append(partial(self._drop_document, document))

    def hand_over(self, document_id: str) -> None:
        """Let the other watches whose files stand for the document be those that brought it in."""
        with self._writing() as connection:
            change = "UPDATE documents SET brought = 1 WHERE id = ? AND watch <> ?"
            connection.execute(change, (document_id, self.watch))

    def _load(self) -> None:
        columns = "path, size, mtime_ns, device, sha256, document, refused, terms"
        rows = self._rows(f"SELECT {columns} FROM files WHERE watch = ?", self.watch)
        for row in rows:
            self._hold_file(os.fsdecode(row[0]), KnownFile(Sign(row[1], row[2], row[3] % (1 << 64)), *row[4:]))
        rows = self._rows("SELECT id, name, path, sha256, brought FROM documents WHERE watch = ?", self.watch)
        for row in rows:
            self._hold_document(KnownDocument(row[0], row[1], os.fsdecode(row[2]), row[3], bool(row[4])))

    def _hold_file(self, path: str, file: KnownFile) -> None:
        self._drop_file(path)
        self._files[path] = file
        if file.document:
            self._holders[file.document].add(path)

    def _hold_document(self, document: KnownDocument) -> None:
        self._drop_document(document.id)
        self._documents[document.id] = document
        self._versions[document.path].add(document.id)

    def _drop_file(self, path: str) -> None:
        if (file := self._files.pop(path, None)) and file.document:
            _discard(self._holders, file.document, path)

    def _drop_document(self, document_id: str) -> None:
        if document := self._documents.pop(document_id, None):
            _discard(self._versions, document.path, document_id)

    def _keep_file(self, connection: sqlite3.Connection, path: str, file: KnownFile) -> None:
        sign = (file.sign.size, file.sign.mtime_ns, _signed(file.sign.device))
        row = (self.watch, os.fsencode(path), *sign, file.sha256, file.document, file.refused, file.terms)
        connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._written.append(partial(self._hold_file, path, file))

    def _keep_document(self, connection: sqlite3.Connection, document: KnownDocument) -> None:
        row = (self.watch, document.id, document.name, os.fsencode(document.path), document.sha256, document.brought)
        connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)
        self._written.append(partial(self._hold_document, document))

    def _forget_files(self, connection: sqlite3.Connection, paths: Iterable[str]) -> None:
        for path in paths:
            connection.execute("DELETE FROM files WHERE watch = ? AND path = ?", (self.watch, os.fsencode(path)))
            self._written.append(partial(self._drop_file, path))

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock, _told():
            return self._connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """What is held follows what was written, so that a failed write changes neither."""
        with self._lock, _told():
            self._written.clear()
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
            for hold in self._written:
                hold()


def _opened(file: Path) -> sqlite3.Connection:
    with _told():
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            connection.close()
            raise StoreMismatch(f"{file} was written by another version of Perito", "Use that version, or move it away")
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        return connection


def _discard(index: dict[str, set[str]], key: str, value: str) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]


def _signed(number: int) -> int:
    """SQLite's integers have 64 bits and a sign; some file systems use all 64 for a device."""
    return number - (1 << 64) if number >= 1 << 63 else number


@contextlib.contextmanager
def _told() -> Generator[None]:
    """SQLite's troubles in our words."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise DiskFull("There is no room left on the disk for what the watch remembers") from None
        raise StoreBusy(f"What the watch remembers cannot be used: {error}", "Check Perito's home") from None
    except sqlite3.DatabaseError as error:
        raise PeritoError(f"What the watch remembers is damaged: {error}", f"Move {FILE} out of the home") from None
    except OSError as error:
        raise StoreBusy(f"What the watch remembers cannot be opened: {error.strerror}", "Check its rights") from None


@contextlib.contextmanager
def sole_watcher(home: Path, watch: int) -> Generator[None]:
    """Be the only process that acts for a watch. StoreBusy where another one does."""
    with _told():
        file = (home / f"watch-{watch}.lock").open("w")
    with file:
        if not _locked(file):
            raise StoreBusy("This folder is already being watched for this collection", "Stop the other `perito watch`")
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
