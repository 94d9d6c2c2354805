"""Plain text and Markdown files as pages: sections of bounded size, drawn on a page of their own."""

from __future__ import annotations

from pathlib import Path

from assistant.core.errors import EmptyFile, TooLarge, UnsupportedFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.decoding import decode
from ingestion.sources.drawn import SectionSource
from ingestion.sources.markdown import markdown_parts
from ingestion.sources.sections import plain_parts, sections

_MARKDOWN = (".md", ".markdown", ".mkd", ".mdown")
LARGEST_TEXT = 64_000_000  # bytes: far more than a text of the largest number of pages


class TextSource(SectionSource):
    """A text file, decoded and cut into sections when it is opened."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        if path.stat().st_size > LARGEST_TEXT:
            raise TooLarge(f"{name} is a text of more than {LARGEST_TEXT // MEGABYTE} MB")
        text = decode(path.read_bytes())
        if text is None:
            raise UnsupportedFile(f"{name} is neither a PDF nor a picture nor readable text")
        if not text.strip():
            raise EmptyFile(f"There is no text in {name}")
        is_markdown = Path(name).suffix.lower() in _MARKDOWN
        parts = markdown_parts(text) if is_markdown else plain_parts(text)
        super().__init__(name, "text/markdown" if is_markdown else "text/plain", sections(parts), limits)
