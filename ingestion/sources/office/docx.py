"""Word documents (DOCX, DOCM, DOTX) as they read with every change accepted.

The XML is walked here: python-docx hides tracked changes, notes, text boxes and numbering. What a reader would not
see (deleted and hidden text, field codes) is left out; notes and comments stand after the paragraphs they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.errors import UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources.drawn import SectionSource
from ingestion.sources.inlays import inlay_of
from ingestion.sources.office.docxparts import (
    drawn_nodes,
    goes_on,
    head_rows,
    is_on,
    leave_blank,
    looked_into,
    raised_digits,
    row_cells,
    symbol_letter,
    table_rows,
)
from ingestion.sources.office.docxstyles import Style, Styles, roman
from ingestion.sources.office.drawingml import chart_part, diagram_text, said_instead
from ingestion.sources.office.flow import cell_text, running
from ingestion.sources.office.lists import item, joined_lists
from ingestion.sources.office.officemath import linear
from ingestion.sources.package import Package, Relation
from ingestion.sources.sections import Part, Section, sections, table_part
from ingestion.sources.xmlparts import kid, kids, number, value
from ingestion.tables import LARGEST_SPAN, Cell, Table

_MEDIA = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_DEEPEST = 40  # elements within each other that are followed
_THROUGH = frozenset(
    {"w:ins", "w:moveTo", "w:hyperlink", "w:smartTag", "w:fldSimple", "w:customXml", "w:bdo", "w:dir", "w:ruby"}
    | {"w:rubyBase", "w:sdtContent", "mc:Choice"}
)
_MARKS = {"w:tab": "\t", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "‑", "w:ptab": "\t"}
_NOTES_AFTER = 600  # characters of notes that wait for the next heading at most


class DocxSource(SectionSource):
    """A Word document, read whole when it is opened."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        self._package = Package(path, name, limits)
        try:
            super().__init__(name, _MEDIA, self._sections(limits), limits)
        except BaseException:
            self._package.close()
            raise
        self.damage = " ".join(f"{problem}." for problem in self._package.problems)

    def _sections(self, limits: LimitSettings) -> Iterator[Section]:
        return sections(joined_lists(DocxParts(self._package, limits)))

    def close(self) -> None:
        self._package.close()


