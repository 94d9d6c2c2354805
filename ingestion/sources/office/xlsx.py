"""Excel workbooks (XLSX, XLSM, XLTX) with their values as displayed.

Sheets are walked here row by row: openpyxl holds a whole sheet in memory, and shows no number format. Formulas give
the result that was saved with them; macros, links and queries are parts nobody asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.errors import UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources.inlays import inlay_of
from ingestion.sources.office.drawingml import chart_title, drawn_text
from ingestion.sources.office.numberformats import BUILT_IN, displayed, displayed_text
from ingestion.sources.office.sheetpages import SheetSource
from ingestion.sources.office.sheets import MOST_CELLS, Merge, Sheet
from ingestion.sources.package import Package
from ingestion.sources.sections import Part
from ingestion.sources.xmlparts import kid, kids, number, value

_MEDIA = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_MOST_MERGES = 20_000
_LAST_COLUMN = 16_384
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


class XlsxSource(SheetSource):
    """A workbook, read when it is opened; the sheets in their order, hidden ones too."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        self._package = Package(path, name, limits)
        try:
            workbook = _Workbook(self._package, limits)
            sheets = list(workbook.sheets())
            super().__init__(name, _MEDIA, sheets, limits)
        except BaseException:
            self._package.close()
            raise
        self.damage = " ".join(f"{problem}." for problem in (*self._package.problems, *workbook.left_out))

    def close(self) -> None:
        self._package.close()


