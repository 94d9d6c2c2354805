"""Tables of a page's own text: by their rulings, or by the white between their columns.

Points of the upright page, y downwards. A cell knows its row, column and spans; a table writes itself as a
pipe table and as HTML.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import Box, Word
from ingestion.pages import Line
from ingestion.readers.textlayout import Item, Region, gutters_of, rows_of

_NEAR = 3.0  # points: lines this close are one, and meet
_MOST_RULINGS = 4_000
_MOST_CELLS = 3_000
_LEAST_FILLED = 0.2  # of the cells: what is emptier is a chart's grid or squared paper
_NUMBER = re.compile(r"[\s$€£%()+\-–−.,:/\d]*\d[\s$€£%()+\-–−.,:/\d]*")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    row: int
    column: int
    row_span: int
    column_span: int
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """``box`` is (x0, y0, x1, y1); ``ruled`` tells how it was found; ``merged`` counts spanning cells."""

    box: tuple[float, float, float, float]
    rows: int
    columns: int
    cells: tuple[Cell, ...]
    ruled: bool

    @property
    def merged(self) -> int:
        return sum(1 for cell in self.cells if cell.row_span > 1 or cell.column_span > 1)

    def grid(self) -> list[list[str]]:
        """The texts by row and column; a spanning cell's stands in its first place."""
        grid = [[""] * self.columns for _ in range(self.rows)]
        for cell in self.cells:
            grid[cell.row][cell.column] = cell.text
        return grid

    @property
    def markdown(self) -> str:
        rows = [[text.replace("\n", " ").replace("|", "\\|") for text in row] for row in self.grid()]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * self.columns, *lines[1:]])

    @property
    def html(self) -> str:
        rows = [
            "<tr>" + "".join(_html_cell(cell) for cell in self.cells if cell.row == row) + "</tr>"
            for row in range(self.rows)
        ]
        return "<table>" + "".join(rows) + "</table>"


def _html_cell(cell: Cell) -> str:
    spans = f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
    spans += f' colspan="{cell.column_span}"' if cell.column_span > 1 else ""
    return f"<td{spans}>{html.escape(cell.text).replace(chr(10), '<br>')}</td>"


@dataclass(frozen=True, slots=True)
class Side:
    """A ruling: at ``at`` across, from ``start`` to ``end`` along."""

    at: float
    start: float
    end: float


def ruled_tables(items: Sequence[Item], across: Sequence[Side], down: Sequence[Side]) -> tuple[list[Table], list[Item]]:
    """Tables drawn with lines, and the items that are in none of them."""
    if not 2 <= len(across) <= _MOST_RULINGS or not 2 <= len(down) <= _MOST_RULINGS:
        return [], list(items)
    rows, columns = _merged(across), _merged(down)
    tables: list[Table] = []
    rest = list(items)
    for row_sides, column_sides in _meeting(rows, columns):
        found = _grid_table(rest, row_sides, column_sides)
        if found:
            tables.append(found[0])
            rest = found[1]
    return tables, rest


def _merged(sides: Sequence[Side]) -> list[Side]:
    """Rulings with those that lie on each other or continue each other put together."""
    merged: list[Side] = []
    for side in sorted(sides, key=lambda side: side.at):
        for index in range(len(merged) - 1, -1, -1):
            other = merged[index]
            if side.at - other.at > 1.5:
                merged.append(side)
                break
            if side.start <= other.end + _NEAR and other.start <= side.end + _NEAR:
                merged[index] = Side(other.at, min(side.start, other.start), max(side.end, other.end))
                break
        else:
            merged.append(side)
    return merged


