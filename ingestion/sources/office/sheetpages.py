"""Sheets as pages: drawn as a sheet with its letters and numbers at the edges, each table boxed where it stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from assistant.core.domain import WHOLE_PAGE, Block, BlockKind, Box, Reader, Word
from assistant.core.errors import EmptyFile, NotFound, TooLarge
from assistant.core.settings import LimitSettings
from ingestion.pages import Line, Page
from ingestion.sources.drawn import draw_row, font_of
from ingestion.sources.inlays import draw_inlay
from ingestion.sources.office.sheets import Sheet, Stretch, column_letters, lines_of_stretch, pages_of, table_of_stretch
from ingestion.sources.sections import Inlay, Part, wrap

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_LETTER, _ROW = 4.7, 11.5  # points: room for a letter, and for a line of text
_EDGE = 24.0  # white around the sheet
_GUTTER = 6  # letters: room for the row numbers
_LEAST_COLUMN, _WIDEST_COLUMN = 4, 42  # letters
_LEAST_WIDTH = 60  # letters of a page
_FEW_LINES = 3
_MOST_LINES = 12  # of one cell as drawn; its text is whole all the same
_INK, _PALE, _HEAD = "black", (205, 205, 205), (240, 240, 240)


@dataclass(frozen=True, slots=True)
class _Cell:
    box: tuple[float, float, float, float]  # in points
    lines: tuple[str, ...]
    fill: tuple[int, int, int] | None = None
    framed: bool = True


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A page laid out: its size in points, its blocks, and what is drawn."""

    width: float
    height: float
    blocks: tuple[Block, ...]
    cells: tuple[_Cell, ...]


@dataclass(frozen=True, slots=True)
class _Spot:
    """A page before it is laid out: a sheet's stretches, or one of its pictures."""

    sheet: Sheet
    stretches: tuple[Stretch, ...] = ()
    is_last: bool = False
    inlay: Inlay | None = None


class SheetSource:
    """Sheets, each a page or, where it is long, several. EmptyFile when there is nothing in any, TooLarge."""

    damage = ""

    def __init__(self, name: str, media_type: str, sheets: Sequence[Sheet], limits: LimitSettings) -> None:
        self.media_type = media_type
        self._name = name
        self._limits = limits
        self._spots = [spot for sheet in sheets for spot in _spots(sheet)]
        self.page_count = len(self._spots)
        if not self._spots:
            raise EmptyFile(f"There is nothing in the sheets of {name}")
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} makes {self.page_count} pages; the limit is {limits.pages}")

    def page(self, number: int) -> Page:
        """Page ``number``, from 1."""
        if not 1 <= number <= self.page_count:
            raise NotFound(f"{self._name} has no page {number}")
        spot = self._spots[number - 1]
        if spot.inlay is not None:
            return _picture_page(number, spot.inlay, self._limits)
        drawn = _laid_out(spot)
        return Page(
            number=number,
            width=drawn.width,
            height=drawn.height,
            draw=lambda dpi: _draw(drawn, dpi, self._limits.render_megapixels),
            lines=tuple(_lines(drawn)),
            blocks=drawn.blocks,
        )

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> SheetSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _spots(sheet: Sheet) -> Iterator[_Spot]:
    if sheet.rows or sheet.after:
        made = list(pages_of(sheet))
        for index, stretches in enumerate(made):
            yield _Spot(sheet, stretches, is_last=index == len(made) - 1)
    for inlay in sheet.inlays:
        yield _Spot(sheet, inlay=inlay)


def _picture_page(number: int, inlay: Inlay, limits: LimitSettings) -> Page:
    return Page(
        number=number,
        width=float(inlay.width),
        height=float(inlay.height),
        draw=lambda dpi: draw_inlay(inlay, limits, dpi),
        pictures=(WHOLE_PAGE,),
        is_picture=True,
    )


# -- layout -----------------------------------------------------------------------------------


