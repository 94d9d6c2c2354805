"""Reading order of a page's lines: which stand in columns, which in a table, which follow each other.

A page is cut along its gutters: strips of white that several lines stand on both sides of. What lies
between is either columns of text, read one after the other, or the rows of a table. Everything here is in
points of the upright page, y downwards.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ingestion.pages import Line

Floats = NDArray[np.float64]

_GUTTER_EM = 0.9  # least width of a gutter, in type sizes
_PROSE_WORDS = 4  # a line of running text has at least so many words
_PROSE_FILL = 0.55  # and fills so much of its column
_WORD_CHARACTERS = 6.0  # what counts as a word where a script has no spaces
_DEEPEST = 12
_MATHS = re.compile(r"[∑∏∫√≤≥∈∉∀∃∂∞⊂⊆∪∩⇒≈≡≠∇∝⟨⟩λφψθσμω]|\S\s?=\s?\S")


@dataclass(eq=False)
class Item:
    """A line, or something already understood (``block``: a table), with its place in points."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    line: Line | None = None
    block: object | None = None

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2

    @property
    def base(self) -> float:
        """The baseline: the box reaches 0.22 of the size below it."""
        return self.y1 - 0.22 * self.size

    @cached_property
    def words(self) -> float:
        """How many words; characters count where the script has no spaces."""
        if self.line is None:
            return 0.0
        text = self.line.text
        spaced = len(text.split())
        return max(spaced, len(text) / 2 / _WORD_CHARACTERS) if not text.isascii() else float(spaced)


@dataclass
class Region:
    """Items that belong together in reading order: running text, or the rows of a table."""

    items: list[Item]
    is_table: bool = False
    gutters: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def box(self) -> tuple[float, float, float, float]:
        return (
            min(item.x0 for item in self.items),
            min(item.y0 for item in self.items),
            max(item.x1 for item in self.items),
            max(item.y1 for item in self.items),
        )


@dataclass(frozen=True, slots=True)
class _Gutter:
    x0: float
    x1: float
    top: float
    bottom: float
    score: float


def arrange(items: Sequence[Item], depth: int = 0) -> list[Region]:
    """Regions in reading order."""
    if not items:
        return []
    gutter = _best_gutter(items) if depth < _DEEPEST and len(items) >= 4 else None
    if gutter is None:
        return [Region(sorted(items, key=lambda item: (item.middle, item.x0)))]
    inside = [item for item in items if gutter.top <= item.middle <= gutter.bottom]
    above = [item for item in items if item.middle < gutter.top]
    below = [item for item in items if item.middle > gutter.bottom]
    return [*arrange(above, depth + 1), *_split(inside, gutter, depth), *arrange(below, depth + 1)]


def _split(items: list[Item], gutter: _Gutter, depth: int) -> list[Region]:
    if _is_formula(items):
        return [Region(sorted(items, key=lambda item: (item.middle, item.x0)))]
    columns = _columns(items, gutters_of(items))
    if _is_tabular(items, columns):
        return _as_table(items, depth)
    middle = (gutter.x0 + gutter.x1) / 2
    above, inside, below = _without_ends(items, middle)
    left = [item for item in inside if item.x1 <= middle]
    right = [item for item in inside if item.x0 >= middle]
    return [
        *arrange(above, depth + 1),
        *arrange(left, depth + 1),
        *arrange(right, depth + 1),
        *arrange(below, depth + 1),
    ]


def _is_formula(items: Sequence[Item]) -> bool:
    """Whether the items are pieces of displayed formulas, which stand apart like cells."""
    signs = sum(1 for item in items if item.line and _MATHS.search(item.line.text))
    return signs >= 2 and signs >= 0.25 * len(items)


def _without_ends(items: Sequence[Item], middle: float) -> tuple[list[Item], list[Item], list[Item]]:
    """What stands above and below the columns on one side only, parted from them by white across both: a
    title over the columns, the caption of a table that follows them."""
    groups: list[list[Item]] = []
    lowest = 0.0
    for item in sorted(items, key=lambda item: item.y0):
        if not groups or item.y0 > lowest + 0.6 * item.size:
            groups.append([])
            lowest = item.y1
        groups[-1].append(item)
        lowest = max(lowest, item.y1)
    start, end = 0, len(groups)
    while start < end and _one_sided(groups[start], middle):
        start += 1
    while end > start and _one_sided(groups[end - 1], middle):
        end -= 1
    if start == end:
        return [], list(items), []
    flat = [[item for group in part for item in group] for part in (groups[:start], groups[start:end], groups[end:])]
    return flat[0], flat[1], flat[2]


