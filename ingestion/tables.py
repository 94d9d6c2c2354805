"""A table as rows of cells that may span, and its two forms: HTML and a pipe table.

Nothing but text and spans goes into the HTML: no attributes, scripts or links reach a browser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise

LARGEST_SPAN = 100  # who writes colspan="9999" must not cost us a million cells
MOST_CELLS = 20_000


@dataclass(slots=True)
class Cell:
    """A cell with its spans; ``heading`` for th."""

    text: str = ""
    rows: int = 1
    columns: int = 1
    heading: bool = False


@dataclass(slots=True)
class Table:
    """Rows of cells as written, a spanning cell only where it begins."""

    rows: list[list[Cell]] = field(default_factory=list[list[Cell]])
    caption: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(cell.text for row in self.rows for cell in row)

    def html(self) -> str:
        """The table with only table, tr, th, td, rowspan and colspan; everything else escaped."""
        rows = ("".join(_cell_html(cell) for cell in row) for row in self.rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def grid(self) -> list[list[str]]:
        """Every row equally long. A cell spanning rows stands in each of them, so that a row can be
        read alone; one spanning columns stands once, but in heading rows over each of its columns."""
        places: dict[tuple[int, int], str] = {}
        for top, row in enumerate(self.rows):
            left = 0
            for cell in row:
                while (top, left) in places:
                    left += 1
                _place(places, cell, top, left, repeat=top == 0 or all(other.heading for other in row))
                left += cell.columns
        width = max((column for _, column in places), default=-1) + 1
        return [[places.get((row, column), "") for column in range(width)] for row in range(len(self.rows))]

    def markdown(self) -> str:
        """A pipe table, its first row as the head."""
        grid = self.grid()
        lines = [pipe_row(row) for row in grid]
        return "\n".join([lines[0], "|" + " --- |" * len(grid[0]), *lines[1:]]) if lines else ""

    def markdown_of_one_head(self) -> str:
        """As ``markdown``, with all rows of the head joined into one: parts of the table repeat only that."""
        grid, head = self.grid(), self.head
        if not grid:
            return ""
        names = [" ".join(dict.fromkeys(text for text in column if text)) for column in zip(*grid[:head], strict=True)]
        lines = [pipe_row(row) for row in (names, *grid[head:])]
        return "\n".join([lines[0], "|" + " --- |" * len(names), *lines[1:]])

    def cut(self, bounds: Sequence[int], *, with_head: bool = True) -> Iterator[Table]:
        """Its rows below the head, from each bound to the next, as tables under the head (unless told otherwise).
        A cell that reaches over a cut stands on both sides of it."""
        by_row: list[list[tuple[int, int, Cell]]] = [[] for _ in self.rows]
        for top, left, cell in self._placed():
            by_row[top].append((top, left, cell))
        head = _rows_of([each for row in by_row[: self.head] for each in row], 0, self.head) if with_head else []
        reaching: list[tuple[int, int, Cell]] = [each for row in by_row[: bounds[0]] for each in row]
        for start, end in pairwise(bounds):
            reaching = [each for each in reaching if each[0] + each[2].rows > start]
            reaching += [each for row in by_row[start:end] for each in row]
            yield Table([*head, *_rows_of(reaching, start, end)], self.caption)

    def _placed(self) -> Iterator[tuple[int, int, Cell]]:
        """Every cell with its first row and column."""
        taken: set[tuple[int, int]] = set()
        for top, row in enumerate(self.rows):
            left = 0
            for cell in row:
                while (top, left) in taken:
                    left += 1
                yield top, left, cell
                taken |= {(r, c) for r in range(top, top + cell.rows) for c in range(left, left + cell.columns)}
                left += cell.columns

    @property
    def head(self) -> int:
        """How many rows at the top are its head: those of heading cells, at least one, at most three."""
        headings = 0
        for row in self.rows[:3]:
            if not row or not all(cell.heading for cell in row):
                break
            headings += 1
        return max(1, headings)


def _rows_of(placed: Sequence[tuple[int, int, Cell]], start: int, end: int) -> list[list[Cell]]:
    rows: list[list[tuple[int, Cell]]] = [[] for _ in range(start, end)]
    for top, left, cell in placed:
        first, last = max(top, start), min(top + cell.rows, end)
        if first < last:
            rows[first - start].append((left, replace(cell, rows=last - first)))
    return [[cell for _, cell in sorted(row, key=lambda placed: placed[0])] for row in rows]


def pipe_row(texts: Sequence[str]) -> str:
    """A row of a pipe table."""
    return "| " + " | ".join(text.replace("\n", " ").replace("|", r"\|") for text in texts) + " |"


def table_of(rows: Sequence[Sequence[str]], head: int = 1) -> Table:
    """A table without spans; its first ``head`` rows are headings."""
    return Table([[Cell(text, heading=index < head) for text in row] for index, row in enumerate(rows)])


def _place(places: dict[tuple[int, int], str], cell: Cell, top: int, left: int, *, repeat: bool) -> None:
    for row in range(top, top + cell.rows):
        for column in range(left, left + cell.columns):
            places.setdefault((row, column), cell.text if repeat or column == left else "")


def _cell_html(cell: Cell) -> str:
    tag = "th" if cell.heading else "td"
    spans = "".join(
        f' {name}="{count}"' for name, count in (("rowspan", cell.rows), ("colspan", cell.columns)) if count > 1
    )
    return f"<{tag}{spans}>{escape(cell.text)}</{tag}>"