def _meeting(rows: list[Side], columns: list[Side]) -> list[tuple[list[Side], list[Side]]]:
    """Groups of rulings that touch each other, as horizontal and vertical ones."""
    h = np.array([(side.at, side.start, side.end) for side in rows])
    v = np.array([(side.at, side.start, side.end) for side in columns])
    meets = (
        (v[None, :, 0] >= h[:, None, 1] - _NEAR)
        & (v[None, :, 0] <= h[:, None, 2] + _NEAR)
        & (h[:, None, 0] >= v[None, :, 1] - _NEAR)
        & (h[:, None, 0] <= v[None, :, 2] + _NEAR)
    )
    groups: list[tuple[list[Side], list[Side]]] = []
    left = set(range(len(rows)))
    while left:
        hs, vs = _component(meets, min(left))
        left -= hs
        if len(hs) >= 2 and len(vs) >= 2 and len(hs) + len(vs) >= 5:
            groups.append(([rows[i] for i in sorted(hs)], [columns[j] for j in sorted(vs)]))
    return groups


def _component(meets: NDArray[np.bool_], first: int) -> tuple[set[int], set[int]]:
    hs, vs = {first}, set[int]()
    fresh = {first}
    while fresh:
        touched = set(np.flatnonzero(meets[sorted(fresh)].any(axis=0)).tolist()) - vs
        vs |= touched
        fresh = set(np.flatnonzero(meets[:, sorted(touched)].any(axis=1)).tolist()) - hs if touched else set()
        hs |= fresh
    return hs, vs


def _grid_table(items: list[Item], across: list[Side], down: list[Side]) -> tuple[Table, list[Item]] | None:
    """The table within a group of rulings with the items that are left, or None when it is no table."""
    xs = _lines_at([side.at for side in down], [side.start for side in across], [side.end for side in across])
    ys = _lines_at([side.at for side in across], [side.start for side in down], [side.end for side in down])
    rows, columns = len(ys) - 1, len(xs) - 1
    if rows < 1 or columns < 1 or rows * columns < 2 or rows * columns > _MOST_CELLS:
        return None
    inside, rest = _parted_items(items, xs, ys)
    owner = _owners(xs, ys, across, down)
    inside = [part for item in inside for cut in _cut(item, xs, ys, owner) for part in _numbers_apart(cut)]
    fine_xs, fine_ys = _finer(inside, xs, ys)
    fine = _fine_owners(inside, owner, (xs, ys), (fine_xs, fine_ys))
    table = _shrunk(_cells(fine, _fill(inside, fine_xs, fine_ys, fine)), (xs[0], ys[0], xs[-1], ys[-1]))
    return (table, rest) if table and _is_table(table) else None


def _parted_items(items: Sequence[Item], xs: list[float], ys: list[float]) -> tuple[list[Item], list[Item]]:
    """The items inside the grid and those outside."""
    inside = [
        item
        for item in items
        if item.line and ys[0] - 1 <= item.middle <= ys[-1] + 1 and xs[0] - 1 <= (item.x0 + item.x1) / 2 <= xs[-1] + 1
    ]
    held = {id(item) for item in inside}
    return inside, [item for item in items if id(item) not in held]


def _finer(items: Sequence[Item], xs: list[float], ys: list[float]) -> tuple[list[float], list[float]]:
    """Edges of columns and rows with those that no ruling draws: white between numbers that stand side by
    side in one column of the grid, and baselines of numbers that stand below each other in one of its rows."""
    more_xs: list[float] = []
    for left, right in itertools.pairwise(xs):
        column = [item for item in items if left - 1 <= item.x0 and item.x1 <= right + 1]
        rows = rows_of(column)
        several = [item for row in rows if len(row) > 1 for item in row]
        count = sum(len(row) > 1 for row in rows)
        if count >= 3 and 2 * count >= len(rows):
            more_xs += [(a + b) / 2 for a, b in gutters_of(several)]
    fine_xs = sorted([*xs, *more_xs])
    more_ys: list[float] = []
    for top, bottom in itertools.pairwise(ys):
        more_ys += _row_edges([item for item in items if top <= item.middle < bottom], fine_xs, bool(more_xs))
    return fine_xs, sorted([*ys, *more_ys])


