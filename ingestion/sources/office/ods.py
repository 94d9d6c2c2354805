"""OpenDocument sheets: the format keeps each value as displayed, so no number format is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.errors import UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources.office.odftext import CONTENT, STYLES, OdfStyles, OdfText
from ingestion.sources.office.sheetpages import SheetSource
from ingestion.sources.office.sheets import MOST_CELLS, Merge, Sheet, cell_name
from ingestion.sources.package import Package
from ingestion.sources.sections import Part
from ingestion.sources.xmlparts import kid, kids, number, value

_MEDIA = "application/vnd.oasis.opendocument.spreadsheet"
_MOST_REPEATED = 1_000  # copies of a cell with text, or of its row, that are read
_LAST_COLUMN = 16_384
_UNSEEN = ("collapse", "filter")


class OdsSource(SheetSource):
    """A workbook, read when it is opened; the package is closed with it."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self._package = package
        book = _Book(package, limits)
        super().__init__(package.name, _MEDIA, book.read(), limits)
        self.damage = " ".join(f"{problem}." for problem in (*package.problems, *book.left_out))

    def close(self) -> None:
        self._package.close()


class _Book:
    """Reads all sheets in one pass over the file."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self.package = package
        self.limits = limits
        self.styles = OdfStyles()
        self.left_out: list[str] = []
        self.cells_left = MOST_CELLS
        shared = package.tree_if_sound(STYLES)
        for name in ("office:styles", "office:automatic-styles"):
            self.styles.take(kid(shared, name))
        for element in package.pieces(CONTENT, "office:automatic-styles"):
            holder = Element("office:automatic-styles")
            holder.append(element)
            self.styles.take(holder)
        self.text = OdfText(package, self.styles, limits)

    def read(self) -> list[Sheet]:
        """The sheets in order. UnreadableFile where not even a part of one can be read."""
        sheets: list[Sheet] = []
        reader: _SheetReader | None = None
        try:
            for table, child in self.package.pieces_within(CONTENT, "table:table"):
                if reader is None or reader.table is not table:
                    self._ended(reader)
                    reader = _SheetReader(self, table)
                    sheets.append(reader.sheet)
                reader.take(child)
        except UnreadableFile as error:
            if not any(sheet.rows for sheet in sheets):
                raise
            self.package.problems.append(f"{error.message}; what stands before was read")
        self._ended(reader)
        return sheets

    def _ended(self, reader: _SheetReader | None) -> None:
        if reader is not None and reader.unread:
            self.left_out.append(
                f"{reader.unread} rows of {reader.sheet.name} were not read: at most {self.limits.sheet_rows} rows of "
                f"a sheet and {MOST_CELLS} cells of a file are"
            )


class _SheetReader:
    """Fills one ``Sheet`` from the children of its table."""

    def __init__(self, book: _Book, table: Element) -> None:
        self.book = book
        self.table = table
        hidden = book.styles.is_hidden("table", value(table, "table:style-name"))
        self.sheet = Sheet(value(table, "table:name", "Sheet"), is_hidden=hidden)
        self.row = 0
        self.column = 0
        self.unread = 0

    def take(self, child: Element, depth: int = 0) -> None:
        """A row, a column's description, a group of such, or what is drawn on the sheet."""
        tag = child.tag
        if tag == "table:table-row":
            self._row(child)
        elif tag == "table:table-column":
            copies = max(1, number(child, "table:number-columns-repeated", 1))
            if value(child, "table:visibility") in _UNSEEN:
                self.sheet.hidden_columns |= set(range(self.column, min(self.column + copies, _LAST_COLUMN)))
            self.column += copies
        elif tag == "table:shapes":
            self._drawn(self.book.text.parts(iter(child)))
        elif tag.startswith("table:table-") and depth < 8:
            for each in child:
                self.take(each, depth + 1)

    def _row(self, row: Element) -> None:
        copies = max(1, number(row, "table:number-rows-repeated", 1))
        texts = dict(self._cells(row))
        if texts:
            for index in range(self.row, self.row + min(copies, _MOST_REPEATED)):
                if len(self.sheet.rows) >= self.book.limits.sheet_rows or self.book.cells_left <= 0:
                    self.unread += 1
                    continue
                self.sheet.rows[index] = dict(texts)
                self.book.cells_left -= len(texts)
                if value(row, "table:visibility") in _UNSEEN:
                    self.sheet.hidden_rows.add(index)
        self.row += copies

    def _cells(self, row: Element) -> Iterator[tuple[int, str]]:
        column = 0
        for cell in kids(row, "table:table-cell", "table:covered-table-cell"):
            copies = max(1, number(cell, "table:number-columns-repeated", 1))
            if len(cell):
                text = self._cell(cell, column)
                if text and cell.tag == "table:table-cell":
                    yield from ((each, text) for each in range(column, min(column + copies, column + _MOST_REPEATED)))
            down = number(cell, "table:number-rows-spanned", 1)
            across = number(cell, "table:number-columns-spanned", 1)
            if (down > 1 or across > 1) and column < _LAST_COLUMN:
                self.sheet.merges.append(Merge(self.row, column, self.row + down - 1, column + across - 1))
            column += copies
            if column >= _LAST_COLUMN:
                return

    def _cell(self, cell: Element, column: int) -> str:
        """What the cell shows; its comment and its pictures go to the sheet."""
        lines: list[str] = []
        where = cell_name(self.row, column)
        for part in self.book.text.parts(iter(cell)):
            if part.text.startswith("[comment"):
                self.sheet.after.append(replace(part, text=part.text.replace("[comment", f"[comment on {where}", 1)))
            elif part.inlay is not None or part.kind is BlockKind.TABLE:
                self._drawn(iter([part]))
            else:
                lines.append(part.text)
        return "\n".join(lines).strip()

    def _drawn(self, parts: Iterator[Part]) -> None:
        for part in parts:
            if part.inlay is not None:
                self.sheet.inlays.append(part.inlay)
            elif part.text.strip() and part.kind is not BlockKind.TABLE:  # a chart's data stands in the sheet itself
                self.sheet.after.append(part)
