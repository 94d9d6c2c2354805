"""An HTML table as a model writes it, read into a grid and written again in a form that can be trusted.

Nothing of the model's HTML is kept but text and spans: no attributes, scripts or links reach a browser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from ingestion.tables import LARGEST_SPAN, MOST_CELLS, Cell, Table

_TABLE_TAG = re.compile(r"<(/?)table\b[^>]*>", re.IGNORECASE)
_CELLS = frozenset({"td", "th"})
_UNSEEN = frozenset({"script", "style"})
_SPACE = frozenset({"br", "p", "div", "li", "ul", "ol"})


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


def read_table(html: str) -> Table:
    """The first table in ``html``; missing end tags are forgiven."""
    parser = _TableParser()
    parser.feed(html)
    parser.close()
    return parser.table


class _TableParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table = Table()
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


def _span(value: str | None) -> int:
    try:
        return min(LARGEST_SPAN, max(1, int((value or "1").strip())))
    except ValueError:
        return 1
