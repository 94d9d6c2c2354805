"""HTML tables: which of them hold data and which only place things, and the former as cells with spans."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from ingestion.sources.markup.tree import Node, Tree, children
from ingestion.tables import LARGEST_SPAN, MOST_CELLS, Cell, Table

_GROUPS = ("thead", "tbody", "tfoot")
_PLACING = "table, h1, h2, h3, h4, h5, h6, pre, blockquote, form, article, section"
_LONG_CELL = 700  # letters in a cell from which it is a column of a page rather than a value
_MARK = 8  # letters of a bullet, a box to tick, or a number before a paragraph
_BEFORE = ("$", "€", "£", "¥", "(", "US$", "$(", "€(")
_AFTER = (")", "%", ")%", "%)")


def is_data(table: Node, tree: Tree) -> bool:
    """Whether a table is one for its readers; others only place text side by side."""
    if (table.attributes.get("role") or "").lower() in ("presentation", "none"):
        return False
    if table.mem_id in tree.holding(_PLACING):
        return False
    rows = [list(_cells(row)) for row in _rows(table, tree)]
    if len(rows) < 2 or max(map(len, rows), default=0) < 2:
        return False
    if table.css_first("th") is not None or table.css_first("caption") is not None:
        return True
    return not any(len(cell.text()) > _LONG_CELL for row in rows for cell in row)


def is_one_line(table: Node, tree: Tree) -> bool:
    """Whether a table of one row is a mark or a number and the paragraph that goes with it."""
    if table.mem_id in tree.holding(_PLACING):
        return False
    cells = [cell for cell in table.css("td, th") if cell.text(strip=True)]
    marks = [cell for cell in cells if len(cell.text(strip=True)) <= _MARK]
    paragraphs = len(table.css("p, div, li, br"))
    return 2 <= len(cells) <= 3 and bool(marks) and paragraphs <= len(cells) and len(table.css("tr, img")) == 1


def read_cells(table: Node, tree: Tree, text_of: Callable[[Node], str]) -> Table:
    """The table's rows without those that are empty, and without columns in which nothing begins."""
    read: list[list[Cell]] = []
    count = 0
    for row in _rows(table, tree):
        cells: list[Cell] = []
        for node in _cells(row):
            if count >= MOST_CELLS or tree.hides(node):
                continue
            columns, rows = _span(node, "colspan"), _span(node, "rowspan")
            count += columns
            cells.append(Cell(text_of(node), rows, columns, node.tag == "th"))
        read.append(cells)
    return Table(_without_empty(read))


def _rows(table: Node, tree: Tree) -> Iterator[Node]:
    for node in children(table):
        if node.tag == "tr" and not tree.hides(node):
            yield node
        elif node.tag in _GROUPS and not tree.hides(node):
            yield from (row for row in children(node) if row.tag == "tr" and not tree.hides(row))


def _cells(row: Node) -> Iterator[Node]:
    return (node for node in children(row) if node.tag in ("td", "th"))


def _span(node: Node, name: str) -> int:
    try:
        return min(LARGEST_SPAN, max(1, int((node.attributes.get(name) or "1").strip())))
    except ValueError:
        return 1


def _without_empty(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Tables drawn with spacing columns, and currency signs in columns of their own, as values stand in them."""
    for row in rows:
        _join_signs(row)
    places = _places(rows)
    width = max((left + cell.columns for row in places for left, cell in row), default=0)
    begun = {left for row in places for left, cell in row if cell.text}
    empty = [column for column in range(width) if column not in begun]
    kept: list[list[Cell]] = []
    for index, row in enumerate(places):
        for left, cell in row:
            cell.columns -= sum(left <= column < left + cell.columns for column in empty)
        cells = [cell for _, cell in row if cell.columns > 0]
        if any(cell.text for cell in cells):
            kept.append(cells)
        else:
            _shorten(places[:index], index)
    return kept


def _shorten(above: list[list[tuple[int, Cell]]], index: int) -> None:
    """A row goes: cells that reach down over it become one row shorter."""
    for top, row in enumerate(above):
        for _, cell in row:
            if top + cell.rows > index and cell.rows > 1:
                cell.rows -= 1


def _join_signs(row: list[Cell]) -> None:
    for before, after in itertools.pairwise(row):
        if before.text in _BEFORE and after.text:
            after.text, before.text = before.text + after.text, ""
        elif after.text in _AFTER and before.text:
            before.text, after.text = before.text + after.text, ""


def _places(rows: list[list[Cell]]) -> list[list[tuple[int, Cell]]]:
    """Each cell with the column it begins in."""
    taken: set[tuple[int, int]] = set()
    placed: list[list[tuple[int, Cell]]] = []
    for top, row in enumerate(rows):
        left = 0
        line: list[tuple[int, Cell]] = []
        for cell in row:
            while (top, left) in taken:
                left += 1
            cell.rows = min(cell.rows, len(rows) - top)
            taken.update((top + down, left + right) for down in range(cell.rows) for right in range(cell.columns))
            line.append((left, cell))
            left += cell.columns
        placed.append(line)
    return placed
