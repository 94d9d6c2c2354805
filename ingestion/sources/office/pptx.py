"""PowerPoint presentations (PPTX, PPTM, PPSX): every slide with its shapes, tables, charts, notes and comments.

The XML is walked here: python-pptx refuses a whole presentation for one broken relation or picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.errors import UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources.inlays import inlay_of
from ingestion.sources.office.drawingml import chart_part, diagram_text, drawn_paragraph, drawn_text, said_instead
from ingestion.sources.office.slides import Frame, Shape, Slide, SlideSource, titled
from ingestion.sources.package import Package, Relation
from ingestion.sources.sections import Part, table_part
from ingestion.sources.xmlparts import kid, kids, number, value
from ingestion.tables import LARGEST_SPAN, Cell, Table

_MEDIA = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_EMU = 12_700  # a point in the format's own unit
_DEEPEST = 20
_TITLES = ("title", "ctrTitle")
_LISTS = ("body", "obj", "")  # placeholders whose paragraphs are items unless they say they are none


class PptxSource(SlideSource):
    """A presentation, read when it is opened; the slides in their order, hidden ones too."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        self._package = Package(path, name, limits)
        try:
            super().__init__(name, _MEDIA, list(_slides(self._package, limits)), limits)
        except BaseException:
            self._package.close()
            raise
        self.damage = " ".join(f"{problem}." for problem in self._package.problems)

    def close(self) -> None:
        self._package.close()


def _slides(package: Package, limits: LimitSettings) -> Iterator[Slide]:
    main = package.main_part("ppt/presentation.xml")
    if main not in package:
        raise UnreadableFile(f"{package.name} is damaged: the list of its slides is missing in it")
    root = package.tree(main)
    size = kid(root, "p:sldSz")
    width, height = number(size, "cx", 9_144_000) / _EMU, number(size, "cy", 6_858_000) / _EMU
    relations = package.relations(main)
    authors = _authors(package, relations)
    parts = [relations.get(value(each, "r:id")) for each in kids(kid(root, "p:sldIdLst"), "p:sldId")]
    for count, relation in enumerate((each for each in parts if each and not each.outside), 1):
        slide = Slide(max(72.0, width), max(72.0, height))
        _Reader(package, relation.target, slide, limits, authors).read(count)
        yield slide


def _authors(package: Package, relations: dict[str, Relation]) -> dict[str, str]:
    found: dict[str, str] = {}
    for relation in relations.values():
        if relation.kind in ("commentAuthors", "authors") and not relation.outside:
            root = package.tree_if_sound(relation.target)
            found |= {value(each, "id"): value(each, "name") for each in (root if root is not None else ())}
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """From a group's own coordinates to the slide's."""

    scale_x: float = 1.0
    scale_y: float = 1.0
    move_x: float = 0.0
    move_y: float = 0.0

    def frame(self, transform: Element | None) -> Frame | None:
        offset, extent = kid(transform, "a:off"), kid(transform, "a:ext")
        if offset is None or extent is None:
            return None
        x0 = number(offset, "x") * self.scale_x + self.move_x
        y0 = number(offset, "y") * self.scale_y + self.move_y
        x1, y1 = x0 + number(extent, "cx") * self.scale_x, y0 + number(extent, "cy") * self.scale_y
        return x0 / _EMU, y0 / _EMU, x1 / _EMU, y1 / _EMU

    def within(self, transform: Element | None) -> _Place:
        """The same for what stands in a group with this transform."""
        parts = [kid(transform, f"a:{name}") for name in ("off", "ext", "chOff", "chExt")]
        if any(part is None for part in parts):
            return self
        off, ext, child_off, child_ext = parts
        across = self.scale_x * number(ext, "cx") / (number(child_ext, "cx") or 1)
        down = self.scale_y * number(ext, "cy") / (number(child_ext, "cy") or 1)
        left = number(off, "x") * self.scale_x + self.move_x - number(child_off, "x") * across
        top = number(off, "y") * self.scale_y + self.move_y - number(child_off, "y") * down
        return _Place(across, down, left, top)


