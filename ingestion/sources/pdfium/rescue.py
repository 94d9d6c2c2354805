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
from ingestion.sources.pdfium.fragments import Fragments, TooMuch
from ingestion.sources.pdfium.leftpages import LeftPages, PageTree

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
    except (OSError, ValueError, TooMuch):  # ValueError: nothing in it to map
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
    tree = PageTree(fragments)
    left = LeftPages(fragments, tree)
    by_number = {number: left.state(number) for number in set(filter(None, tree.slots))}
    states = [by_number[number] if number else "lost" for number in tree.slots]
    if all(state == "lost" for state in states):
        return None
    kept = [number if state != "lost" else None for number, state in zip(tree.slots, states, strict=True)]
    doubtful = {number for number in set(filter(None, kept)) if left.is_doubtful(number)}
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        _Writer(fragments, tree, left.mentioned, file).write(kept)
        file.seek(0)
        stack.pop_all()
    return Rescued(
        file=file,
        page_count=len(kept),
        missing=frozenset(place for place, state in enumerate(states, 1) if state == "lost"),
        partial=frozenset(place for place, state in enumerate(states, 1) if state == "partial"),
        doubtful=frozenset(place for place, page in enumerate(kept, 1) if page in doubtful),
        total_known=tree.total_known,
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

    def __init__(self, fragments: Fragments, tree: PageTree, mentioned: set[int], file: BinaryIO) -> None:
        self._fragments = fragments
        self._tree = tree
        self._taken = mentioned | fragments.objects.keys()
        self._passed_down: dict[tuple[int, bytes], int] = {}
        self._file = file
        self._offsets: dict[int, int] = {}
        self._fresh = 0

    def write(self, kept: list[int | None]) -> None:
        """``kept``: the object numbers of the pages in order, None for a page that is missing."""
        self._file.write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        catalogue, root, nothing = self._number(), self._number(), self._number()
        for page in dict.fromkeys(filter(None, kept)):
            self._write_page(page, root)
        for number in self._fragments.objects:
            if number not in self._offsets and number not in self._tree.nodes and number != self._tree.catalogue:
                self._copy(number)
        kids = b" ".join(b"%d 0 R" % (page or nothing) for page in kept)
        self._write_object(root, b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kept), kids))
        self._write_object(catalogue, b"<</Type/Catalog/Pages %d 0 R%s>>" % (root, self._of_catalogue()))
        self._write_table(catalogue)

    def _number(self) -> int:
        """An object number that nothing has and no page refers to."""
        self._fresh += 1
        while self._fresh in self._taken:
            self._fresh += 1
        return self._fresh

    def _write_page(self, number: int, root: int) -> None:
        found = self._fragments.dictionary(number)
        if found is None:
            return
        entries = {key: value for key, value in found.entries.items() if key != b"Parent"}
        for key, (node, value) in self._tree.inherited(found).items():
            if key not in entries:
                entries[key] = self._once(node, key, value)
        if b"MediaBox" not in entries and self._tree.usual_box:
            entries[b"MediaBox"] = self._tree.usual_box
        body = b"".join(b"/%s %s\n" % entry for entry in entries.items())
        self._write_object(number, b"<<%s/Parent %d 0 R>>" % (body, root))

    def _once(self, node: int, key: bytes, value: bytes) -> bytes:
        """A reference to what a node passes down to many pages."""
        if (node, key) not in self._passed_down:
            self._passed_down[node, key] = self._number()
            self._write_object(self._passed_down[node, key], value)
        return b"%d 0 R" % self._passed_down[node, key]

    def _of_catalogue(self) -> bytes:
        found = self._fragments.dictionary(self._tree.catalogue)
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
