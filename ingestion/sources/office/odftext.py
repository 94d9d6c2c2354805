"""What the three kinds of OpenDocument files (ODT, ODS, ODP) share: styles, and text with all that stands in it.

Their XML says more than the libraries for it pass on, and odfpy is in part under the GPL: it is walked here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.settings import LimitSettings
from ingestion.sources.inlays import inlay_of
from ingestion.sources.office.docxstyles import Marker, counted
from ingestion.sources.office.flow import cell_text
from ingestion.sources.office.lists import item, joined_lists
from ingestion.sources.package import Package
from ingestion.sources.sections import Inlay, Part, table_part
from ingestion.sources.xmlparts import kid, kids, number, value
from ingestion.tables import LARGEST_SPAN, Cell, Table

if TYPE_CHECKING:
    pass

CONTENT, STYLES = "content.xml", "styles.xml"
_DEEPEST = 40
_MOST_SPACES = 100
_MOST_REPEATED = 200  # copies of a cell or row that are meant; more are how a program fills an empty sheet
_UNSEEN = frozenset(
    {"text:tracked-changes", "text:hidden-text", "text:hidden-paragraph", "office:annotation-end", "text:note-citation"}
    | {"office:forms", "text:sequence-decls", "text:variable-decls", "text:user-field-decls", "text:change"}
)
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


@dataclass(slots=True)
class OdfStyles:
    """Styles by family and name: who stands above whom, what is hidden, and how lists are numbered."""

    parents: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    hidden: set[str] = field(default_factory=set[str])
    lists: dict[str, dict[int, Element]] = field(default_factory=dict[str, dict[int, Element]])

    def take(self, holder: Element | None) -> None:
        """Add the styles of an ``office:styles`` or ``office:automatic-styles``."""
        for style in holder if holder is not None else ():
            name = value(style, "style:name")
            if style.tag == "text:list-style":
                self.lists[name] = {number(level, "text:level", 1) - 1: level for level in style}
            elif style.tag == "style:style":
                key = f"{value(style, 'style:family')}/{name}"
                self.parents[key] = value(style, "style:parent-style-name")
                self.names[key] = value(style, "style:display-name", name)
                if _hides(style):
                    self.hidden.add(key)

    def is_hidden(self, family: str, name: str) -> bool:
        """Whether what has this style is not shown."""
        return any(f"{family}/{each}" in self.hidden for each in self.chain(family, name))

    def chain(self, family: str, name: str) -> Iterator[str]:
        """The style's name and those of the styles above it."""
        for _ in range(20):
            if not name:
                return
            yield name
            name = self.parents.get(f"{family}/{name}", "")

    def named(self, family: str, name: str) -> set[str]:
        """The names, as people see them and in small letters, of the style and those above it."""
        return {self.names.get(f"{family}/{each}", each).casefold() for each in self.chain(family, name)}


def _hides(style: Element) -> bool:
    return (
        value(kid(style, "style:text-properties"), "text:display") == "none"
        or value(kid(style, "style:table-properties"), "table:display", "true") == "false"
        or value(kid(style, "style:drawing-page-properties"), "presentation:visibility") == "hidden"
    )


