"""A truncated or otherwise broken PDF, put together again from the pages that are left in it.

The objects are gathered from the bytes alone (``fragments``), the pages put in the order that the surviving
page tree gives (or else the file), and written behind a fresh catalogue, a flat page tree and a new
cross-reference table. A page that is lost keeps its number. Time grows with the size of the file, memory
with the number of its objects.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from assistant.core.errors import UnreadableFile
from ingestion.sources.pdfium.fragments import Fragments
from ingestion.sources.pdfium.leftpages import LeftPages
from ingestion.sources.pdfium.syntax import Dictionary

_INHERITED = (b"Resources", b"MediaBox", b"CropBox", b"Rotate")
_KEPT_OF_CATALOGUE = (b"AcroForm", b"OCProperties")
_SAYS_NOTHING = tuple(map(ord, "\0\t\r\n \u00a0.\u00b7\u2026_-"))  # blanks, and what leads to page numbers
_LEAST_LETTERS = 0.5  # of the characters that print: letters and digits
_MOST_CONTROLS = 0.05  # a font of TeX's has ligatures and accents there


@dataclass(frozen=True, slots=True)
class Rescued:
    """A PDF that PDFium opens. The caller closes ``file``."""

    file: BinaryIO
    page_count: int  # those that are missing included
    missing: frozenset[int]  # page numbers, from 1, that cannot be loaded
    partial: frozenset[int]  # pages of which some text, font or picture is lost
    doubtful: frozenset[int]  # those of them whose text may come out as other characters, for want of a font
    total_known: bool
    is_cut: bool

    @property
    def damage(self) -> str:
        """What is lost, as one sentence; empty when nothing is."""
        parts: list[str] = []
        count = self.page_count
        if not self.total_known:
            saved = count - len(self.missing)
            parts.append(f"{_many(saved, 'page')} could be saved; how many are missing cannot be told")
        elif self.missing:
            parts.append(f"{_numbers(self.missing)} of {count} {'is' if len(self.missing) == 1 else 'are'} missing")
        if self.partial:
            parts.append(f"{_numbers(self.partial)} {'is' if len(self.partial) == 1 else 'are'} incomplete")
        return f"The file is {'cut off' if self.is_cut else 'damaged'}: {'; '.join(parts)}." if parts else ""


def rescue(path: Path, name: str) -> Rescued | None:
    """The pages that are left of a broken PDF; None when there are none.

    UnreadableFile when the file is protected as well: what is left of it cannot be decrypted.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _rescue(Fragments(data), name)
    except (OSError, ValueError):  # ValueError: nothing in it to map
        return None