class _Reader:
    """Reads one slide into a ``Slide``."""

    def __init__(
        self, package: Package, part: str, slide: Slide, limits: LimitSettings, authors: dict[str, str]
    ) -> None:
        self.package = package
        self.part = part
        self.slide = slide
        self.limits = limits
        self.authors = authors
        self.relations = package.relations(part)
        self.title = ""
        self.title_frame: Frame = (0.0, 0.0, slide.width, slide.height / 6)
        self.shown: set[tuple[str, Frame]] = set()
        self.placeholders = list(self._inherited())

    def read(self, count: int) -> None:
        root = self.package.tree_if_sound(self.part)
        if root is None and self.part not in self.package:
            self.package.problems.append(f"{self.package.name} is damaged: slide {count} is missing in it")
        self._shapes(kid(root, "p:cSld", "p:spTree"), _Place(), 0)
        hidden = value(root, "show", "1") in ("0", "false")
        self.slide.shapes.insert(0, Shape(self.title_frame, [titled(self.title, count, hidden)]))
        self._below()

    def _below(self) -> None:
        notes = "\n".join(text for part in self._related("notesSlide") for text in self._notes(part))
        if notes.strip():
            self.slide.below.append(Part(BlockKind.HEADING, "Speaker notes", level=2))
            self.slide.below.append(Part(BlockKind.PARAGRAPH, notes.strip()))
        for part in self._related("comments"):
            self.slide.below += self._comments(self.package.tree_if_sound(part))

    def _related(self, kind: str) -> list[str]:
        return [each.target for each in self.relations.values() if each.kind == kind and not each.outside]

    def _notes(self, part: str) -> Iterator[str]:
        root = self.package.tree_if_sound(part)
        for shape in kids(kid(root, "p:cSld", "p:spTree"), "p:sp"):
            told = kid(shape, "p:nvSpPr", "p:nvPr", "p:ph")
            if told is not None and value(told, "type", "body") == "body":
                yield drawn_text(kid(shape, "p:txBody")).strip()

    def _comments(self, root: Element | None) -> Iterator[Part]:
        for comment in root if root is not None else ():
            plain = kid(comment, "p:text")
            text = (plain.text or "") if plain is not None else drawn_text(comment)
            author = self.authors.get(value(comment, "authorId"), "")
            if text.strip():
                by = f" by {author}" if author else ""
                yield Part(BlockKind.PARAGRAPH, f"[comment{by}: {text.strip()}]")

    # -- shapes -----------------------------------------------------------------------------

    def _shapes(self, tree: Element | None, place: _Place, depth: int) -> None:
        for shape in tree if tree is not None and depth < _DEEPEST else ():
            if shape.tag == "p:sp":
                self._shape(shape, place)
            elif shape.tag == "p:pic":
                self._picture(shape, place.frame(kid(shape, "p:spPr", "a:xfrm")) or self._whole)
            elif shape.tag == "p:graphicFrame":
                self._graphic(shape, place.frame(kid(shape, "p:xfrm")) or self._whole)
            elif shape.tag == "p:grpSp":
                self._shapes(shape, place.within(kid(shape, "p:grpSpPr", "a:xfrm")), depth + 1)
            elif shape.tag == "mc:AlternateContent":
                chosen = kid(shape, "mc:Choice")
                chosen = chosen if chosen is not None and len(chosen) else kid(shape, "mc:Fallback")
                self._shapes(chosen, place, depth + 1)

    @property
    def _whole(self) -> Frame:
        return 0.0, 0.0, self.slide.width, self.slide.height

    def _shape(self, shape: Element, place: _Place) -> None:
        told = kid(shape, "p:nvSpPr", "p:nvPr", "p:ph")
        kind = value(told, "type", "") if told is not None else None
        frame = place.frame(kid(shape, "p:spPr", "a:xfrm")) or self._inherited_frame(told) or self._whole
        blip = next(shape.iter("a:blip"), None)
        if blip is not None:
            self._blip(blip, frame, "")
        body = kid(shape, "p:txBody")
        text = drawn_text(body).strip()
        if not text or kind == "sldNum":
            return
        if kind in _TITLES and not self.title:
            self.title, self.title_frame = text, frame
        elif kind in ("dt", "ftr", "hdr"):
            self.slide.shapes.append(Shape(frame, [Part(BlockKind.FOOTER, text)]))
        else:
            self.slide.shapes.append(Shape(frame, list(_text_parts(body, kind in _LISTS))))

    def _inherited(self) -> Iterator[tuple[str, str, Frame]]:
        """Type, index and frame of the placeholders of the slide's layout, then of its master."""
        for layout in self._related("slideLayout"):
            yield from self._placeholders(layout)
            for master in self.package.related(layout, "slideMaster"):
                yield from self._placeholders(master)

    def _placeholders(self, part: str) -> Iterator[tuple[str, str, Frame]]:
        root = self.package.tree_if_sound(part)
        for shape in kids(kid(root, "p:cSld", "p:spTree"), "p:sp"):
            told = kid(shape, "p:nvSpPr", "p:nvPr", "p:ph")
            frame = _Place().frame(kid(shape, "p:spPr", "a:xfrm"))
            if told is not None and frame is not None:
                yield value(told, "type", ""), value(told, "idx", "0"), frame

    def _inherited_frame(self, told: Element | None) -> Frame | None:
        if told is None:
            return None
        kind, index = value(told, "type", ""), value(told, "idx", "0")
        same = [frame for _, other, frame in self.placeholders if other == index and index != "0"]
        alike = [frame for other, _, frame in self.placeholders if _alike(other, kind)]
        return next(iter([*same, *alike]), None)

    def _picture(self, shape: Element, frame: Frame) -> None:
        alt = value(kid(shape, "p:nvPicPr", "p:cNvPr"), "descr")
        for blip in shape.iter("a:blip"):
            self._blip(blip, frame, alt)

    def _blip(self, blip: Element, frame: Frame, alt: str) -> None:
        relation = self.relations.get(value(blip, "r:embed"))
        parts = [Part(BlockKind.FIGURE, said_instead(alt))] if said_instead(alt) else []
        inlay = None
        if relation is not None and not relation.outside and relation.target in self.package:
            inlay = inlay_of(partial(self.package.data, relation.target), self.limits)
        key = (relation.target if relation else "", frame)
        if (inlay or parts) and key not in self.shown:
            self.shown.add(key)
            self.slide.shapes.append(Shape(frame, parts, inlay))

    def _graphic(self, shape: Element, frame: Frame) -> None:
        data = kid(shape, "a:graphic", "a:graphicData")
        for node in data.iter() if data is not None else ():
            if node.tag == "a:tbl":
                part = _table(node)
                self.slide.shapes += [Shape(frame, [part])] if part else []
            elif node.tag == "c:chart":
                part = chart_part(self._tree_of(value(node, "r:id")))
                self.slide.shapes += [Shape(frame, [part])] if part else []
            elif node.tag == "dgm:relIds":
                text = diagram_text(self._tree_of(value(node, "r:dm")))
                self.slide.shapes += [Shape(frame, [Part(BlockKind.LIST, text)])] if text else []
            elif node.tag == "a:blip":
                self._blip(node, frame, "")

    def _tree_of(self, relation: str) -> Element | None:
        found = self.relations.get(relation)
        return None if found is None or found.outside else self.package.tree_if_sound(found.target)