def _one_sided(group: Sequence[Item], middle: float) -> bool:
    return len(group) <= 3 and (all(item.x1 <= middle for item in group) or all(item.x0 >= middle for item in group))


def _best_gutter(items: Sequence[Item]) -> _Gutter | None:
    """The strip of white with the most lines on both sides."""
    boxes = np.array([(item.x0, item.y0, item.x1, item.y1) for item in items])
    ems = np.array([item.size for item in items])
    order = np.argsort(boxes[:, 1] + boxes[:, 3])
    boxes, ems = boxes[order], ems[order]
    middles = (boxes[:, 1] + boxes[:, 3]) / 2
    width = _GUTTER_EM * float(np.median(ems))
    best: _Gutter | None = None
    for edge in _edges(boxes[:, 0]):
        x0, x1 = edge - width, edge - 0.01
        if not (boxes[:, 2] <= x0).any():
            continue
        blocking = (boxes[:, 0] < x1) & (boxes[:, 2] > x0)
        found = _longest_interval(boxes, middles, blocking, x0, x1)
        if found and (best is None or found.score > best.score):
            best = found
    return best


def _edges(lefts: Floats) -> list[float]:
    """Distinct left edges, where a gutter may end."""
    values = np.unique(lefts.round(0))
    return [float(lefts[np.abs(lefts - value) <= 0.5].min()) for value in values.tolist()]


def _longest_interval(
    boxes: Floats, middles: Floats, blocking: NDArray[np.bool_], x0: float, x1: float
) -> _Gutter | None:
    """The run of lines, between two that cross the strip, with the most text on both sides."""
    best: _Gutter | None = None
    stops = np.flatnonzero(blocking)
    starts = np.concatenate([[0], stops + 1])
    ends = np.concatenate([stops, [len(boxes)]])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end - start < 4:
            continue
        part = boxes[start:end]
        left, right = part[part[:, 2] <= x0 + 0.01], part[part[:, 0] >= x1 - 0.01]
        few = min(_levels(left), _levels(right))
        if few < 2:
            continue
        if right[:, 0].min() - left[:, 2].max() < _width_for(few) * (x1 - x0) / _GUTTER_EM:
            continue
        shared = min(left[:, 3].max(), right[:, 3].max()) - max(left[:, 1].min(), right[:, 1].min())
        score = float(shared) * (1 + 0.02 * min(len(left), len(right)))
        if shared > 0 and (best is None or score > best.score):
            best = _Gutter(x0, x1, float(middles[start]) - 0.1, float(middles[end - 1]) + 0.1, score)
    return best


def _levels(boxes: Floats) -> int:
    """How many lines the boxes stand on (pieces of one line count once)."""
    middles = np.sort(boxes[:, 1] + boxes[:, 3]) / 2
    heights = float(np.median(boxes[:, 3] - boxes[:, 1])) if len(boxes) else 1.0
    return int((np.diff(middles) > 0.4 * heights).sum()) + 1 if len(boxes) else 0


def _width_for(lines: int) -> float:
    """Least width of a gutter between so many lines, in type sizes: the wide spaces of a few justified lines
    lie above each other by chance."""
    return _GUTTER_EM if lines >= 6 else 1.2 if lines >= 4 else 1.6 if lines == 3 else 2.2


def gutters_of(items: Sequence[Item]) -> list[tuple[float, float]]:
    """Strips of white that (nearly) no item crosses, from left to right."""
    em = float(np.median([item.size for item in items]))
    left, right = min(item.x0 for item in items), max(item.x1 for item in items)
    steps = max(2, min(4000, int((right - left) / 0.5)))
    cover = np.zeros(steps + 1)
    scale = steps / max(1e-6, right - left)
    for item in items:
        a, b = int((item.x0 - left) * scale), int(np.ceil((item.x1 - left) * scale))
        cover[a : b + 1] += 1
    rows = len(rows_of(items))
    white = cover <= 0.12 * rows
    found: list[tuple[float, float]] = []
    start: int | None = None
    for index, is_white in enumerate([*white.tolist(), False]):
        if is_white and start is None:
            start = index
        elif not is_white and start is not None:
            if (index - start) / scale >= 0.5 * em and start > 0 and index <= steps:
                found.append((left + start / scale, left + index / scale))
            start = None
    return found


def _columns(items: Sequence[Item], gutters: Sequence[tuple[float, float]]) -> list[list[Item]]:
    """Items by the column they stand in; those that span several are left out."""
    edges = [(a + b) / 2 for a, b in gutters]
    columns: list[list[Item]] = [[] for _ in range(len(edges) + 1)]
    for item in items:
        first, last = (sum(x > edge for edge in edges) for x in (item.x0 + 0.5, item.x1 - 0.5))
        if first == last:
            columns[first].append(item)
    return [column for column in columns if column]