def has_end(path: Path) -> bool:
    """Whether a PDF ends as it should. One that does not may open, and show blank pages."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2048))
        return b"%%EOF" in file.read()


def _rescue(fragments: Fragments, name: str) -> Rescued | None:
    if fragments.encrypted:
        raise UnreadableFile(
            f"{name} is damaged or cut off, and protected: what is left of it cannot be decrypted",
            "Send a whole copy, best one without protection",
        )
    left = LeftPages(fragments)
    slots = left.slots
    states = [left.state(number) if number else "lost" for number in slots]
    if all(state == "lost" for state in states):
        return None
    kept = [number if state != "lost" else None for number, state in zip(slots, states, strict=True)]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        _Writer(fragments, left, file).write(kept)
        file.seek(0)
        stack.pop_all()
    return Rescued(
        file=file,
        page_count=len(slots),
        missing=frozenset(place for place, state in enumerate(states, 1) if state == "lost"),
        partial=frozenset(place for place, state in enumerate(states, 1) if state == "partial"),
        doubtful=frozenset(place for place, page in enumerate(kept, 1) if page and left.is_doubtful(page)),
        total_known=left.total_known,
        is_cut=fragments.is_cut,
    )


def is_legible(codes: NDArray[np.uint32], is_picture: bool) -> bool:
    """Whether these characters can be the text of a page some of whose fonts are lost.

    Without its font a text comes out as the numbers of its glyphs: control characters, punctuation, nothing
    at all. Nothing is right where the page is a picture.
    """
    printed = codes[~np.isin(codes, _SAYS_NOTHING)]
    if not len(printed):
        return is_picture
    kinds, counts = np.unique(printed, return_counts=True)
    letters = np.array([chr(kind).isalnum() if kind < 0x110000 else False for kind in kinds.tolist()], dtype=bool)
    controls = (kinds < 32) | (kinds >= 0xE000) & (kinds < 0xF900) | (kinds >= 0xFFF0)
    total = counts.sum()
    return bool(counts[letters].sum() >= _LEAST_LETTERS * total and counts[controls].sum() <= _MOST_CONTROLS * total)


class _Writer:
    """A file written from fragments."""

    def __init__(self, fragments: Fragments, left: LeftPages, file: BinaryIO) -> None:
        self._fragments = fragments
        self._left = left
        self._file = file
        self._offsets: dict[int, int] = {}
        self._fresh = 0

    def write(self, kept: list[int | None]) -> None:
        """``kept``: the object numbers of the pages in order, None for a page that is missing."""
        self._file.write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        catalogue, tree, nothing = self._number(), self._number(), self._number()
        pages = self._write_pages(kept, tree, nothing)
        for number in self._fragments.objects:
            if number not in self._offsets and number not in self._left.structure:
                self._copy(number)
        kids = b" ".join(b"%d 0 R" % number for number in pages)
        self._write_object(tree, b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(pages), kids))
        self._write_object(catalogue, b"<</Type/Catalog/Pages %d 0 R%s>>" % (tree, self._of_catalogue()))
        self._write_table(catalogue)

    def _number(self) -> int:
        """An object number that nothing has and nothing refers to."""
        self._fresh += 1
        while self._fresh in self._fragments.objects or self._fresh in self._left.mentioned:
            self._fresh += 1
        return self._fresh

    def _write_pages(self, kept: list[int | None], tree: int, nothing: int) -> list[int]:
        numbers: list[int] = []
        for page in kept:
            number = nothing if page is None else page if page not in self._offsets else self._number()
            numbers.append(number)
            found = self._fragments.dictionary(page) if page is not None else None
            if found is not None:
                self._write_object(number, self._page(found, tree))
        return numbers

    def _page(self, found: Dictionary, tree: int) -> bytes:
        entries = {key: value for key, value in found.entries.items() if key != b"Parent"}
        for key in _INHERITED:
            value = entries.get(key) or self._left.inherited(found, key)
            if value:
                entries[key] = value
        body = b"".join(b"/%s %s\n" % entry for entry in entries.items())
        return b"<<%s/Parent %d 0 R>>" % (body, tree)

    def _of_catalogue(self) -> bytes:
        found = self._fragments.dictionary(self._left.catalogue)
        entries = found.entries if found else {}
        return b"".join(b"/%s %s" % (key, entries[key]) for key in _KEPT_OF_CATALOGUE if key in entries)

    def _copy(self, number: int) -> None:
        fragment = self._fragments.objects[number]
        self._begin(number)
        self._file.write(self._fragments.head(number))
        if fragment.stream is not None:
            self._file.write(b"\nstream\n")
            for start in range(*fragment.stream, 1 << 20):
                self._file.write(self._fragments.data[start : min(start + (1 << 20), fragment.stream[1])])
            self._file.write(b"\nendstream")
        self._file.write(b"\nendobj\n")

    def _write_object(self, number: int, body: bytes) -> None:
        self._begin(number)
        self._file.write(body + b"\nendobj\n")

    def _begin(self, number: int) -> None:
        self._offsets[number] = self._file.tell()
        self._file.write(b"%d 0 obj\n" % number)

    def _write_table(self, catalogue: int) -> None:
        """The cross-reference table, in runs of successive numbers, and the trailer."""
        start = self._file.tell()
        self._file.write(b"xref\n0 1\n0000000000 65535 f \n")
        for run in _runs(sorted(self._offsets)):
            self._file.write(b"%d %d\n" % (run.start, len(run)))
            self._file.writelines(b"%010d 00000 n \n" % self._offsets[number] for number in run)
        size = max(self._offsets) + 1
        self._file.write(b"trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, catalogue, start))


def _runs(numbers: list[int]) -> list[range]:
    """Sorted numbers as ranges without holes."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _numbers(pages: frozenset[int]) -> str:
    """As in: page 4; pages 5 to 7; pages 1, 3 to 5 and 9. Of very many parts the first ones."""
    runs = _runs(sorted(pages))
    parts = [str(run.start) if len(run) == 1 else f"{run.start} to {run.stop - 1}" for run in runs]
    if len(parts) > 12:
        parts = [*parts[:11], f"{sum(map(len, runs[11:]))} more"]
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"page {listed}" if len(pages) == 1 else f"pages {listed}"
