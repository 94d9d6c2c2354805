"""A table of a Rich Text document: rows of cells known by their right edges, from which the columns follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingestion.tables import LARGEST_SPAN, Cell, Table

_NEAR = 30  # twips: edges closer than this are one


@dataclass(slots=True)
class _Edge:
    right: int
    goes_on_across: bool
    goes_on_down: bool


@dataclass(slots=True)
class RtfTable:
    """Collects rows. A row's description (edges, merges) comes before or after its cells, as programs differ."""

    _rows: list[tuple[list[str], list[_Edge], bool]] = field(default_factory=list[tuple[list[str], list[_Edge], bool]])
    _texts: list[str] = field(default_factory=list[str])
    _edges: list[_Edge] = field(default_factory=list[_Edge])
    _across: bool = False
    _down: bool = False
    _is_head: bool = False

    def begin_row(self) -> None:
        """The description of a row begins."""
        self._edges, self._across, self._down, self._is_head = [], False, False, False

    def describe(self, word: str, amount: int) -> None:
        """A word of a row's description; others are let pass."""
        if word == "cellx":
            self._edges.append(_Edge(amount, self._across, self._down))
            self._across = self._down = False
        elif word == "clmrg":
            self._across = True
        elif word == "clvmrg":
            self._down = True
        elif word == "trhdr":
            self._is_head = True

    def add(self, text: str) -> None:
        """The text of the next cell."""
        self._texts.append(text)

    def end_row(self) -> None:
        """The row is complete."""
        if self._texts:
            self._rows.append((self._texts, list(self._edges), self._is_head))
        self._texts = []

    def made(self) -> Table:
        """The table, cells spanning the columns and rows they reach over."""
        self.end_row()
        edges = _columns([edge.right for _, row, _ in self._rows for edge in row])
        table, above = Table(), dict[int, Cell]()
        for texts, row, is_head in self._rows:
            cells, left, begun = list[Cell](), 0, dict[int, Cell]()
            for index, text in enumerate(texts):
                edge = row[index] if index < len(row) else None
                right = _place(edges, edge.right) if edge is not None else left + 1
                span = max(1, min(LARGEST_SPAN, right - left))
                if edge is not None and edge.goes_on_down and left in above:
                    above[left].rows += 1
                    begun[left] = above[left]
                elif edge is not None and edge.goes_on_across and cells:
                    cells[-1].columns += span
                else:
                    cells.append(Cell(text, columns=span, heading=is_head))
                    begun[left] = cells[-1]
                left += span
            table.rows.append(cells)
            above = begun
        if len(table.rows) > 1 and not any(is_head for _, _, is_head in self._rows):
            for cell in table.rows[0]:
                cell.heading = True
        return table


def _columns(rights: list[int]) -> list[int]:
    """The right edges of the columns, near ones taken together."""
    found: list[int] = []
    for right in sorted(rights):
        if not found or right - found[-1] > _NEAR:
            found.append(right)
    return found


def _place(edges: list[int], right: int) -> int:
    """After how many columns an edge stands."""
    return next((index + 1 for index, edge in enumerate(edges) if abs(edge - right) <= _NEAR), len(edges))