class DocxParts:
    """The parts of a document in reading order. Iterate once."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self._package = package
        self._main = package.main_part("word/document.xml")
        if self._main not in package:
            raise UnreadableFile(f"{package.name} is damaged: the text of the document is missing in it")
        styles = package.tree_if_sound(self._related("styles"))
        numbering = package.tree_if_sound(self._related("numbering"))
        self._walk = _Walk(package, self._main, Styles(styles, numbering), limits)
        self._walk.notes = {
            kind: _by_id(package.tree_if_sound(self._related(f"{kind}s")), f"w:{kind}")
            for kind in ("footnote", "endnote", "comment")
        }

    def _related(self, kind: str) -> str:
        return next(iter(self._package.related(self._main, kind)), "")

    def __iter__(self) -> Iterator[Part]:
        yield from self._running("header", BlockKind.HEADER)
        yield from self._walk.flow(self._package.pieces(self._main, "w:body"))
        yield from self._walk.ending()
        yield from self._running("footer", BlockKind.FOOTER)

    def _running(self, relation: str, kind: BlockKind) -> Iterator[Part]:
        targets = self._package.related(self._main, relation)
        roots = ((target, self._package.tree_if_sound(target)) for target in targets)
        return running((self._walk.elsewhere(target).flow(root) for target, root in roots if root is not None), kind)


def _by_id(root: Element | None, name: str) -> dict[str, Element]:
    """Notes by their id, without the lines that separate notes from text."""
    return {
        value(each, "w:id"): each
        for each in kids(root, name)
        if value(each, "w:type", "normal") == "normal"
    }  # fmt: skip


@dataclass(slots=True)
class _Said:
    """What a paragraph says, and what hangs on it."""

    text: list[str] = field(default_factory=list[str])
    notes: list[Part] = field(default_factory=list[Part])
    after: list[Part] = field(default_factory=list[Part])  # pictures, text boxes, charts
    equation: bool = False  # nothing but a formula


@dataclass(slots=True)
class _Walk:
    """Walks the elements of one part. Fields may go over paragraphs, so their state is kept here."""

    package: Package
    part: str
    styles: Styles
    limits: LimitSettings
    notes: dict[str, dict[str, Element]] = field(default_factory=dict[str, dict[str, Element]])
    _relations: dict[str, Relation] | None = None
    _fields: list[bool] = field(default_factory=list[bool])  # of each open field: is its result being read?
    _waiting: list[Part] = field(default_factory=list[Part])
    _endnotes: list[Part] = field(default_factory=list[Part])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _shown: set[str] = field(default_factory=set[str])
    _carried: str = ""  # text of a paragraph whose end was deleted

    def elsewhere(self, part: str) -> _Walk:
        """The same for a header or footer."""
        return _Walk(self.package, part, self.styles, self.limits, _shown=self._shown)

    # -- flow -------------------------------------------------------------------------------

    def flow(self, elements: Iterable[Element], depth: int = 0) -> Iterator[Part]:
        """Paragraphs, lists' items, headings and tables."""
        for element in elements:
            if element.tag == "w:p":
                yield from self._paragraph(element, depth)
            elif element.tag == "w:tbl":
                yield from self._table(element, depth)
            elif depth < _DEEPEST:
                yield from self.flow(looked_into(element), depth + 1)

    def ending(self) -> Iterator[Part]:
        """What waits for the end: the last notes, then the endnotes."""
        if self._carried:
            yield Part(BlockKind.PARAGRAPH, self._carried)
            self._carried = ""
        yield from self._notes_now()
        yield from self._endnotes
        self._endnotes = []

    def _notes_now(self) -> list[Part]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _paragraph(self, paragraph: Element, depth: int) -> Iterator[Part]:
        style = self.styles.style(paragraph)
        said = _Said()
        self._runs(paragraph, said, depth)
        text = self._carried + "".join(said.text).strip("\n")
        self._carried = ""
        if goes_on(kid(paragraph, "w:pPr")):
            self._carried, text = text, ""
        if text.strip():
            part = self._part(text.strip(), style, said)
            if part.kind is BlockKind.HEADING or sum(len(note.text) for note in self._waiting) > _NOTES_AFTER:
                yield from self._notes_now()
            yield part
        self._waiting += said.notes
        yield from said.after

    def _part(self, text: str, style: Style, said: _Said) -> Part:
        marker = self.styles.marker(style)
        if style.level:
            numbered = f"{marker.text} {text}" if marker and marker.text and not marker.is_bullet else text
            return Part(BlockKind.HEADING, " ".join(numbered.split()), level=style.level)
        if marker is not None:
            return Part(BlockKind.LIST, item(marker, text))
        name = style.name.casefold()
        if name.startswith("toc ") and name[4:].isdigit():
            return Part(BlockKind.LIST, "  " * (int(name[4:]) - 1) + "- " + " ".join(text.split()))
        if name == "caption":
            return Part(BlockKind.CAPTION, text)
        return Part(BlockKind.EQUATION if said.equation else BlockKind.PARAGRAPH, text)

    # -- runs -------------------------------------------------------------------------------

    def _runs(self, element: Element, said: _Said, depth: int) -> None:
        """The text of a paragraph's runs, wherever they are nested."""
        for child in element:
            tag = child.tag
            if tag == "w:r":
                self._run(child, said, depth)
            elif tag == "m:oMath" or tag == "m:oMathPara":
                said.equation = said.equation or not "".join(said.text).strip()
                said.text.append(linear(child))
            elif depth < _DEEPEST and tag in _THROUGH:
                self._runs(child, said, depth + 1)
            elif depth < _DEEPEST and tag in ("w:sdt", "mc:AlternateContent"):
                for inner in looked_into(child, wrapped=True):
                    self._runs(inner, said, depth + 1)

    def _run(self, run: Element, said: _Said, depth: int) -> None:
        properties = kid(run, "w:rPr")
        unseen = is_on(kid(properties, "w:vanish"))
        raised = value(kid(properties, "w:vertAlign"), "w:val") == "superscript"
        for child in run:
            if child.tag == "w:fldChar":
                self._field(child, said)
            elif unseen or (self._fields and not all(self._fields)):
                continue
            elif child.tag == "w:t" and raised:
                said.text.append(raised_digits(child.text or ""))
            else:
                self._piece(child, said, depth)

    def _field(self, mark: Element, said: _Said) -> None:
        kind = value(mark, "w:fldCharType")
        if kind == "begin":
            self._fields.append(False)
            box = kid(mark, "w:ffData", "w:checkBox")
            if box is not None:
                ticked = kid(box, "w:checked")
                said.text.append("☒ " if is_on(ticked if ticked is not None else kid(box, "w:default")) else "☐ ")
        elif kind == "separate" and self._fields:
            self._fields[-1] = True
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _piece(self, child: Element, said: _Said, depth: int) -> None:
        tag = child.tag
        if tag == "w:t":
            said.text.append(child.text or "")
            said.equation = said.equation and not (child.text or "").strip()
        elif tag in _MARKS:
            said.text.append(_MARKS[tag])
        elif tag == "w:sym":
            said.text.append(symbol_letter(child))
        elif tag in ("w:footnoteReference", "w:endnoteReference", "w:commentReference"):
            self._reference(child, said, depth)
        elif tag in ("w:drawing", "w:pict", "w:object"):
            said.after += self._drawing(child, depth)
        elif tag == "mc:AlternateContent" and depth < _DEEPEST:
            for inner in looked_into(child, wrapped=True):
                for each in inner:
                    self._piece(each, said, depth + 1)
        elif tag == "w:ruby":
            self._runs(child, said, depth + 1)

    def _reference(self, mark: Element, said: _Said, depth: int) -> None:
        kind = mark.tag[2:-9]
        note = self.notes.get(kind, {}).get(value(mark, "w:id"))
        if note is None or depth > _DEEPEST:
            return
        within = _Walk(self.package, self.part, self.styles, self.limits, _shown=self._shown)
        text = "\n".join(part.text for part in within.flow(note, depth + 20) if part.text).strip()
        if kind == "comment":
            author = value(note, "w:author")
            if text:
                said.notes.append(Part(BlockKind.PARAGRAPH, f"[comment{f' by {author}' if author else ''}: {text}]"))
            return
        self._counts[kind] = count = self._counts.get(kind, 0) + 1
        sign = str(count) if kind == "footnote" else roman(count)
        said.text.append(f"[^{sign}]")
        if text:
            (said.notes if kind == "footnote" else self._endnotes).append(
                Part(BlockKind.PARAGRAPH, f"[^{sign}]: {text}")
            )

    # -- what is drawn ----------------------------------------------------------------------

    def _drawing(self, drawing: Element, depth: int) -> list[Part]:
        """Pictures, text boxes, charts and diagrams of a drawing, in its order."""
        found: list[Part] = []
        told = next(drawing.iter("wp:docPr"), None)
        alt = said_instead(value(told, "descr") or value(next(drawing.iter("v:shape"), None), "alt"))
        for node in drawn_nodes(drawing):
            if node.tag in ("a:blip", "v:imagedata"):
                key = "r:embed" if node.tag == "a:blip" else "r:id"
                found += self._picture(value(node, key), alt)
            elif node.tag == "w:txbxContent" and depth < _DEEPEST:
                found += self.flow(node, depth + 4)
            elif node.tag == "v:textpath" and value(node, "string").strip():
                found.append(Part(BlockKind.PARAGRAPH, value(node, "string").strip()))
            elif node.tag == "c:chart":
                part = chart_part(self.package.tree_if_sound(self._target(value(node, "r:id"))))
                found += [part] if part else []
            elif node.tag == "dgm:relIds":
                text = diagram_text(self.package.tree_if_sound(self._target(value(node, "r:dm"))))
                found += [Part(BlockKind.LIST, text)] if text else []
        return found

    def _target(self, relation: str) -> str:
        """The part a relation points to; "" where it points nowhere or out of the file."""
        if self._relations is None:
            self._relations = self.package.relations(self.part)
        found = self._relations.get(relation)
        return "" if found is None or found.outside else found.target

    def _picture(self, relation: str, alt: str) -> list[Part]:
        """A picture of the file, the first time it is shown; nothing for one that lies elsewhere."""
        target = self._target(relation)
        if not target or target in self._shown or target not in self.package:
            return []
        self._shown.add(target)
        inlay = inlay_of(partial(self.package.data, target), self.limits)
        return [Part(BlockKind.FIGURE, alt, inlay=inlay)] if inlay or alt else []

    # -- tables -----------------------------------------------------------------------------

    def _table(self, table: Element, depth: int) -> Iterator[Part]:
        """A table, then the pictures in it. One of a single cell is a frame around text."""
        lines = [line for line in table_rows(table) if kid(line, "w:trPr", "w:del") is None]
        if len(lines) == 1 and len(list(row_cells(lines[0]))) == 1 and depth < _DEEPEST:
            yield from self.flow(next(row_cells(lines[0])), depth + 1)
            return
        kept: list[Part] = []
        made, heads = self._grid(lines, kept, depth)
        if not made.is_empty:
            for row in made.rows[:heads]:
                for cell in row:
                    cell.heading = True
            yield from self._notes_now() if depth == 0 and len(self._waiting) > 20 else ()
            yield table_part(made)
        yield from kept

    def _grid(self, lines: list[Element], kept: list[Part], depth: int) -> tuple[Table, int]:
        """The table's cells, and how many rows at its top are its head."""
        made, open_cells, heads = Table(), dict[int, Cell](), 0
        for line in lines:
            row, still_open, column = list[Cell](), dict[int, Cell](), 0
            properties = kid(line, "w:trPr")
            column = leave_blank(row, number(kid(properties, "w:gridBefore"), "w:val"))
            for tc in row_cells(line):
                told = kid(tc, "w:tcPr")
                span = min(LARGEST_SPAN, max(1, number(kid(told, "w:gridSpan"), "w:val", 1)))
                merge = kid(told, "w:vMerge")
                above = open_cells.get(column)
                if merge is not None and value(merge, "w:val", "continue") != "restart" and above is not None:
                    above.rows += 1
                    still_open[column] = above
                else:
                    cell = Cell(self._cell_text(tc, kept, depth), columns=span)
                    row.append(cell)
                    if merge is not None:
                        still_open[column] = cell
                column += span
            leave_blank(row, number(kid(properties, "w:gridAfter"), "w:val"))
            if heads == len(made.rows) and is_on(kid(properties, "w:tblHeader")):
                heads += 1
            made.rows.append(row)
            open_cells = still_open
        return made, heads or head_rows(made)

    def _cell_text(self, cell: Element, kept: list[Part], depth: int) -> str:
        if depth >= _DEEPEST:
            return ""
        return cell_text(self.flow(cell, depth + 1), kept)