def _alike(one: str, other: str) -> bool:
    return one == other or {one, other} <= {"title", "ctrTitle"} or {one, other} <= {"body", "obj", "subTitle", ""}


def _text_parts(body: Element | None, as_list: bool) -> Iterator[Part]:
    """Paragraphs and lists of a text body."""
    paragraphs = [each for each in kids(body, "a:p") if drawn_paragraph(each).strip()]
    counts: dict[int, int] = {}
    held: list[str] = []
    for paragraph in paragraphs:
        text = drawn_paragraph(paragraph).strip()
        sign = _sign(paragraph, as_list and len(paragraphs) > 1, counts)
        if sign:
            indent = "  " * min(8, number(kid(paragraph, "a:pPr"), "lvl"))
            held.append(f"{indent}{sign} " + text.replace("\n", f"\n{indent}  "))
            continue
        if held:
            yield Part(BlockKind.LIST, "\n".join(held))
            held = []
        yield Part(BlockKind.PARAGRAPH, text)
    if held:
        yield Part(BlockKind.LIST, "\n".join(held))


def _sign(paragraph: Element, as_list: bool, counts: dict[int, int]) -> str:
    """The bullet or number before a paragraph; "" for none."""
    properties = kid(paragraph, "a:pPr")
    level = number(properties, "lvl")
    for deeper in [each for each in counts if each > level]:
        del counts[deeper]
    counted = kid(properties, "a:buAutoNum")
    if counted is not None:
        counts[level] = counts.get(level, number(counted, "startAt", 1) - 1) + 1
        return f"{counts[level]}."
    counts.pop(level, None)
    if kid(properties, "a:buNone") is not None:
        return ""
    return "-" if as_list or kid(properties, "a:buChar") is not None else ""


def _table(table: Element) -> Part | None:
    made = Table()
    with_head = value(kid(table, "a:tblPr"), "firstRow", "1") in ("1", "true")
    rows = list(kids(table, "a:tr"))
    for index, row in enumerate(rows):
        cells: list[Cell] = []
        for tc in kids(row, "a:tc"):
            if value(tc, "hMerge") in ("1", "true") or value(tc, "vMerge") in ("1", "true"):
                continue
            down, across = (min(LARGEST_SPAN, max(1, number(tc, key, 1))) for key in ("rowSpan", "gridSpan"))
            text = drawn_text(kid(tc, "a:txBody")).strip()
            cells.append(Cell(text, down, across, heading=index == 0 and with_head and len(rows) > 1))
        made.rows.append(cells)
    return None if made.is_empty else table_part(made)