def rows_of(items: Sequence[Item]) -> list[list[Item]]:
    """Items that stand on one baseline, top to bottom, each row from left to right."""
    rows: list[list[Item]] = []
    for item in sorted(items, key=lambda item: item.middle):
        near = rows and abs(item.middle - rows[-1][0].middle) <= 0.4 * min(item.size, rows[-1][0].size)
        if near:
            rows[-1].append(item)
        else:
            rows.append([item])
    return [sorted(row, key=lambda item: item.x0) for row in rows]


def _is_prose(column: Sequence[Item]) -> bool:
    """Whether a column holds running text: most of it in lines of several words that fill it."""
    left, right = min(item.x0 for item in column), max(item.x1 for item in column)
    full = [item for item in column if item.words >= _PROSE_WORDS and item.x1 - item.x0 >= _PROSE_FILL * (right - left)]
    total = sum(item.words for item in column)
    return len(full) >= 3 and sum(item.words for item in full) >= 0.6 * total


def _is_tabular(items: Sequence[Item], columns: Sequence[Sequence[Item]]) -> bool:
    """Whether the items are cells: short, and level with each other across the columns."""
    if len(columns) < 2 or any(item.block is not None for item in items):
        return False
    prose = [column for column in columns if _is_prose(column)]
    if len(prose) >= 2 or (len(prose) == 1 and len(columns) == 1):
        return False
    rows = rows_of(items)
    full = [row for row in rows if len(row) >= 2]
    if len(full) < 2 or (len(full) < 3 and len(columns) < 3):
        return False
    level = {id(item) for row in full for item in row if _is_level(item, row)}
    short = [item for column in columns for item in column if column not in prose]
    aligned = sum(id(item) in level for item in short)
    wordy = sum(item.words for item in short) / max(1, len(short))
    return aligned >= (0.75 if prose else 0.6) * len(short) and wordy <= 6


def _is_level(item: Item, row: Sequence[Item]) -> bool:
    """Whether another item of the row stands on the very same baseline: lines of neighbouring columns of text
    are near each other's height by chance, cells by design."""
    return any(other is not item and abs(other.base - item.base) <= 0.14 * item.size for other in row)


def _as_table(items: list[Item], depth: int) -> list[Region]:
    """One or more tables: split where rows stand far apart; lone lines at either end are text."""
    regions: list[Region] = []
    for group in _row_groups(rows_of(items)):
        head, body, tail = _trimmed(group)
        regions += arrange([item for row in head for item in row], depth + 1)
        cells = [item for row in body for item in row]
        if len(body) >= 2 and max(len(row) for row in body) >= 2:
            regions.append(Region(cells, is_table=True, gutters=gutters_of(cells)))
        elif cells:
            regions.append(Region(cells))
        regions += arrange([item for row in tail for item in row], depth + 1)
    return regions


def _row_groups(rows: list[list[Item]]) -> list[list[list[Item]]]:
    """Rows split where the white between them is much more than usual."""
    gaps = [_gap(above, below) for above, below in itertools.pairwise(rows)]
    if not gaps:
        return [rows]
    em = float(np.median([item.size for row in rows for item in row]))
    usual = float(np.median(gaps))
    groups = [[rows[0]]]
    for gap, row in zip(gaps, rows[1:], strict=True):
        if gap > max(3.0 * em, usual + 2.2 * em):
            groups.append([])
        groups[-1].append(row)
    return groups


def _gap(above: Sequence[Item], below: Sequence[Item]) -> float:
    return min(item.y0 for item in below) - max(item.y1 for item in above)


def _trimmed(rows: list[list[Item]]) -> tuple[list[list[Item]], list[list[Item]], list[list[Item]]]:
    """Rows of one item before and after the others: captions and notes."""
    start, end = 0, len(rows)
    first_cells = [row[0].x1 for row in rows if len(row) > 1]
    first_column = float(np.median(first_cells)) if first_cells else 0.0
    while start < end and len(rows[start]) == 1 and not _heads_columns(rows, start, first_column):
        start += 1
    while end > start and len(rows[end - 1]) == 1 and rows[end - 1][0].words > 3:
        end -= 1
    return rows[:start], rows[start:end], rows[end:]


def _heads_columns(rows: list[list[Item]], index: int, first_column: float) -> bool:
    """Whether a lone item stands over the columns after the first one, close to the next row: their head."""
    item = rows[index][0]
    close = index + 1 < len(rows) and _gap(rows[index], rows[index + 1]) < 1.2 * item.size
    return close and item.x0 > first_column and item.words <= 8
