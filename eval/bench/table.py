"""A figure as a table: for people on the terminal, for machines as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Table:
    """One measured figure: ``rows`` have as many cells as ``columns``.

    ``goal`` says what the figure has to reach and ``notes`` what a reader must know to trust it (the
    machine, what was left out). ``name`` is the module's; it addresses the table on the command line. ``details`` are
    for machines only.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    goal: str = ""
    details: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: a row of {len(row)} cells under {len(self.columns)} columns: {row}")

    def as_json(self) -> dict[str, Any]:
        """The table as plain JSON values."""
        return asdict(self)

    def __rich__(self) -> RenderableType:
        """For a rich console: ``console.print(table)``."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(title=self.title, caption=f"goal: {self.goal}" if self.goal else None, title_justify="left")
        for index, column in enumerate(self.columns):
            shown.add_column(column, justify="right" if self._is_numeric(index) else "left")
        for row in self.rows:
            shown.add_row(*(Text(shown_cell(cell)) for cell in row))
        return Group(shown, *(Text(f"  {note}", style="dim") for note in self.notes))

    def print(self, console: Console | None = None) -> None:
        """Show the table to a person."""
        from rich.console import Console

        (console or Console()).print(self)

    def as_markdown(self) -> str:
        """The table as GitHub Markdown, for ``eval/results.md``."""
        lines = [f"### {self.title}", ""]
        if self.goal:
            lines += [f"Goal: {self.goal}", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "|".join("--:" if self._is_numeric(i) else "---" for i in range(len(self.columns))) + "|")
        lines += ["| " + " | ".join(shown_cell(cell).replace("|", "\\|") for cell in row) + " |" for row in self.rows]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def _is_numeric(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(isinstance(cell, int | float) for cell in cells)


def shown_cell(cell: Cell) -> str:
    """A cell as a person reads it: three significant digits for fractions, thousands apart, a dash for nothing."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return cell