@dataclass(slots=True)
class OdfText:
    """Walks text: paragraphs, headings, lists, tables, and what hangs on them. Its counters go over a document."""

    package: Package
    styles: OdfStyles
    limits: LimitSettings
    folder: str = ""  # of the part within the package, for objects within objects
    waiting: list[Part] = field(default_factory=list[Part])  # footnotes and comments for after their paragraph
    endnotes: list[Part] = field(default_factory=list[Part])
    shown: set[str] = field(default_factory=set[str])
    _list_counts: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])

    # -- flow -------------------------------------------------------------------------------

    def parts(self, elements: Iterator[Element] | Element, depth: int = 0) -> Iterator[Part]:
        """The parts of a text in order, the items of a list each alone (see ``joined_lists``)."""
        for element in elements:
            tag = element.tag
            if tag in ("text:p", "text:h"):
                yield from self._paragraph(element, depth)
            elif depth > _DEEPEST or tag in _UNSEEN:
                continue
            elif tag == "text:list":
                yield from self._list(element, value(element, "text:style-name"), 0, depth + 1)
            elif tag == "table:table":
                yield from self.table(element, depth + 1)
            elif tag.startswith("drawing:"):
                yield from self.drawing(element, depth + 1)
            elif tag == "office:annotation":
                yield from self._comment(element)
            elif value(element, "text:display", "true") != "none":
                yield from self.parts(iter(element), depth + 1)

    def ending(self) -> list[Part]:
        """What waits for the end of the text."""
        last, self.waiting, self.endnotes = [*self.waiting, *self.endnotes], [], []
        return last

    def _paragraph(self, element: Element, depth: int, marker: Marker | None = None) -> Iterator[Part]:
        style = value(element, "text:style-name")
        if self.styles.is_hidden("paragraph", style):
            return
        after: list[Part] = []
        text = "".join(self._pieces(element, after, depth)).strip()
        if text:
            yield self._part(element, text, style, marker)
        waiting, self.waiting = self.waiting, []
        yield from after
        yield from waiting

    def _part(self, element: Element, text: str, style: str, marker: Marker | None) -> Part:
        names = self.styles.named("paragraph", style)
        level = number(element, "text:outline-level", 1) if element.tag == "text:h" else 1 if "title" in names else 0
        if level:
            numbered = f"{marker.text} {text}" if marker and not marker.is_bullet else text
            return Part(BlockKind.HEADING, " ".join(numbered.split()), level=min(6, max(1, level)))
        if marker is not None:
            return Part(BlockKind.LIST, item(marker, text))
        return Part(BlockKind.CAPTION if "caption" in names else BlockKind.PARAGRAPH, text)

    def _list(self, element: Element, style: str, level: int, depth: int) -> Iterator[Part]:
        """A list's items; a list in a list takes its style from the outer one where it has none."""
        told = self.styles.lists.get(style, {}).get(level)
        counts = self._list_counts.setdefault(style, {})
        if value(element, "text:continue-numbering") != "true" and not value(element, "text:continue-list"):
            counts.pop(level, None)
        for entry in kids(element, "text:list-item", "text:list-header"):
            marked = entry.tag == "text:list-header"
            for child in entry:
                if child.tag == "text:list" and depth < _DEEPEST:
                    yield from self._list(child, value(child, "text:style-name") or style, level + 1, depth + 1)
                elif child.tag in ("text:p", "text:h"):
                    marker = Marker(" ", level) if marked else self._marker(told, level, counts, entry)
                    yield from self._paragraph(child, depth, marker)
                    marked = True
                else:
                    yield from self.parts(iter([child]), depth + 1)

    def _marker(self, told: Element | None, level: int, counts: dict[int, int], entry: Element) -> Marker:
        form = value(told, "style:num-format")
        if told is None or told.tag != "text:list-level-style-number" or not form:
            return Marker("-", level)
        start = number(entry, "text:start-value", number(told, "text:start-value", 1))
        fresh = level not in counts or entry.get("text:start-value") is not None
        counts[level] = start if fresh else counts[level] + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        first = max(0, level - number(told, "text:display-levels", 1) + 1)
        numbers = [counted(counts.get(each, 1), _FORMS.get(form, "decimal")) for each in range(first, level + 1)]
        return Marker(
            value(told, "style:num-prefix") + ".".join(numbers) + value(told, "style:num-suffix", "."), level
        )  # fmt: skip

    # -- within a paragraph -----------------------------------------------------------------

    def _pieces(self, element: Element, after: list[Part], depth: int) -> Iterator[str]:
        """The text of a paragraph; pictures and boxes go to ``after``, notes to those that wait."""
        yield _collapsed(element.text)
        for child in element:
            if depth < _DEEPEST:
                yield from self._piece(child, after, depth + 1)
            yield _collapsed(child.tail)

    def _piece(self, child: Element, after: list[Part], depth: int) -> Iterator[str]:
        tag = child.tag
        if tag in _UNSEEN or (tag == "text:span" and self.styles.is_hidden("text", value(child, "text:style-name"))):
            return
        if tag == "text:s":
            yield " " * min(_MOST_SPACES, max(1, number(child, "text:c", 1)))
        elif tag in ("text:tab", "text:line-break"):
            yield "\t" if tag == "text:tab" else "\n"
        elif tag == "text:note":
            yield self._note(child, depth)
        elif tag == "office:annotation":
            self.waiting += self._comment(child)
        elif tag.startswith("drawing:") and tag != "drawing:a":
            after += self.drawing(child, depth)
        elif tag != "text:ruby-text":
            yield from self._pieces(child, after, depth)

    def _note(self, note: Element, depth: int) -> str:
        sign = "".join(text for each in kids(note, "text:note-citation") for text in each.itertext()).strip()
        body = kid(note, "text:note-body")
        inner = OdfText(self.package, self.styles, self.limits, self.folder, shown=self.shown)
        text = "\n".join(part.text for part in inner.parts(iter(body if body is not None else ()), depth + 20)).strip()
        if text:
            place = self.endnotes if value(note, "text:note-class") == "endnote" else self.waiting
            place.append(Part(BlockKind.PARAGRAPH, f"[^{sign}]: {text}"))
        return f"[^{sign}]"

    def _comment(self, annotation: Element) -> list[Part]:
        author = "".join(text for each in kids(annotation, "dc:creator") for text in each.itertext()).strip()
        lines = ("".join(each.itertext()).strip() for each in annotation.iter("text:p"))
        text = "\n".join(line for line in lines if line)
        by = f" by {author}" if author else ""
        return [Part(BlockKind.PARAGRAPH, f"[comment{by}: {text}]")] if text else []

    # -- what is drawn ----------------------------------------------------------------------

    def drawing(self, element: Element, depth: int = 0) -> list[Part]:
        """Text boxes, pictures, charts and formulas of a frame, a shape or a group."""
        if depth > _DEEPEST:
            return []
        found: list[Part] = []
        alt = "".join(
            text for name in ("svg:desc", "svg:title") for each in kids(element, name) for text in each.itertext()
        ).strip()
        texts: list[Element] = []
        seen_object = False
        for child in element:
            if child.tag == "drawing:image" and not seen_object:
                inlay = self.picture(child)
                found += [Part(BlockKind.FIGURE, alt, inlay=inlay)] if inlay or alt else []
            elif child.tag == "drawing:object":
                made = self._object(child)
                found += made
                seen_object = bool(made)  # the picture beside it shows the same
            elif child.tag in ("text:p", "text:h", "text:list", "table:table"):
                texts.append(child)
            elif child.tag.startswith("drawing:") and child.tag != "drawing:image":
                found += self.drawing(child, depth + 1)
        return found + list(self.parts(iter(texts), depth + 1))

    def picture(self, image: Element) -> Inlay | None:
        """A picture of the file, the first time it is shown; None for one that lies elsewhere."""
        target = _target(self.folder, value(image, "xlink:href"))
        if target not in self.package or target in self.shown:
            return None
        self.shown.add(target)
        return inlay_of(partial(self.package.data, target), self.limits)

    def _object(self, element: Element) -> list[Part]:
        """A chart's data or a formula; an embedded sheet or text is not opened."""
        target = _target(self.folder, value(element, "xlink:href"))
        root = self.package.tree_if_sound(posixpath.join(target, CONTENT)) if target else kid(element, "math:math")
        if root is None:
            return []
        if root.tag == "math:math":
            text = _formula(root)
            return [Part(BlockKind.EQUATION, text)] if text else []
        inner = OdfText(self.package, self.styles, self.limits, target)
        chart = next(root.iter("chart:chart"), None)
        return list(inner.parts(iter(list(chart.iter("table:table"))), _DEEPEST // 2)) if chart is not None else []

    # -- tables -----------------------------------------------------------------------------

    def table(self, table: Element, depth: int = 0) -> Iterator[Part]:
        """A table, then the pictures in its cells. One of a single cell is a frame around text."""
        made, kept = Table(), list[Part]()
        for row, heading in _rows(table, False, 0):
            cells: list[Cell] = []
            for cell in kids(row, "table:table-cell"):
                text = cell_text(joined_lists(self.parts(iter(cell), depth + 1)), kept)
                down, across = (
                    min(LARGEST_SPAN, max(1, number(cell, f"table:number-{name}-spanned", 1)))
                    for name in ("rows", "columns")
                )
                copies = max(1, number(cell, "table:number-columns-repeated", 1))
                cells += [Cell(text, down, across, heading) for _ in range(min(copies, _MOST_REPEATED))]
            for _ in range(min(_MOST_REPEATED, max(1, number(row, "table:number-rows-repeated", 1)))):
                made.rows.append([Cell(cell.text, cell.rows, cell.columns, cell.heading) for cell in cells])
        if not made.is_empty:
            if len(made.rows) > 1 and not any(cell.heading for cell in made.rows[0]):
                for cell in made.rows[0]:
                    cell.heading = True
            alone = len(made.rows) == 1 and len(made.rows[0]) == 1
            yield Part(BlockKind.PARAGRAPH, made.rows[0][0].text) if alone else table_part(made)
        yield from kept


def _rows(holder: Element, heading: bool, depth: int) -> Iterator[tuple[Element, bool]]:
    """A table's rows, each with whether it is of the header."""
    for child in holder:
        if child.tag == "table:table-row":
            yield child, heading
        elif depth < 8 and child.tag in ("table:table-header-rows", "table:table-rows", "table:table-row-group"):
            yield from _rows(child, heading or child.tag == "table:table-header-rows", depth + 1)


def _collapsed(text: str | None) -> str:
    """White space as the format means it: runs of it are one space."""
    if not text:
        return ""
    words = " ".join(text.split())
    return (" " if text[0].isspace() else "") + words + (" " if text[-1].isspace() and words else "")


def _target(folder: str, link: str) -> str:
    """A link as a part's name; "" for one out of the file."""
    if not link or ":" in link.partition("/")[0]:
        return ""
    path = posixpath.normpath(posixpath.join("/", folder, unquote(link))).lstrip("/")
    return "" if link.startswith("/") else path


def _formula(root: Element) -> str:
    """A formula as its author wrote it, else its letters in order."""
    note = next((each for each in root.iter("math:annotation") if (each.text or "").strip()), None)
    if note is not None:
        return " ".join((note.text or "").split())
    return " ".join("".join(root.itertext()).split())
