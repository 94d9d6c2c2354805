"""Reading files without adding them: `perito read`, and the character errors of `perito eval parse`."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from assistant.core.domain import PageReading
from assistant.core.errors import NotFound, PeritoError
from assistant.core.settings import Settings
from ingestion.pipeline import Pipeline
from ingestion.sources import open_source
from ingestion.wiring import build_pipeline


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files with the pipeline that documents go through."""

    settings: Settings
    pipeline: Pipeline

    async def pages(self, file: Path, password: str = "") -> AsyncIterator[PageReading]:
        """The file's pages as they are read. BadInput when it cannot be opened."""
        with open_source(file, name=file.name, password=password, limits=self.settings.limits) as source:
            async for page in self.pipeline.read_document(source):
                yield page

    async def read(self, file: Path) -> list[PageReading]:
        """All pages, in order."""
        return sorted([page async for page in self.pages(file)], key=lambda page: page.number)


@contextlib.asynccontextmanager
async def file_reader(settings: Settings) -> AsyncGenerator[FileReader]:
    """A reader with its OCR processes and connections, which end with it."""
    pipeline, _ = build_pipeline(settings, lambda _: None)
    try:
        yield FileReader(settings, pipeline)
    finally:
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
