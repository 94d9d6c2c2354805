"""OCR lines become blocks in reading order: paragraphs, headings, lists, tables, figures.

Every line ends up in exactly one block: what no layout region claims is joined by its position alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assistant.core.domain import Block, BlockKind, Box, Reader
from ingestion.readers.columns import Item, in_columns
from ingestion.readers.imagelayout import Region
from ingestion.readers.imagetables import ImageTable
from ingestion.readers.lines import Line, mean_score, rows_of

GAP = 0.8  # of the line height: more white than this between two lines ends a paragraph
FLOWS = 0.82  # of the column's width that a line must reach for the next one to continue its sentence
INDENT = 0.8  # of the line height: a first line set in by so much begins a paragraph
HEADING_HEIGHT = 1.3  # of the usual line height
OPEN = 4  # paragraphs that stand side by side and may still go on
TALLER = 1.35  # lines of such different height are no paragraph together

_BULLET = re.compile(r"^[•▪■●○◦·∙‣*–—-]\s*(?=\S)")
_NUMBER = re.compile(r"^\(?(\d{1,3}|[a-zA-Z])[.)]\s+(?=\S)")
_HYPHENATED = re.compile(r"[^\W\d_][-—‐]$")  # the quick recogniser takes a hyphen at a line's end for a dash

Content = Line | ImageTable | Region  # a Region is a figure
ToBox = Callable[[float, float, float, float], Box]


@dataclass(frozen=True, slots=True)
class PageLayout:
    """What is known about the page besides its lines (pixels of the straightened page)."""

    regions: Sequence[Region] = ()
    tables: Sequence[ImageTable] = ()
    figures: Sequence[Region] = ()


@dataclass(slots=True)
class _Row:
    """Lines side by side, read as one."""

    lines: list[Line]
    region: Region | None

    @property
    def text(self) -> str:
        return " ".join(line.text.strip() for line in self.lines)

    @property
    def x0(self) -> float:
        return min(line.x0 for line in self.lines)

    @property
    def x1(self) -> float:
        return max(line.x1 for line in self.lines)

    @property
    def y0(self) -> float:
        return min(line.y0 for line in self.lines)

    @property
    def y1(self) -> float:
        return max(line.y1 for line in self.lines)

    @property
    def height(self) -> float:
        return float(np.median([line.height for line in self.lines]))


def blocks_of(lines: Sequence[Line], layout: PageLayout, to_box: ToBox, reader: Reader) -> tuple[Block, ...]:
    """The page's blocks in reading order. ``to_box`` maps pixels to fractions of the page."""
    in_tables = {id(line) for table in layout.tables for line in table.lines}
    free = [line for line in lines if id(line) not in in_tables]
    usual = float(np.median([line.height for line in lines])) if lines else 0.0
    blocks: list[Block] = []
    for run in in_columns([*map(_line_item, free), *_other_items(layout)]):
        column = _Column([item.content for item in run], layout.regions, usual, to_box, reader)
        blocks += column.blocks()
    return tuple(blocks)


def _line_item(line: Line) -> Item[Content]:
    return Item(line.x0, line.y0, line.x1, line.y1, max(1, len(line.text)), line)


def _other_items(layout: PageLayout) -> list[Item[Content]]:
    tables: list[Item[Content]] = [Item(*_table_box(table), 0, table) for table in layout.tables]
    figures: list[Item[Content]] = [Item(*figure.box, 0, figure) for figure in layout.figures]
    return tables + figures


def _table_box(table: ImageTable) -> tuple[float, float, float, float]:
    lines = table.lines
    return (
        min(line.x0 for line in lines), min(line.y0 for line in lines),
        max(line.x1 for line in lines), max(line.y1 for line in lines),
    )  # fmt: skip


