"""Office files as they print, where LibreOffice is installed: the page a passage stands on, boxed there.

What is read, its page numbers and its anchors come from the file itself and are the same with and without it; only
the picture for a citation is another. The PDF is made once and kept beside the file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.blobs import FolderBlobStore
from assistant.core.domain import Block, Box, Document
from assistant.core.errors import PeritoError
from ingestion import soffice
from ingestion.firstlook import FirstLook
from ingestion.openfiles import FilePool

if TYPE_CHECKING:
    from PIL.Image import Image

_OPEN_XML = "application/vnd.openxmlformats-officedocument."
TEXTS = {
    f"{_OPEN_XML}wordprocessingml.document": "docx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/rtf": "rtf",
}
SLIDES = {
    f"{_OPEN_XML}presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.presentation": "odp",
}
Look = Callable[[int], "Future[FirstLook]"]
_PDF = "printed.pdf"
_MOST_PAGES = 400  # of the PDF that are looked through for a passage
_RUN = 3  # words in a row that are compared
_SURE, _LEAST = 0.9, 0.5  # share of a passage's runs found on a page: no better will come; too few to be it
_OF_BLOCK = 0.6  # share of a block's runs that stand in the passage, from which it is boxed


@dataclass(frozen=True, slots=True)
class Found:
    """Where a passage stands in the PDF."""

    page: int
    boxes: tuple[Box, ...]


class OfficePages:
    """Pictures of printed office files. Thread-safe; a file is printed by one thread while others wait."""

    def __init__(self, blobs: FolderBlobStore, files: FilePool, seconds: float) -> None:
        self._blobs = blobs
        self._files = files
        self._seconds = seconds
        self._printing = threading.Lock()

    def passage(self, blob: str, document: Document, number: int, cited: Sequence[Block], dpi: float) -> Printed | None:
        """The printed page of a text on which the ``cited`` blocks of its page ``number`` stand; None where there is
        no print or they are not found on it."""
        pdf = self._printed(blob, TEXTS.get(document.media_type, ""))
        if pdf is None or not cited:
            return None
        try:
            with self._files.open(pdf, name=document.name) as file:
                pages = file.about.result().page_count
                guess = max(1, round(number / max(1, document.pages) * pages))
                order = sorted(range(1, min(pages, _MOST_PAGES) + 1), key=lambda page: abs(page - guess))
                found = self._search(file.look, order, " ".join(block.text for block in cited))
                return Printed(file.render(found.page, dpi).result(), found.boxes) if found else None
        except PeritoError:
            return None

    def slide(self, blob: str, document: Document, number: int, drawn: Image, dpi: float) -> Image | None:
        """``drawn`` with the slide as it prints over the slide as we draw it; None where there is no print."""
        pdf = self._printed(blob, SLIDES.get(document.media_type, ""))
        if pdf is None:
            return None
        try:
            with self._files.open(pdf, name=document.name) as file:
                if file.about.result().page_count != document.pages:
                    return None
                page = file.render(number, dpi).result()
        except PeritoError:
            return None
        size = drawn.width, max(1, min(drawn.height, round(drawn.width * page.height / page.width)))
        drawn.paste(page.resize(size), (0, 0))
        return drawn

    def _search(self, look: Look, order: Sequence[int], passage: str) -> Found | None:
        wanted = frozenset(_runs(_words(passage)))
        best: tuple[float, Found] | None = None
        for page in order:
            text = look(page).result().text
            share, boxes = _matched(wanted, text.blocks if text else ())
            if boxes and (best is None or share > best[0]):
                best = share, Found(page, boxes)
            if share >= _SURE:
                break
        return best[1] if best and best[0] >= _LEAST else None

    def _printed(self, blob: str, suffix: str) -> Path | None:
        """The PDF, made now where it was not yet; an empty one stands for a file that does not print."""
        if not suffix or self._seconds <= 0 or soffice.program() is None:
            return None
        with self._printing:
            kept = self._blobs.derived(blob, _PDF)
            if kept is None:
                data = soffice.printed(self._blobs.path(blob), suffix, self._seconds)
                kept = self._blobs.put_derived(blob, _PDF, data or b"")
        return kept if kept.stat().st_size else None


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed page and the passage's boxes on it."""

    image: Image
    boxes: tuple[Box, ...]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text)]


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Every few words in a row; all of them where there are fewer."""
    return [tuple(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))] if words else []


def _matched(wanted: frozenset[tuple[str, ...]], blocks: Sequence[Block]) -> tuple[float, tuple[Box, ...]]:
    """The share of the wanted runs that blocks of the page hold, and where in those blocks they stand."""
    found: set[tuple[str, ...]] = set()
    boxes: list[Box] = []
    for block in blocks:
        runs = _runs(_words(block.text))
        places = [place for place, run in enumerate(runs) if run in wanted]
        common = {runs[place] for place in places}
        if common and (len(places) >= _OF_BLOCK * len(runs) or len(common) >= _OF_BLOCK * len(wanted)):
            found |= common
            boxes.append(_part_of(block, places, len(runs)))
    return len(found) / max(1, len(wanted)), tuple(boxes)


def _part_of(block: Block, places: Sequence[int], runs: int) -> Box:
    """The block's box, or the part of its height in which the matching runs stand, as far as the words tell: the
    print's reader may have taken several short paragraphs for one."""
    if len(places) >= _OF_BLOCK * runs:
        return block.bbox
    words = _words(block.text)
    letters = [len(word) + 1 for word in words]
    begin, end = sum(letters[: places[0]]), sum(letters[: places[-1] + _RUN])
    x0, y0, x1, y1 = block.bbox
    return Box.of(x0, y0 + (y1 - y0) * begin / sum(letters), x1, y0 + (y1 - y0) * end / sum(letters))