class _Workbook:
    """The parts that sheets share."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self.package = package
        self.limits = limits
        self.main = package.main_part("xl/workbook.xml")
        if self.main not in package:
            raise UnreadableFile(f"{package.name} is damaged: the list of its sheets is missing in it")
        self.book = package.tree(self.main)
        self.since_1904 = value(kid(self.book, "workbookPr"), "date1904") in ("1", "true")
        self.relations = package.relations(self.main)
        self.formats = _formats(package.tree_if_sound(self._related("styles")))
        self.strings = list(self._strings())
        self.left_out: list[str] = []
        self.cells_left = MOST_CELLS

    def _related(self, kind: str) -> str:
        return next((each.target for each in self.relations.values() if each.kind == kind and not each.outside), "")

    def _strings(self) -> Iterator[str]:
        part = self._related("sharedStrings")
        if part and part in self.package:
            try:
                yield from (_string(item) for item in self.package.pieces(part))
            except UnreadableFile as error:
                self.package.problems.append(error.message)

    def sheets(self) -> Iterator[Sheet]:
        """All sheets of cells; those that cannot be read are noted, unless none can."""
        failed: UnreadableFile | None = None
        some = False
        for told in kids(kid(self.book, "sheets"), "sheet"):
            relation = self.relations.get(value(told, "r:id"))
            if relation is None or relation.outside or relation.kind != "worksheet":
                continue
            hidden = value(told, "state", "visible") != "visible"
            sheet = Sheet(value(told, "name", "Sheet"), is_hidden=hidden)
            try:
                _Reader(self, sheet, relation.target).read()
                some = True
            except UnreadableFile as error:
                failed = error
                self.package.problems.append(error.message)
            yield sheet
        if failed is not None and not some:
            raise failed


def _formats(styles: Element | None) -> list[str]:
    """The number format of each cell style."""
    own = {number(each, "numFmtId"): value(each, "formatCode") for each in kids(kid(styles, "numFmts"), "numFmt")}
    ids = (number(each, "numFmtId") for each in kids(kid(styles, "cellXfs"), "xf"))
    return [own.get(each) or BUILT_IN.get(each, "General") for each in ids]


def _string(item: Element) -> str:
    """A shared or inline string: its runs, without the readings given for Japanese."""
    runs = (run for run in item if run.tag != "rPh")
    text = "".join(node.text or "" for run in runs for node in ([run] if run.tag == "t" else kids(run, "t")))
    return _ESCAPED.sub(_unescaped, text) if "_x" in text else text


def _unescaped(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return "" if (code < 32 and code not in (9, 10)) or 0xD800 <= code < 0xE000 else chr(code)


class _Reader:
    """Reads one sheet into a ``Sheet``."""

    def __init__(self, workbook: _Workbook, sheet: Sheet, part: str) -> None:
        self.workbook = workbook
        self.package = workbook.package
        self.sheet = sheet
        self.part = part
        self.next_row = 0
        self.is_cut = False

    def read(self) -> None:
        """All of the sheet, or its first rows where it is too long: the others are not even looked at."""
        try:
            for element in self.package.pieces(self.part, "sheetData"):
                self._row(element)
                if self.is_cut:
                    break
        except UnreadableFile as error:
            if not self.sheet.rows:
                raise
            self.package.problems.append(f"{error.message}; what stands before was read")
        else:
            self._around()
        if self.is_cut:
            last = max(self.sheet.rows, default=0) + 1
            self.workbook.left_out.append(
                f"{self.sheet.name} goes on below row {last}, where reading stopped: at most "
                f"{self.workbook.limits.sheet_rows} rows of a sheet and {MOST_CELLS} cells of a file are read"
            )
        self._related_parts()

    def _row(self, row: Element) -> None:
        index = number(row, "r", self.next_row + 1) - 1
        self.next_row = index + 1
        texts: dict[int, str] = {}
        column = 0
        full = len(self.sheet.rows) >= self.workbook.limits.sheet_rows or self.workbook.cells_left <= 0
        for cell in row:
            place = _REFERENCE.fullmatch(value(cell, "r"))
            column = _column(place[1]) if place else column
            text = self._text(cell).strip()
            if text and 0 <= column < _LAST_COLUMN:
                if full:
                    self.is_cut = True
                    return
                texts[column] = text
            column += 1
        if texts and index >= 0:
            self.sheet.rows[index] = texts
            self.workbook.cells_left -= len(texts)
            if value(row, "hidden") in ("1", "true"):
                self.sheet.hidden_rows.add(index)

    def _text(self, cell: Element) -> str:
        """The cell as displayed; a formula without a saved result as itself."""
        kind, held = value(cell, "t", "n"), kid(cell, "v")
        if kind == "inlineStr":
            inline = kid(cell, "is")
            return _string(inline) if inline is not None else ""
        if held is None or held.text is None:
            formula = kid(cell, "f")
            return f"={formula.text}" if formula is not None and formula.text else ""
        raw = held.text
        style = number(cell, "s", 0)
        code = self.workbook.formats[style] if 0 <= style < len(self.workbook.formats) else "General"
        if kind == "s":
            return displayed_text(self._shared(raw), code)
        if kind == "b":
            return "TRUE" if raw.strip() == "1" else "FALSE"
        if kind in ("str", "e", "d"):
            return raw
        try:
            return displayed(float(raw), code, self.workbook.since_1904)
        except ValueError:
            return raw

    def _shared(self, raw: str) -> str:
        try:
            index = int(raw)
        except ValueError:
            return ""
        return self.workbook.strings[index] if 0 <= index < len(self.workbook.strings) else ""

    def _around(self) -> None:
        """What stands before and after the rows: hidden columns, joined cells, headers for printing."""
        until = "sheetData" if self.is_cut else ""
        for element in self.package.pieces(self.part, without="sheetData", until=until):
            if element.tag == "cols":
                for told in kids(element, "col"):
                    if value(told, "hidden") in ("1", "true"):
                        last = min(number(told, "max"), number(told, "min") + _LAST_COLUMN)
                        self.sheet.hidden_columns |= set(range(number(told, "min") - 1, min(last, _LAST_COLUMN)))
            elif element.tag == "mergeCells":
                merges = (_range(value(each, "ref")) for each in kids(element, "mergeCell"))
                self.sheet.merges = [merge for merge in merges if merge][:_MOST_MERGES]
            elif element.tag == "headerFooter":
                self._printed(element)

    def _printed(self, element: Element) -> None:
        texts = [_printed_text(each.text or "") for each in element if each.text]
        for text in dict.fromkeys(text for text in texts if any(letter.isalpha() for letter in text)):
            self.sheet.after.append(Part(BlockKind.FOOTER, text))

    def _related_parts(self) -> None:
        relations = self.package.relations(self.part)
        for relation in relations.values():
            if relation.outside:
                continue
            if relation.kind == "comments":
                self._comments(relation.target)
            elif relation.kind == "drawing":
                self._drawing(relation.target)

    def _comments(self, part: str) -> None:
        root = self.package.tree_if_sound(part)
        authors = [(each.text or "").strip() for each in kids(kid(root, "authors"), "author")]
        for comment in kids(kid(root, "commentList"), "comment"):
            body = kid(comment, "text")
            text = _string(body).strip() if body is not None else ""
            index = number(comment, "authorId", -1)
            author = authors[index] if 0 <= index < len(authors) and not authors[index].startswith("tc=") else ""
            if text:
                by = f" by {author}" if author else ""
                where = value(comment, "ref")
                self.sheet.after.append(Part(BlockKind.PARAGRAPH, f"[comment on {where}{by}: {_plain_thread(text)}]"))

    def _drawing(self, part: str) -> None:
        root = self.package.tree_if_sound(part)
        if root is None:
            return
        relations = self.package.relations(part)
        for shape in root.iter("xdr:sp"):
            text = drawn_text(kid(shape, "xdr:txBody")).strip()
            if text:
                self.sheet.after.append(Part(BlockKind.PARAGRAPH, text))
        for chart in root.iter("c:chart"):
            relation = relations.get(value(chart, "r:id"))
            title = chart_title(self.package.tree_if_sound(relation.target)) if relation else ""
            if title:
                self.sheet.after.append(Part(BlockKind.CAPTION, title))
        for blip in root.iter("a:blip"):
            relation = relations.get(value(blip, "r:embed"))
            if relation and not relation.outside and relation.target in self.package:
                inlay = inlay_of(partial(self.package.data, relation.target), self.workbook.limits)
                self.sheet.inlays += [inlay] if inlay else []


def _plain_thread(text: str) -> str:
    """A threaded comment without the notice for old programs that stands before it."""
    return re.sub(r"\A\[Threaded comment\].*?\bComment:\s*", "", text, flags=re.DOTALL)


def _printed_text(code: str) -> str:
    """A header for printing without its codes: &L, &"Arial", &12, &P, …"""
    return " ".join(re.sub(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|&|.)', " ", code).split())


def _column(letters: str) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return column - 1


def _range(reference: str) -> Merge | None:
    first, _, last = reference.partition(":")
    begin, end = _REFERENCE.fullmatch(first), _REFERENCE.fullmatch(last or first)
    if begin is None or end is None:
        return None
    top, bottom = sorted((int(begin[2]) - 1, int(end[2]) - 1))
    left, right = sorted((_column(begin[1]), _column(end[1])))
    return Merge(top, left, bottom, right) if (bottom, right) != (top, left) else None
