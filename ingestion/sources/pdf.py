"""PDF files as pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL.Image import Image

from assistant.core.domain import Box, Word
from assistant.core.errors import TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.pages import Line, Page, Ruling
from ingestion.sources.pdfium.document import PdfFile, RawPage
from ingestion.sources.pdfium.fields import Field
from ingestion.sources.runningheads import RunningHeads
from ingestion.sources.textlines import read_lines

_XFA_MARKS = (b"/XFA", b"<xdp:xdp", b"/NeedsRendering true")
_PICTURE_SHARE = 0.0002  # of the page; what is smaller is a dot of a pattern
_SCAN_SHARE = 0.9  # of the page covered by pictures from which it is a scan
_LEAST_DPI = 100  # a coarser scan is drawn larger than it is: small letters are found better


class PdfSource:
    """An open PDF. Pages are read one at a time and not kept."""

    media_type = "application/pdf"

    def __init__(self, path: Path, name: str, password: str, limits: LimitSettings) -> None:
        self._name = name
        self._limits = limits
        self._file = PdfFile(path, name, password)
        self.damage = self._file.damage
        self._heads = RunningHeads(self._file.page_count, self._peek)
        self.may_peek: Callable[[int], bool] = lambda _: True  # asked before another page is loaded on the way
        try:
            self._check(path)
        except BaseException:
            self._file.close()
            raise

    def _check(self, path: Path) -> None:
        self.page_count = self._file.page_count
        if self.page_count > self._limits.pages:
            raise TooLarge(f"{self._name} has {self.page_count} pages; the limit is {self._limits.pages}")
        if self.page_count < 1:
            raise UnreadableFile(f"{self._name} is a PDF without pages")
        if self._is_form_shell(path):
            raise UnsupportedFile(
                f"{self._name} is an XFA form: its content is not in its pages and cannot be read",
                "Open it in Adobe Reader, print it to a new PDF, and send that",
            )
        if self.page_count == 1:
            self._file.glyphs(1)  # a file whose only page cannot be loaded is refused as a whole

    def _is_form_shell(self, path: Path) -> bool:
        """Whether the document is an XFA form whose pages hold no more than a notice."""
        if self.page_count > 2 or not (self._file.is_dynamic_form or _mentions_xfa(path)):
            return False
        try:
            _, glyphs = self._file.glyphs(1)
        except UnreadableFile:  # another page may be sound
            return False
        return len(glyphs.codes) < 600

    def page(self, number: int) -> Page:
        """Page ``number``, from 1. UnreadableFile when it cannot be loaded."""
        page = build_page(number, self._file.read(number), self._render)
        return replace(page, lines=tuple(self._heads.marked(number, page.lines)))

    def _peek(self, number: int) -> Sequence[Line]:
        """The lines of another page, to compare its edges; none when it cannot be loaded."""
        if not self.may_peek(number):
            return []
        try:
            return read_lines(self._file.read(number))[0]
        except UnreadableFile:
            return []

    def _render(self, number: int, finest: float, dpi: float) -> Image:
        return self._file.render(number, min(dpi, finest), self._limits.render_megapixels)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> PdfSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _mentions_xfa(path: Path) -> bool:
    """Whether a file speaks of XFA near its start or its end, where PDFium's form type does not see it."""
    with path.open("rb") as file:
        data = file.read(200_000)
        file.seek(max(0, path.stat().st_size - 200_000))
        data += file.read(200_000)
    return any(mark in data for mark in _XFA_MARKS)


def build_page(number: int, raw: RawPage, render: Callable[[int, float, float], Image]) -> Page:
    """A page from its raw contents. ``render`` takes its number, the finest resolution that shows more, and the
    wanted one."""
    width, height = raw.geometry.size
    lines, unseen, signs = read_lines(raw)
    lines += [line for field in raw.fields for line in _field_lines(field, width, height)]
    pictures = tuple(box for box in _boxes(raw.drawn.pictures, width, height) if box.area >= _PICTURE_SHARE)
    return Page(
        number=number,
        width=width,
        height=height,
        draw=partial(render, number, _finest(raw, bool(lines))),
        lines=tuple(lines),
        unseen=tuple(unseen),
        pictures=pictures,
        drawings=_boxes(raw.drawn.curves, width, height),
        rulings=_rulings(raw, width, height),
        signs=signs,
        thumbnail=raw.thumbnail,
    )


def _finest(raw: RawPage, has_text: bool) -> float:
    """The resolution in dpi beyond which drawing the page only repeats pixels: that of the scan, where the page is
    nothing else."""
    width, height = raw.geometry.size
    covered = sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in raw.drawn.pictures)
    if has_text or raw.drawn.curves or covered < _SCAN_SHARE * width * height:
        return math.inf
    return max(_LEAST_DPI, 72 * max(raw.drawn.densities)) if all(raw.drawn.densities) else math.inf


def _boxes(found: list[tuple[float, float, float, float]], width: float, height: float) -> tuple[Box, ...]:
    if not found:
        return ()
    shares = np.clip(np.array(found) / np.array([width or 1, height or 1] * 2), 0, 1).round(5)
    return tuple(Box(*row) for row in shares.tolist())


def _rulings(raw: RawPage, width: float, height: float) -> tuple[Ruling, ...]:
    sides = raw.drawn.rulings
    return tuple(
        Ruling(box, side[2] - side[0] >= side[3] - side[1])
        for side, box in zip(sides, _boxes(sides, width, height), strict=True)
    )


def _field_lines(field: Field, width: float, height: float) -> list[Line]:
    """The lines of a form field's value, laid evenly into its box."""
    texts = [text.strip() for text in field.text.splitlines() if text.strip()]
    x0, y0, x1, y1 = field.box
    step = (y1 - y0) / max(1, len(texts))
    lines: list[Line] = []
    for index, text in enumerate(texts):
        box = Box.of(x0 / width, (y0 + index * step) / height, x1 / width, (y0 + (index + 1) * step) / height)
        size = min(12.0, max(4.0, step * 0.8))
        lines.append(Line(text, box, (Word(text, box),), size, field=True))
    return lines
