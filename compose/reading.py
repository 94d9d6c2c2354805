"""Reading files without adding them: `perito read`, and the character errors of `perito eval parse`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from assistant.core.domain import PageReading
from assistant.core.errors import NotFound, PeritoError
from assistant.core.settings import Settings
from ingestion.openfiles import FilePool
from ingestion.pipeline import Pipeline
from ingestion.wiring import build_files, build_pipeline


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files with the pipeline that documents go through."""

    files: FilePool
    pipeline: Pipeline

    async def pages(self, file: Path, password: str = "") -> AsyncIterator[PageReading]:
        """The file's pages as they are read. BadInput when it cannot be opened."""
        with self.files.open(file, password=password) as opened:
            async for page in self.pipeline.read_document(opened):
                yield page

    async def read(self, file: Path) -> list[PageReading]:
        """All pages, in order."""
        return sorted([page async for page in self.pages(file)], key=lambda page: page.number)


@contextlib.asynccontextmanager
async def file_reader(settings: Settings) -> AsyncGenerator[FileReader]:
    """A reader with its processes and connections, which end with it."""
    pipeline, _ = build_pipeline(settings, lambda _: None)
    files = build_files(settings)
    try:
        yield FileReader(files, pipeline)
    finally:
        await asyncio.to_thread(files.close)
        await pipeline.aclose()


def fingerprint(file: Path) -> str:
    """The file's SHA-256 in hexadecimal. NotFound; PeritoError where it may not be read."""
    if not file.is_file():
        raise NotFound(f"{file} is not a file that is there", "Check the path")
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise PeritoError(f"{file} cannot be read: {error.strerror}", "Check its rights") from None
