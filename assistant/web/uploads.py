"""Uploads on their way to disk: streamed, bounded, never held in memory.

Starlette's parser spools files of unknown size into a place of its own; this one writes each file part to
a named file in Perito's home and stops at the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from assistant.core.errors import BadRequest, DiskFull, TooLarge
from assistant.core.settings import MEGABYTE

MAX_FILES = 1000


@dataclass
class ReceivedFile:
    """A file part that now lies at ``path``."""

    path: Path
    name: str
    media_type: str
    size: int


@dataclass
class Form:
    """What a multipart request held."""

    files: list[ReceivedFile] = field(default_factory=list[ReceivedFile])
    fields: dict[str, str] = field(default_factory=dict[str, str])


class _DiskFile(UploadFile):
    """A file part written straight to ``path``, in threads; Starlette awaits these three methods."""

    def __init__(self, part: UploadFile, path: Path) -> None:
        super().__init__(part.file, size=0, filename=part.filename, headers=part.headers)
        self.path = path
        self.written = 0
        self._stream: BinaryIO | None = None
        self._settled = False

    async def write(self, data: bytes) -> None:
        self.written += len(data)
        await asyncio.to_thread(self._append, data)

    def _append(self, data: bytes) -> None:
        if self._stream is None:
            self._stream = self.path.open("wb")
        self._stream.write(data)

    async def seek(self, offset: int) -> None:  # noqa: ARG002 - the part is complete: nobody reads it here
        await asyncio.to_thread(self.settle)

    def settle(self) -> None:
        """Close the file, once; an empty part becomes an empty file."""
        if self._settled:
            return
        self._settled = True  # whatever comes: closing a file for which there is no room fails, and closes it
        self._append(b"")
        if self._stream is not None:
            self._stream.close()


class _Parser(MultiPartParser):
    def __init__(self, request: Request, folder: Path, limit: int) -> None:
        super().__init__(request.headers, request.stream(), max_files=MAX_FILES, max_fields=20)
        self._folder = folder
        self._limit = limit
        self._size = 0
        self.opened: list[_DiskFile] = []

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        if self._current_part.file is None:
            return
        self._size = 0
        self._current_part.file.file.close()  # Starlette's own temporary file: ours stands in for it
        file = _DiskFile(self._current_part.file, self._folder / f"{len(self.opened)}")
        self.opened.append(file)
        self._current_part.file = file

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        super().on_part_data(data, start, end)
        part = self._current_part
        self._size += end - start if part.file is not None else 0
        if part.file is not None and self._size > self._limit:
            raise too_large(part.file.filename or "The file", self._limit)


def too_large(name: str, limit: int) -> TooLarge:
    """The refusal of a file over ``limit`` bytes."""
    return TooLarge(
        f"{name} is larger than {limit // MEGABYTE} MB, the most accepted here",
        "Split it into smaller parts, or raise limits.upload_mb",
    )


@asynccontextmanager
async def received_form(request: Request, folder: Path, upload_mb: int) -> AsyncGenerator[Form]:
    """Read a multipart request; its files lie under ``folder`` until the context ends.

    TooLarge for a file over ``upload_mb``, BadRequest for a body that is no form, DiskFull.
    """
    place = folder / f"upload-{secrets.token_hex(8)}"
    await asyncio.to_thread(place.mkdir, parents=True)
    try:
        yield await _receive(request, place, upload_mb * MEGABYTE)
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


async def _receive(request: Request, place: Path, limit: int) -> Form:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise BadRequest("The request is no multipart form", "Send the file as multipart/form-data")
    parser = _Parser(request, place, limit)
    try:
        data = await parser.parse()
    except MultiPartException as error:
        raise BadRequest(f"The form cannot be read: {error.message}", "Send it as multipart/form-data") from None
    except OSError as error:
        raise _disk_error(error) from error
    finally:
        await asyncio.to_thread(_settle_all, parser.opened)
    form = Form()
    for key, value in data.multi_items():
        if isinstance(value, _DiskFile):
            name, media_type = value.filename or "document", value.content_type or ""
            form.files.append(ReceivedFile(value.path, name, media_type, value.written))
        elif isinstance(value, str):
            form.fields[key] = value
    return form


def _settle_all(files: list[_DiskFile]) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # the disk is full: the write that met it has said so
            file.settle()


def _disk_error(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("There is no room left on the disk for the upload", "Free some space and send it again")
    return error


def clear_uploads(folder: Path) -> None:
    """Remove what a killed process left behind."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
