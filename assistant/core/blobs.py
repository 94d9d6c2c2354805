"""Files by content, in a folder: what was given to us, kept once, whole or not at all.

    <folder>/ab/cd/abcd…        a blob; its name is the SHA-256 of its bytes
    <folder>/derived/ab/cd/…/   what was made from a blob (page images), deleted with it
    <folder>/incoming/          files being written; what a crash left there is swept at the next start

A blob is written aside, synced and renamed into place, so a reader sees all of it or nothing, and two
writers of the same bytes (threads, processes) both succeed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from assistant.core.errors import BadRequest, DiskFull, Misconfigured, NotFound, UnreadableFile
from assistant.core.settings import MEGABYTE

PIECE = MEGABYTE
LOOK_AGAIN = 16 * MEGABYTE  # bytes written between two looks at the free space

_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class FolderBlobStore:
    """The kernel's ``BlobStore`` over a local folder, which it makes when it is not there.

    ``min_free_mb`` of the disk stay free. Safe to share between threads and processes. Misconfigured when the
    folder cannot be written to.
    """

    def __init__(self, folder: Path, min_free_mb: int = 200) -> None:
        self._folder = folder.expanduser().resolve()
        self._incoming = self._folder / "incoming"
        self._min_free = min_free_mb * MEGABYTE
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._incoming.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            _refuse(error, f"The folder for files, {self._folder}, cannot be made")
        self._sweep()

    def put(self, data: bytes | BinaryIO) -> str:
        """Store bytes, or a binary file from where it stands to its end, and return the key.

        DiskFull when there is no room, with nothing left behind; putting what is there already is cheap.
        """
        if isinstance(data, bytes):
            key = hashlib.sha256(data).hexdigest()
            if self._is_whole(key, len(data)):
                return key
        with self._writing(_size_ahead(data)) as file:
            key, size = self._copy(data, file)
            if not self._is_whole(key, size):
                _move_into_place(file, self._place(key))
        return key

    @contextmanager
    def aside(self) -> Generator[BinaryIO]:
        """A file to write to that is gone afterwards, also after a crash; its path is its ``name``. DiskFull."""
        with self._writing(0) as file:
            yield file

    def path(self, key: str) -> Path:
        """A local file with the blob's bytes; read it, never write to it. NotFound, BadRequest."""
        place = self._place(key)
        if not place.is_file():
            raise NotFound(f"There is no file with the key {key[:12]}… in the store")
        return place

    def exists(self, key: str) -> bool:
        return self._place(key).is_file()

    def delete(self, key: str) -> None:
        """Forget the blob and all that was made from it; what is not there is no error."""
        self._place(key).unlink(missing_ok=True)
        # After the blob itself: ``put_derived`` looks for the blob last, so nothing can slip in behind.
        shutil.rmtree(self._derived_folder(key), ignore_errors=True)

    def keys(self) -> Iterator[str]:
        """Every blob's key, in no order."""
        for place in self._folder.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]/*"):
            if _KEY.fullmatch(place.name):
                yield place.name

    def put_derived(self, key: str, name: str, data: bytes) -> Path:
        """Keep something made from the blob ``key`` under ``name`` until the blob is deleted.

        Replaces what stood there. Names are letters, digits, ``_``, ``-`` and dots (BadRequest). NotFound when
        the blob is not there, or was deleted meanwhile: then nothing is kept. DiskFull.
        """
        self.path(key)
        place = self._derived_place(key, name)
        with self._writing(len(data)) as file:
            file.write(data)
            _move_into_place(file, place)
        if not self.exists(key):
            shutil.rmtree(self._derived_folder(key), ignore_errors=True)
            raise NotFound(f"The file {key[:12]}… was deleted meanwhile")
        return place

    def derived(self, key: str, name: str) -> Path | None:
        """What ``put_derived`` kept, or None."""
        place = self._derived_place(key, name)
        return place if place.is_file() else None

    def require_room(self, size: int) -> None:
        """DiskFull unless ``size`` more bytes fit and the reserve stays free."""
        free = shutil.disk_usage(self._folder).free
        if free - size < self._min_free:
            raise DiskFull(
                f"The disk of {self._folder} has {free // MEGABYTE} MB free; {_megabytes(size)} are to be written and "
                f"{self._min_free // MEGABYTE} MB stay free"
            )

    def _place(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise BadRequest(f"{key[:80]!r} is no key of a file", "Keys are 64 hexadecimal digits in lower case")
        return self._folder / key[:2] / key[2:4] / key

    def _derived_folder(self, key: str) -> Path:
        return self._folder / "derived" / self._place(key).relative_to(self._folder)

    def _derived_place(self, key: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{name[:80]!r} is no name for something made from a file")
        return self._derived_folder(key) / name

    def _is_whole(self, key: str, size: int) -> bool:
        """Whether the blob is there with its full length; a crash of the machine may have cut it short."""
        with suppress(FileNotFoundError):
            return self._place(key).stat().st_size == size
        return False

    @contextmanager
    def _writing(self, size: int) -> Generator[BinaryIO]:
        """A file in ``incoming`` that is gone afterwards unless it was moved into place."""
        self.require_room(size)
        file: BinaryIO | None = None
        try:
            file = self._open_incoming()
            yield file
        except OSError as error:
            _refuse(error, f"A file could not be written to {self._folder}")
        finally:
            if file is not None:
                Path(file.name).unlink(missing_ok=True)
                with suppress(OSError):  # closing flushes, which may find the disk full once more
                    file.close()

    def _open_incoming(self) -> BinaryIO:
        """A new locked file: the lock tells a sweeping process that its writer lives."""
        while True:
            file = (self._incoming / uuid.uuid4().hex).open("xb")
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # swept between opening and locking

    def _copy(self, data: bytes | BinaryIO, file: BinaryIO) -> tuple[str, int]:
        digest, size, looked = hashlib.sha256(), 0, 0
        for piece in _pieces(data):
            file.write(piece)
            digest.update(piece)
            size += len(piece)
            if size - looked >= LOOK_AGAIN:
                looked = size
                self.require_room(0)
        return digest.hexdigest(), size

    def _sweep(self) -> None:
        """Remove what writers that are no more left behind."""
        for leftover in self._incoming.iterdir():
            with suppress(OSError), leftover.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink(missing_ok=True)


def _pieces(data: bytes | BinaryIO) -> Iterator[bytes | memoryview]:
    if isinstance(data, bytes):
        view = memoryview(data)
        yield from (view[start : start + PIECE] for start in range(0, len(data), PIECE))
        return
    while piece := _read(data):
        yield piece


def _read(data: BinaryIO) -> bytes:
    try:
        return data.read(PIECE)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableFile(f"The file cannot be read to its end: {reason}", "Check the disk it lies on") from error


def _size_ahead(data: bytes | BinaryIO) -> int:
    """Bytes still to come, 0 where a stream cannot tell."""
    if isinstance(data, bytes):
        return len(data)
    if not data.seekable():
        return 0
    here = data.tell()
    end = data.seek(0, os.SEEK_END)
    data.seek(here)
    return end - here


def _move_into_place(file: BinaryIO, place: Path) -> None:
    """Make the file's bytes and its new name survive a power cut."""
    file.flush()
    os.fsync(file.fileno())
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    Path(file.name).replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _refuse(error: OSError, what: str) -> NoReturn:
    if error.errno in _NO_ROOM:
        raise DiskFull(f"{what}: the disk is full") from error
    reason = os.strerror(error.errno) if error.errno else str(error)
    raise Misconfigured(f"{what}: {reason}", "Check that the folder exists and that Perito may write to it") from error


def _megabytes(size: int) -> str:
    return f"{-(-size // MEGABYTE)} MB"
