"""An HTML table as a model writes it, read into a grid and written again in a form that can be trusted.

Nothing of the model's HTML is kept but text and spans: no attributes, scripts or links reach a browser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

LARGEST_SPAN = 100  # a model that writes colspan="9999" must not cost us a million cells
MOST_CELLS = 20_000

_TABLE_TAG = re.compile(r"<(/?)table\b[^>]*>", re.IGNORECASE)
_CELLS = frozenset({"td", "th"})
_UNSEEN = frozenset({"script", "style"})
_SPACE = frozenset({"br", "p", "div", "li", "ul", "ol"})


@dataclass(slots=True)
class Cell:
    """A cell with its spans; ``heading`` for th."""

    text: str = ""
    rows: int = 1
    columns: int = 1
    heading: bool = False


@dataclass(slots=True)
class HtmlTable:
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
        lines = ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in self.grid()]
        if not lines:
            return ""
        columns = len(self.grid()[0])
        return "\n".join([lines[0], "|" + " --- |" * columns, *lines[1:]])


def find_tables(text: str) -> Iterator[tuple[str, bool]]:
    """The text cut into stretches, each with whether it is an HTML table. A table within a table goes
    with the outer one; one that is never closed runs to the end."""
    depth, start = 0, 0
    for tag in _TABLE_TAG.finditer(text):
        if not tag[1]:
            if depth == 0:
                yield text[start : tag.start()], False
                start = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield text[start : tag.end()], True
                start = tag.end()
    yield text[start:], depth > 0


def read_table(html: str) -> HtmlTable:
    """The first table in ``html``; missing end tags are forgiven."""
    parser = _TableParser()
    parser.feed(html)
    parser.close()
    return parser.table


class _TableParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table = HtmlTable()
        self._text: list[str] = []
        self._cell: Cell | None = None
        self._caption = False
        self._unseen = False
        self._cells = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen = tag in _UNSEEN
        if tag == "tr":
            self._end_cell()
            self.table.rows.append([])
        elif tag in _CELLS and self._cells < MOST_CELLS:
            self._end_cell()
            if not self.table.rows:
                self.table.rows.append([])
            spans = dict(attrs)
            self._cell = Cell(
                rows=_span(spans.get("rowspan")), columns=_span(spans.get("colspan")), heading=tag == "th"
            )
            self.table.rows[-1].append(self._cell)
            self._cells += self._cell.rows * self._cell.columns
        elif tag == "caption":
            self._caption = True
        elif tag in _SPACE:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._unseen = False
        if tag in _CELLS or tag in ("tr", "table"):
            self._end_cell()
        elif tag == "caption":
            self.table.caption = self._taken()
            self._caption = False

    def handle_data(self, data: str) -> None:
        if not self._unseen and (self._cell is not None or self._caption):
            self._text.append(data)

    def close(self) -> None:
        super().close()
        self._end_cell()
        while self.table.rows and not self.table.rows[-1]:
            self.table.rows.pop()

    def _end_cell(self) -> None:
        text = self._taken()
        if self._cell is not None:
            self._cell.text = text
            self._cell = None

    def _taken(self) -> str:
        text = " ".join("".join(self._text).split())
        self._text.clear()
        return text


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


def _span(value: str | None) -> int:
    try:
        return min(LARGEST_SPAN, max(1, int((value or "1").strip())))
    except ValueError:
        return 1