class _Layout:
    """Rows laid out downwards. Columns stand at the same place in all stretches of the page."""

    def __init__(self, spot: _Spot) -> None:
        self.sheet = spot.sheet
        self.spot = spot
        self.columns = sorted({column for stretch in spot.stretches for column in stretch.columns})
        widths = [_width(spot, column) for column in self.columns]
        self.lefts, place = dict[int, float](), _EDGE + _GUTTER * _LETTER
        for column, width in zip(self.columns, widths, strict=True):
            self.lefts[column] = place
            place += width * _LETTER
        self.right = max(place, _EDGE + _LEAST_WIDTH * _LETTER)
        self.ends = dict(zip(self.columns, [*[self.lefts[column] for column in self.columns[1:]], place], strict=False))
        self.y = _EDGE
        self.cells: list[_Cell] = []
        self.blocks: list[tuple[BlockKind, str, tuple[float, float, float, float], str | None, int]] = []

    def drawn(self) -> _Drawn:
        self._text(Part(BlockKind.HEADING, self.sheet.title, level=1))
        self._letters()
        last = -1
        for stretch in self.spot.stretches:
            if last >= 0 and stretch.shown[0] != last + 1:
                self.y += _ROW / 2
            self._stretch(stretch)
            last = stretch.shown[-1]
        if self.spot.is_last:
            self.y += _ROW
            for part in self.sheet.after:
                self._text(part)
        width, height = self.right + _EDGE, self.y + _EDGE
        blocks = tuple(
            Block(kind, text, _box(box, width, height), 1.0, Reader.TEXT, html=html, level=level)
            for kind, text, box, html, level in self.blocks
        )
        return _Drawn(width, height, blocks, tuple(self.cells))

    def _text(self, part: Part) -> None:
        letters = int((self.right - _EDGE) / _LETTER)
        lines = tuple(wrap(part.text, letters))
        box = (_EDGE, self.y, self.right, self.y + len(lines) * _ROW)
        self.cells.append(_Cell(box, lines, framed=False))
        self.blocks.append((part.kind, part.text, box, part.html, part.level))
        self.y = box[3] + _ROW / 2

    def _letters(self) -> None:
        """The letters above the columns."""
        for column in self.columns:
            box = (self.lefts[column], self.y, self.ends[column], self.y + _ROW)
            self.cells.append(_Cell(box, (column_letters(column),), _HEAD))
        self.y += _ROW if self.columns else 0

    def _stretch(self, stretch: Stretch) -> None:
        """Its range as a heading, then its lines of text, then its table, each boxed where it stands."""
        for row in stretch.heads if stretch.repeats else ():
            self._row(row, stretch)
        top, lines_end = self.y, self.y
        for row in stretch.named:
            self._row(row, stretch)
            lines_end = self.y if row in stretch.captions else lines_end
        right = self.ends[stretch.columns[-1]] if stretch.is_table else self.right
        named = stretch.named
        name = self.sheet.range(named[0], stretch.columns[0], named[-1], stretch.columns[-1])
        whole = (_EDGE, top, right, self.y)
        self.blocks.append((BlockKind.HEADING, name, whole, None, 2))
        if not stretch.is_table:
            kind = BlockKind.LIST if len(stretch.rows) > _FEW_LINES else BlockKind.PARAGRAPH
            self.blocks.append((kind, lines_of_stretch(self.sheet, stretch.rows), whole, None, 0))
            return
        if stretch.captions:
            box = (_EDGE, top, right, lines_end)
            self.blocks.append((BlockKind.CAPTION, lines_of_stretch(self.sheet, stretch.captions), box, None, 0))
        table = table_of_stretch(self.sheet, stretch)
        box = (_EDGE, lines_end, right, self.y)
        self.blocks.append((BlockKind.TABLE, table.markdown_of_one_head(), box, table.html(), 0))

    def _row(self, row: int, stretch: Stretch) -> None:
        texts = self.sheet.rows.get(row, {})
        reach = {merge.left: merge.right for merge in self.sheet.merges_from(row)}
        laid: list[tuple[float, float, tuple[str, ...]]] = []
        alone = len(texts) == 1 and (row in stretch.captions or not stretch.is_table)
        for column in stretch.columns:
            text = texts.get(column, "")
            last = stretch.columns[bisect_right(stretch.columns, reach.get(column, column)) - 1]
            right = self.right if alone and text else self.ends[last]
            letters = max(1, int((right - self.lefts[column]) / _LETTER) - 1)
            laid.append((self.lefts[column], right, tuple(wrap(text, letters)[:_MOST_LINES]) if text else ()))
        height = _ROW * max([1, *(len(lines) for _, _, lines in laid)])
        self.cells.append(
            _Cell((_EDGE, self.y, _EDGE + _GUTTER * _LETTER, self.y + height), (str(row + 1),), _HEAD)
        )  # fmt: skip
        fill = _HEAD if row in stretch.heads else None
        for left, right, lines in laid:
            self.cells.append(_Cell((left, self.y, right, self.y + height), lines, fill, framed=stretch.is_table and not alone))  # fmt: skip # noqa: E501
        self.y += height


def _width(spot: _Spot, column: int) -> int:
    """Letters kept for a column: as its longest text, within bounds; lines of text alone do not count."""
    longest = _LEAST_COLUMN
    for stretch in spot.stretches:
        if stretch.is_table:
            for row in stretch.shown:
                text = spot.sheet.text(row, column)
                longest = max(longest, *(len(line) for line in text.split("\n"))) if text else longest
    return min(_WIDEST_COLUMN, longest) + 2


def _laid_out(spot: _Spot) -> _Drawn:
    return _Layout(spot).drawn()


def _box(box: tuple[float, float, float, float], width: float, height: float) -> Box:
    return Box.of(box[0] / width, box[1] / height, box[2] / width, box[3] / height)


def _lines(drawn: _Drawn) -> Iterator[Line]:
    for cell in drawn.cells:
        for index, text in enumerate(cell.lines):
            if text.strip():
                x0, y0, x1, _ = cell.box
                place = (x0, y0 + index * _ROW, x1, y0 + (index + 1) * _ROW)
                box = _box(place, drawn.width, drawn.height)
                yield Line(text, box, (Word(text, box),), size=8.0)


def _draw(drawn: _Drawn, dpi: float, megapixels: float) -> Image:
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = min(dpi / 72, (megapixels * 1e6 / (drawn.width * drawn.height)) ** 0.5)
    paper = Pictures.new("RGB", (max(1, round(drawn.width * scale)), max(1, round(drawn.height * scale))), "white")
    pen = ImageDraw.Draw(paper)
    font = font_of(max(1, int(_ROW * scale * 0.7)))
    for cell in drawn.cells:
        _draw_cell(pen, cell, scale, font)
    return paper


def _draw_cell(pen: Any, cell: _Cell, scale: float, font: FreeTypeFont) -> None:
    x0, y0, x1, y1 = (side * scale for side in cell.box)
    if cell.framed:
        pen.rectangle((x0, y0, x1, y1), fill=cell.fill, outline=_PALE)
    room = max(1.0, x1 - x0 - _LETTER * scale / 2)
    for index, line in enumerate(cell.lines):
        if line.strip():
            draw_row(pen, line, x0 + _LETTER * scale / 3, y0 + (index + 0.1) * _ROW * scale, room, font)