@dataclass(slots=True)
class _Column:
    """One run of a page, from the top down."""

    content: Sequence[Content]
    regions: Sequence[Region]
    usual: float
    to_box: ToBox
    reader: Reader

    def blocks(self) -> list[Block]:
        """Tables and figures where they stand, the lines between them as paragraphs."""
        figures = [content for content in self.content if isinstance(content, Region)]
        inside: dict[int, list[Line]] = {id(figure): [] for figure in figures}
        placed: list[tuple[float, Block]] = []
        loose: list[Line] = []
        for content in self.content:
            if isinstance(content, Line):
                home = next((figure for figure in figures if figure.share_of(content) > 0.6), None)
                (loose if home is None else inside[id(home)]).append(content)
            elif isinstance(content, ImageTable):
                placed.append((min(line.y0 for line in content.lines), self._table(content)))
        placed += [(figure.y0, self._figure(figure, inside[id(figure)])) for figure in figures]
        placed.sort(key=lambda pair: pair[0])
        return self._woven(placed, loose)

    def _woven(self, placed: Sequence[tuple[float, Block]], lines: Sequence[Line]) -> list[Block]:
        blocks: list[Block] = []
        rest = list(lines)
        for top, block in placed:
            above = [line for line in rest if line.middle < top]
            rest = [line for line in rest if line.middle >= top]
            blocks += [*self._paragraphs(above), block]
        return blocks + self._paragraphs(rest)

    def _table(self, table: ImageTable) -> Block:
        return Block(
            BlockKind.TABLE, table.table.markdown(), self.to_box(*_table_box(table)),
            mean_score(table.lines), self.reader, html=table.table.html(),
        )  # fmt: skip

    def _figure(self, figure: Region, lines: Sequence[Line]) -> Block:
        text = "\n".join(" ".join(line.text for line in row) for row in rows_of(lines))
        confidence = mean_score(lines) if lines else figure.score
        return Block(BlockKind.FIGURE, text, self.to_box(*figure.box), min(1.0, confidence), self.reader)

    def _paragraphs(self, lines: Sequence[Line]) -> list[Block]:
        rows = [row for together in rows_of(lines) for row in self._rows(together)]
        if not rows:
            return []
        left, right = min(row.x0 for row in rows), max(row.x1 for row in rows)
        groups: list[list[_Row]] = []
        for row in rows:
            home = self._home(groups, row, left)
            if home is not None:
                home.append(row)
            else:
                groups.append([row])
        return _with_lists_joined([self._block(group, left, right) for group in groups])

    def _home(self, groups: Sequence[list[_Row]], row: _Row, left: float) -> list[_Row] | None:
        """The paragraph that ``row`` goes on with: the one right above it, also where others stand beside."""
        for group in groups[: -OPEN - 1 : -1]:
            if self._continues(group, row, left):
                return group
            if min(group[-1].x1, row.x1) > max(group[-1].x0, row.x0):
                return None
        return None

    def _rows(self, lines: Sequence[Line]) -> list[_Row]:
        """Lines at the same height as one row, or as several where they belong to different things: to other
        regions of the layout, or in other sizes."""
        rows: list[_Row] = []
        for line in lines:
            region = self._region_of([line])
            last = rows[-1] if rows else None
            if last is not None and last.region is region and _as_high(last.height, line.height):
                last.lines.append(line)
            else:
                rows.append(_Row([line], region))
        return rows

    def _region_of(self, row: Sequence[Line]) -> Region | None:
        shares = [(sum(region.share_of(line) for line in row) / len(row), region) for region in self.regions]
        share, region = max(shares, key=lambda pair: pair[0], default=(0.0, None))
        return region if share > 0.5 else None

    def _continues(self, group: Sequence[_Row], row: _Row, left: float) -> bool:
        """Whether ``row`` belongs to the paragraph that ``group`` is."""
        last = group[-1]
        height = max(last.height, row.height)
        if row.region is not last.region and (row.region is None or last.region is None):
            kinds = {r.region.kind for r in (row, last) if r.region is not None}
            if kinds != {BlockKind.PARAGRAPH}:
                return False
        elif row.region is not last.region:
            return False
        if row.y0 - last.y1 > GAP * height or not _as_high(last.height, row.height):
            return False
        if _is_item(row.text) or min(last.x1, row.x1) <= max(last.x0, row.x0):
            return False
        indented = row.x0 - left > INDENT * height and row.x0 - last.x0 > INDENT * height
        hanging = _is_item(group[0].text)
        return not indented or hanging or len(last.lines) > 1 or len(row.lines) > 1

    def _block(self, rows: Sequence[_Row], left: float, right: float) -> Block:
        lines = [line for row in rows for line in row.lines]
        kind, level = self._kind(rows)
        text = _joined(rows, left, right)
        if kind is BlockKind.LIST:
            text = _BULLET.sub("- ", text)
        box = self.to_box(min(r.x0 for r in rows), min(r.y0 for r in rows), max(r.x1 for r in rows), rows[-1].y1)
        return Block(kind, text, box, mean_score(lines), self.reader, level=level)

    def _kind(self, rows: Sequence[_Row]) -> tuple[BlockKind, int]:
        region = rows[0].region
        kind = region.kind if region is not None else BlockKind.PARAGRAPH
        ratio = max(row.height for row in rows) / self.usual if self.usual else 1.0
        text = " ".join(row.text for row in rows)
        if kind in (BlockKind.CAPTION, BlockKind.HEADER, BlockKind.FOOTER, BlockKind.EQUATION):
            return kind, 0
        if _is_bulleted(text) or (_NUMBER.match(text) and kind is not BlockKind.HEADING):
            return BlockKind.LIST, 0
        if _may_head(rows, text) and (kind is BlockKind.HEADING or ratio >= HEADING_HEIGHT):
            return BlockKind.HEADING, 1 if ratio >= 1.9 else 2 if ratio >= HEADING_HEIGHT else 3
        return BlockKind.PARAGRAPH, 0


def _may_head(rows: Sequence[_Row], text: str) -> bool:
    """A heading is short, has letters, and is no sentence."""
    letters = sum(character.isalpha() for character in text)
    return len(rows) <= 3 and len(text) <= 200 and letters >= max(2, 0.4 * len(text)) and not text.endswith((",", ";"))


def _as_high(one: float, other: float) -> bool:
    return max(one, other) <= TALLER * min(one, other)


def _is_item(text: str) -> bool:
    return bool(_is_bulleted(text) or _NUMBER.match(text))


def _is_bulleted(text: str) -> bool:
    """A mark that stands again at the line's end is an ornament: *** thank you ***, - invoice -."""
    return bool(_BULLET.match(text)) and text[0] != text[-1]


def _joined(rows: Sequence[_Row], left: float, right: float) -> str:
    """The rows as running text where they fill the column, line by line where they do not. A word that was
    divided at a line's end is whole again."""
    text = rows[0].text
    for last, row in pairwise(rows):
        flows = last.x1 - left >= FLOWS * (right - left) and len(last.lines) == 1
        if _HYPHENATED.search(text) and row.text[:1].islower():
            text = text[:-1] + row.text
        else:
            text += (" " if flows else "\n") + row.text
    return text


def _with_lists_joined(blocks: Sequence[Block]) -> list[Block]:
    """Neighbouring list items as one list."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last is not None and last.kind is block.kind is BlockKind.LIST:
            weights = max(1, len(last.text)), max(1, len(block.text))
            confidence = (last.confidence * weights[0] + block.confidence * weights[1]) / sum(weights)
            box = Box.around((last.bbox, block.bbox))
            joined[-1] = Block(BlockKind.LIST, f"{last.text}\n{block.text}", box, min(1.0, confidence), block.reader)
        else:
            joined.append(block)
    return joined