def _row_edges(band: list[Item], xs: list[float], finer: bool) -> list[float]:
    """Where a row of the grid is really several: some column holds one number below the other."""
    rows = rows_of(band)
    numbers: dict[int, list[bool]] = {}
    for item in band:
        text = item.line.text if item.line else ""
        numbers.setdefault(_place((item.x0 + item.x1) / 2, xs), []).append(bool(_NUMBER.fullmatch(text)))
    stacked = any(len(found) >= 2 and all(found) for found in numbers.values())
    if len(rows) < 2 or not (stacked or (finer and any(len(row) > len(xs) // 2 for row in rows))):
        return []
    return [
        (max(item.y1 for item in above) + min(item.y0 for item in below)) / 2
        for above, below in itertools.pairwise(rows)
    ]


_Edges = tuple[list[float], list[float]]


def _fine_owners(items: Sequence[Item], owner: NDArray[np.int64], coarse: _Edges, fine: _Edges) -> NDArray[np.int64]:
    """Cells on the finer grid: those of the coarse one, taken apart where their items stand apart."""
    (xs, ys), (fine_xs, fine_ys) = coarse, fine
    rows = [_place((a + b) / 2, ys) for a, b in itertools.pairwise(fine_ys)]
    columns = [_place((a + b) / 2, xs) for a, b in itertools.pairwise(fine_xs)]
    result = owner[np.ix_(rows, columns)].copy()
    width = len(columns)
    fresh = int(owner.max()) + 1
    held: dict[int, list[tuple[int, int, int]]] = {}
    for item in items:
        row = _place(item.middle, fine_ys)
        first, last = _place(item.x0 + 1, fine_xs), _place(item.x1 - 1, fine_xs)
        held.setdefault(int(result[row, _place((item.x0 + item.x1) / 2, fine_xs)]), []).append((row, first, last))
    for name, places in held.items():
        at = np.argwhere(result == name)
        if len(at) > 1 and _stand_apart(at, places, len(set(at[:, 0].tolist())) > len({rows[i] for i in at[:, 0]})):
            for i, j in at.tolist():
                result[i, j] = fresh + i * width + j
            for row, first, last in places:
                result[row, first : last + 1] = result[row, first]
    return result


def _stand_apart(at: NDArray[np.int64], places: list[tuple[int, int, int]], finer_rows: bool) -> bool:
    """Whether a cell's items are texts of several cells: side by side in different columns, or one below
    the other in most of the rows that were found inside it."""
    by_row: dict[int, list[tuple[int, int]]] = {}
    for row, first, last in places:
        by_row.setdefault(row, []).append((first, last))
    beside = any(
        len(spans) > 1 and all(a[1] < b[0] for a, b in zip(sorted(spans), sorted(spans)[1:], strict=False))
        for spans in by_row.values()
    )
    return beside or (finer_rows and len(by_row) > 1 and len(by_row) >= 0.6 * len(set(at[:, 0].tolist())))


def _lines_at(places: list[float], starts: list[float], ends: list[float]) -> list[float]:
    """Distinct places of the rulings, with an outer side where the crossing ones reach well beyond."""
    distinct: list[float] = []
    for place in sorted(places):
        if not distinct or place - distinct[-1] > _NEAR:
            distinct.append(place)
    low, high = float(np.median(starts)), float(np.median(ends))
    if distinct and low < distinct[0] - 4 * _NEAR:
        distinct.insert(0, low)
    if distinct and high > distinct[-1] + 4 * _NEAR:
        distinct.append(high)
    return distinct


def _owners(xs: list[float], ys: list[float], across: list[Side], down: list[Side]) -> NDArray[np.int64]:
    """For each place of the grid, the number of the cell it belongs to: places that no line parts are one."""
    rows, columns = len(ys) - 1, len(xs) - 1
    parent = np.arange(rows * columns)

    def root(k: int) -> int:
        while parent[k] != k:
            k = int(parent[k])
        return k

    for i in range(rows):
        for j in range(columns - 1):
            if not _parted(down, xs[j + 1], ys[i], ys[i + 1]):
                parent[root(i * columns + j + 1)] = root(i * columns + j)
    for i in range(rows - 1):
        for j in range(columns):
            if not _parted(across, ys[i + 1], xs[j], xs[j + 1]):
                parent[root((i + 1) * columns + j)] = root(i * columns + j)
    owner = np.array([root(k) for k in range(rows * columns)]).reshape(rows, columns)
    return _rectangular(owner)


def _parted(sides: list[Side], at: float, start: float, end: float) -> bool:
    """Whether a line at ``at`` covers most of the stretch."""
    covered = sum(max(0.0, min(side.end, end) - max(side.start, start)) for side in sides if abs(side.at - at) <= _NEAR)
    return covered >= 0.6 * (end - start)


def _rectangular(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells that came out with corners missing are taken apart again."""
    columns = owner.shape[1]
    for name in np.unique(owner):
        at = np.argwhere(owner == name)
        low, high = at.min(axis=0), at.max(axis=0)
        if len(at) != int(np.prod(high - low + 1)):
            for i, j in at.tolist():
                owner[i, j] = i * columns + j
    return owner


def _fill(
    items: Sequence[Item], xs: list[float], ys: list[float], owner: NDArray[np.int64]
) -> dict[int, list[tuple[float, float, float, str]]]:
    """What stands in each cell, as (middle, left, size, text)."""
    texts: dict[int, list[tuple[float, float, float, str]]] = {}
    for item in items:
        name = int(owner[_place(item.middle, ys), _place((item.x0 + item.x1) / 2, xs)])
        texts.setdefault(name, []).append((item.middle, item.x0, item.size, item.line.text if item.line else ""))
    return texts


def _place(value: float, edges: list[float]) -> int:
    return int(np.clip(np.searchsorted(edges, value) - 1, 0, len(edges) - 2))


def _cut(item: Item, xs: list[float], ys: list[float], owner: NDArray[np.int64]) -> list[Item]:
    """An item that runs over a ruling, cut between its words into what stands in each cell."""
    line = item.line
    row = _place(item.middle, ys)
    if line is None or len(line.words) < 2:
        return [item]
    if owner[row, _place(item.x0 + 1, xs)] == owner[row, _place(item.x1 - 1, xs)]:
        return [item]
    return _by_column(item, line, lambda middle: int(owner[row, _place(middle, xs)]))


def _numbers_apart(item: Item) -> list[Item]:
    """A line of nothing but numbers as one item a number: they may belong to columns without a ruling."""
    line = item.line
    if line is None or len(line.words) < 2 or not all(_NUMBER.fullmatch(word.text) for word in line.words):
        return [item]
    scale = (item.x1 - item.x0) / (line.bbox.width or 1)
    return [_part(item, line, (word,), scale) for word in line.words]


def _by_column(item: Item, line: Line, column: Callable[[float], int]) -> list[Item]:
    scale = (item.x1 - item.x0) / (line.bbox.width or 1)
    parts: dict[int, list[Word]] = {}
    for word in line.words:
        middle = item.x0 + ((word.bbox.x0 + word.bbox.x1) / 2 - line.bbox.x0) * scale
        parts.setdefault(column(middle), []).append(word)
    return [_part(item, line, tuple(words), scale) for words in parts.values()]


def _part(item: Item, line: Line, words: tuple[Word, ...], scale: float) -> Item:
    box = Box(min(w.bbox.x0 for w in words), line.bbox.y0, max(w.bbox.x1 for w in words), line.bbox.y1)
    part = replace(line, text=" ".join(word.text for word in words), words=words, bbox=box)
    left = item.x0 + (box.x0 - line.bbox.x0) * scale
    return Item(left, item.y0, left + box.width * scale, item.y1, item.size, part)


def _cell_text(pieces: list[tuple[float, float, float, str]]) -> str:
    """The lines of a cell, top to bottom, each from left to right."""
    rows: list[list[tuple[float, float, float, str]]] = []
    for piece in sorted(pieces):
        if rows and piece[0] - rows[-1][0][0] <= 0.5 * piece[2]:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return "\n".join(" ".join(text for _, _, _, text in sorted(row, key=lambda piece: piece[1])) for row in rows)


def _cells(owner: NDArray[np.int64], texts: dict[int, list[tuple[float, float, float, str]]]) -> list[Cell]:
    cells: list[Cell] = []
    for name in np.unique(owner).tolist():
        at = np.argwhere(owner == name)
        (row, column), (last_row, last_column) = at.min(axis=0).tolist(), at.max(axis=0).tolist()
        text = _cell_text(texts.get(name, []))
        cells.append(Cell(row, column, last_row - row + 1, last_column - column + 1, text))
    return sorted(cells, key=lambda cell: (cell.row, cell.column))


def _shrunk(cells: list[Cell], box: tuple[float, float, float, float]) -> Table | None:
    """The table without rows and columns that hold nothing (double lines, shadows)."""
    keep_rows = sorted({cell.row for cell in cells if cell.text})
    keep_columns = sorted({cell.column for cell in cells if cell.text})
    if not keep_rows or not keep_columns:
        return None
    kept: list[Cell] = []
    for cell in cells:
        in_rows = [row for row in keep_rows if cell.row <= row < cell.row + cell.row_span]
        in_columns = [column for column in keep_columns if cell.column <= column < cell.column + cell.column_span]
        if in_rows and in_columns:
            row, column = keep_rows.index(in_rows[0]), keep_columns.index(in_columns[0])
            kept.append(Cell(row, column, len(in_rows), len(in_columns), cell.text))
    return Table(box, len(keep_rows), len(keep_columns), tuple(kept), ruled=True)


def _is_table(table: Table) -> bool:
    """Whether a grid holds a table: several filled cells, not one frame around a text."""
    filled = [cell for cell in table.cells if cell.text]
    if len(filled) < 3 or table.columns < 2 or len(filled) < _LEAST_FILLED * len(table.cells):
        return False
    letters = sum(len(cell.text) for cell in filled)
    longest = max(len(cell.text) for cell in filled)
    return longest <= max(400, 0.7 * letters)


def aligned_table(region: Region) -> Table:
    """A table without lines: columns by the white between them, rows by baselines."""
    edges = [(a + b) / 2 for a, b in (region.gutters or gutters_of(region.items))]
    columns = len(edges) + 1
    grid: list[_Places] = []
    for row in rows_of(region.items):
        placed = _placed(row, edges)
        if grid and _goes_on(grid[-1], placed):
            for column, (span, items) in placed.items():
                before = grid[-1].get(column, (span, []))
                grid[-1][column] = (before[0], before[1] + items)
        else:
            grid.append(placed)
    grid = _headed(grid, columns)
    cells = [
        Cell(row, column, 1, span, _cell_text([(i.middle, i.x0, i.size, i.line.text) for i in items if i.line]))
        for row, places in enumerate(grid)
        for column, (span, items) in sorted(places.items())
    ]
    cells, columns = _without_sign_columns(_with_empty(cells, len(grid), columns), columns)
    return Table(region.box, len(grid), columns, tuple(cells), ruled=False)


_Places = dict[int, tuple[int, list[Item]]]
_SIGNS_BEFORE, _SIGNS_AFTER = frozenset("$€£¥("), frozenset(")%")


def _headed(grid: list[_Places], columns: int) -> list[_Places]:
    """Heads over several columns: a lone one spans all but the first, few ones share them."""
    for index, places in enumerate(grid):
        texts = [item.line.text for _, items in places.values() for item in items if item.line]
        if 0 in places or any(_NUMBER.fullmatch(text) for text in texts if len(text) != 4):
            break
        if 0 < len(places) <= (columns - 1) / 2 and columns > 2:
            grid[index] = _spread(places, columns)
    return grid


def _spread(places: _Places, columns: int) -> _Places:
    """Each head over the columns nearer to it than to its neighbours."""
    starts = sorted(places)
    middles = [start + (places[start][0] - 1) / 2 for start in starts]
    cuts = [1, *(int(np.ceil((a + b) / 2)) for a, b in itertools.pairwise(middles)), columns]
    return {
        cut: (next_cut - cut, places[start][1])
        for start, cut, next_cut in zip(starts, cuts[:-1], cuts[1:], strict=True)
        if next_cut > cut
    }


def _without_sign_columns(cells: list[Cell], columns: int) -> tuple[list[Cell], int]:
    """Columns of nothing but currency or per-cent signs become part of the numbers beside them."""
    for column in range(columns - 1, -1, -1):
        signs = {cell.text for cell in cells if cell.column == column and cell.column_span == 1 and cell.text}
        if signs and signs <= _SIGNS_BEFORE and column + 1 < columns:
            cells, columns = _folded(cells, column, column, " "), columns - 1
        elif signs and signs <= _SIGNS_AFTER and column > 0:
            cells, columns = _folded(cells, column - 1, column, ""), columns - 1
    return cells, columns


def _folded(cells: list[Cell], left: int, gone: int, space: str) -> list[Cell]:
    """Column ``left`` and the one after it as one; ``gone`` is the one of the two that held the signs."""
    folded: list[Cell] = []
    signs = {cell.row: cell.text for cell in cells if cell.column == gone and cell.column_span == 1}
    for cell in cells:
        last = cell.column + cell.column_span - 1
        if cell.column == gone and last == gone:
            continue
        text = cell.text
        if cell.column_span == 1 and cell.column in (left, left + 1) and signs.get(cell.row):
            sign = signs[cell.row]
            text = f"{sign}{space}{text}" if gone == left else f"{text}{space}{sign}"
        start = cell.column - (cell.column > left)
        span = cell.column_span - (cell.column <= left < last)
        folded.append(Cell(cell.row, start, cell.row_span, max(1, span), text))
    return folded


def _placed(row: list[Item], edges: list[float]) -> _Places:
    """The items of a row by their first column, with how many columns they span."""
    placed: _Places = {}
    taken: dict[int, int] = {}
    for item in row:
        first, last = (sum(x > edge for edge in edges) for x in (item.x0 + 0.5, item.x1 - 0.5))
        first = taken.get(first, first)
        span, items = placed.get(first, (1, []))
        span = max(span, last - first + 1)
        placed[first] = (span, [*items, item])
        taken.update({column: first for column in range(first, first + span)})
    return placed


def _goes_on(above: _Places, row: _Places) -> bool:
    """Whether a row only carries on text of the one above: its first column is empty, it holds no numbers,
    every cell stands under a filled one, and close."""
    if 0 in row or not set(row) <= set(above) or len(row) >= len(above):
        return False
    for column, (_, items) in row.items():
        upper = above[column][1][-1]
        close = items[0].y0 - upper.y1 <= 0.45 * items[0].size
        if not close or any(item.line and _NUMBER.fullmatch(item.line.text) for item in items):
            return False
    return True


def _with_empty(cells: list[Cell], rows: int, columns: int) -> list[Cell]:
    """The cells with empty ones where nothing stands, so that HTML rows are whole."""
    taken = {(cell.row, cell.column + k) for cell in cells for k in range(cell.column_span)}
    empty = [
        Cell(row, column, 1, 1, "") for row in range(rows) for column in range(columns) if (row, column) not in taken
    ]
    return sorted([*cells, *empty], key=lambda cell: (cell.row, cell.column))
