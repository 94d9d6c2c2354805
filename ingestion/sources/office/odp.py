"""OpenDocument presentations and drawings: every page with its frames, notes and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.settings import LimitSettings
from ingestion.sources.office.lists import joined_lists
from ingestion.sources.office.odftext import CONTENT, STYLES, OdfStyles, OdfText
from ingestion.sources.office.slides import Frame, Shape, Slide, SlideSource, titled
from ingestion.sources.package import Package
from ingestion.sources.sections import Part
from ingestion.sources.xmlparts import kid, kids, value

_LENGTH = re.compile(r"(-?[\d.]+)\s*(cm|mm|in|pt|pc|px)?")
_POINTS = {"cm": 72 / 2.54, "mm": 72 / 25.4, "in": 72.0, "pt": 1.0, "pc": 12.0, "px": 0.75}
_DEEPEST = 20
_USUAL = (793.7, 446.5)  # points: 28 cm x 15.75 cm


class OdpSource(SlideSource):
    """A presentation, read when it is opened; the package is closed with it."""

    def __init__(self, package: Package, kind: str, limits: LimitSettings) -> None:
        self._package = package
        media = f"application/vnd.oasis.opendocument.{kind}"
        super().__init__(package.name, media, list(_slides(package, limits)), limits)
        self.damage = " ".join(f"{problem}." for problem in package.problems)

    def close(self) -> None:
        self._package.close()


def _slides(package: Package, limits: LimitSettings) -> Iterator[Slide]:
    content, shared = package.tree(CONTENT), package.tree_if_sound(STYLES)
    styles = OdfStyles()
    for root in (shared, content):
        for name in ("office:styles", "office:automatic-styles"):
            styles.take(kid(root, name))
    sizes = dict(_sizes(shared))
    body = kid(content, "office:body")
    pages = [page for holder in (body if body is not None else ()) for page in kids(holder, "drawing:page")]
    for count, page in enumerate(pages, 1):
        width, height = sizes.get(value(page, "drawing:master-page-name"), _USUAL)
        slide = Slide(max(72.0, width), max(72.0, height))
        _fill(slide, page, count, OdfText(package, styles, limits))
        yield slide


def _sizes(shared: Element | None) -> Iterator[tuple[str, tuple[float, float]]]:
    """The size in points of the pages of each master page."""
    layouts = {
        value(layout, "style:name"): kid(layout, "style:page-layout-properties")
        for layout in kids(kid(shared, "office:automatic-styles"), "style:page-layout")
    }
    for master in kids(kid(shared, "office:master-styles"), "style:master-page"):
        told = layouts.get(value(master, "style:page-layout-name"))
        width, height = _points(value(told, "fo:page-width")), _points(value(told, "fo:page-height"))
        if width and height:
            yield value(master, "style:name"), (width, height)


def _points(length: str) -> float:
    """A length such as 2.5cm in points; 0 where it is none."""
    found = _LENGTH.fullmatch(length.strip())
    try:
        return float(found[1]) * _POINTS[found[2] or "pt"] if found else 0.0
    except ValueError:
        return 0.0


def _fill(slide: Slide, page: Element, count: int, walk: OdfText) -> None:
    title, title_frame = "", (0.0, 0.0, slide.width, slide.height / 6)
    for element, frame in _frames(page, 0):
        kind = value(element, "presentation:class")
        if value(element, "presentation:placeholder") == "true":
            continue
        parts = list(joined_lists(walk.drawing(element)))
        if kind == "title" and not title:
            title, title_frame = " ".join(part.text for part in parts), frame
            parts = [part for part in parts if part.inlay]
        slide.shapes += [Shape(frame, [part] if part.text else [], part.inlay) for part in parts if part.inlay]
        texts = [part for part in parts if part.inlay is None and part.text.strip()]
        slide.shapes += [Shape(frame, texts)] if texts else []
    hidden = walk.styles.is_hidden("drawing-page", value(page, "drawing:style-name"))
    slide.shapes.insert(0, Shape(title_frame, [titled(title, count, hidden)]))
    _below(slide, page, walk)


def _below(slide: Slide, page: Element, walk: OdfText) -> None:
    notes = [
        part
        for holder in kids(page, "presentation:notes")
        for element, _ in _frames(holder, 0)
        if value(element, "presentation:class") == "notes" and value(element, "presentation:placeholder") != "true"
        for part in joined_lists(walk.drawing(element))
        if part.text.strip()
    ]
    if notes:
        slide.below += [Part(BlockKind.HEADING, "Speaker notes", level=2), *notes]
    slide.below += walk.parts(iter(kids(page, "office:annotation")))


def _frames(holder: Element, depth: int) -> Iterator[tuple[Element, Frame]]:
    """The shapes of a page or group with their places, in points."""
    for child in holder:
        if child.tag == "drawing:g" and depth < _DEEPEST:
            yield from _frames(child, depth + 1)
        elif child.tag.startswith("drawing:"):
            x, y = _points(value(child, "svg:x")), _points(value(child, "svg:y"))
            yield child, (x, y, x + _points(value(child, "svg:width")), y + _points(value(child, "svg:height")))
