"""Web pages as pages: what a person sees of an HTML file, in sections."""

from __future__ import annotations

from pathlib import Path

from assistant.core.errors import TooLarge, UnsupportedFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.drawn import SectionSource
from ingestion.sources.markup import decode_markup, markup_parts
from ingestion.sources.sections import sections

LARGEST_MARKUP = 64_000_000  # bytes


class HtmlSource(SectionSource):
    """An HTML file. Scripts are not run and nothing is fetched: pictures are shown where they are written into it."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        if path.stat().st_size > LARGEST_MARKUP:
            raise TooLarge(f"{name} is a web page of more than {LARGEST_MARKUP // MEGABYTE} MB")
        text = decode_markup(path.read_bytes())
        if text is None:
            raise UnsupportedFile(f"{name} begins like a web page, but is no readable text")
        super().__init__(name, "text/html", sections(markup_parts(text, limits)), limits)
