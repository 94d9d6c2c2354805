"""What a Word paragraph is by its style: heading and level, list item and its number as displayed, caption."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from ingestion.sources.xmlparts import kid, kids, number, value

_DEEPEST = 6
_MOST_STEPS = 20  # of styles based on each other; a circle ends here
_HEADING_NAME = re.compile(r"^(?:heading|überschrift|título|titre) ?(\d)$", re.IGNORECASE)
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
          (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """A paragraph style with what it takes over from those it is based on."""

    name: str = ""
    level: int = 0  # of a heading; 0: none
    numbering: tuple[str, int] | None = None  # number id, level


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands before a list item or a numbered heading. ``text`` is "-" for a bullet."""

    text: str
    depth: int

    @property
    def is_bullet(self) -> bool:
        return self.text == "-"


@dataclass(frozen=True, slots=True)
class _Level:
    form: str = "decimal"
    text: str = ""
    start: int = 1


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level] = field(default_factory=dict[int, _Level])
    link: str = ""  # a style that has the levels


class Styles:
    """Styles and numbering of one document. Numbers are counted, so paragraphs are asked for in order, once."""

    def __init__(self, styles: Element | None, numbering: Element | None) -> None:
        self._raw = {value(each, "w:styleId"): each for each in kids(styles, "w:style")}
        self._default = next(
            (key for key, each in self._raw.items() if _is_on(each.get("w:default", "0")) and _is_paragraph(each)), ""
        )
        self._styles: dict[str, Style] = {}
        self._lists = {value(each, "w:abstractNumId"): _list_of(each) for each in kids(numbering, "w:abstractNum")}
        self._numbers = {value(each, "w:numId"): each for each in kids(numbering, "w:num")}
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._begun: set[tuple[str, int]] = set()

    def style(self, paragraph: Element) -> Style:
        """The paragraph's style, with its own outline level and numbering over it."""
        properties = kid(paragraph, "w:pPr")
        named = self._resolved(value(kid(properties, "w:pStyle"), "w:val") or self._default)
        level = _outline(properties)
        own = _numbering(properties)
        numbering = named.numbering
        if own is not None:
            above = named.numbering or ("", 0)
            numbering = (own[0] or above[0], own[1] if own[1] >= 0 else above[1])
        return Style(named.name, named.level if level is None else level, numbering)

    def _resolved(self, style_id: str, steps: int = 0) -> Style:
        if style_id in self._styles:
            return self._styles[style_id]
        raw = self._raw.get(style_id)
        if raw is None or steps > _MOST_STEPS:
            return Style(style_id)
        based = self._resolved(value(kid(raw, "w:basedOn"), "w:val"), steps + 1)
        properties = kid(raw, "w:pPr")
        name = value(kid(raw, "w:name"), "w:val", style_id)
        level, own = _outline(properties), _numbering(properties)
        if level is None:
            level = heading_level(name) or based.level
        numbering = based.numbering
        if own is not None:
            above = based.numbering or ("", 0)
            numbering = (own[0] or above[0], own[1] if own[1] >= 0 else _own_level(level, above[1]))
        self._styles[style_id] = found = Style(name, level, numbering)
        return found

    def marker(self, style: Style) -> Marker | None:
        """The item's number or bullet, counted on; None where the paragraph is no item."""
        if style.numbering is None or style.numbering[0] in ("", "0"):
            return None
        number_id, depth = style.numbering
        key, levels, starts = self._levels(number_id)
        if not levels:
            return None
        level = levels.get(depth, _Level())
        counts = self._counts[key]
        if (number_id, depth) not in self._begun and depth in starts:
            counts.pop(depth, None)
            level = _Level(level.form, level.text, starts[depth])
        self._begun.add((number_id, depth))
        counts[depth] = counts[depth] + 1 if depth in counts else level.start
        for deeper in [each for each in counts if each > depth]:
            del counts[deeper]
        return Marker(_marker_text(level, depth, counts, levels), depth)

    def _levels(self, number_id: str) -> tuple[str, Mapping[int, _Level], Mapping[int, int]]:
        """The list a number belongs to: its key, its levels, and where this number starts anew."""
        num = self._numbers.get(number_id)
        key = value(kid(num, "w:abstractNumId"), "w:val")
        found = self._lists.get(key)
        if found is not None and not found.levels and found.link:
            linked = self._resolved(found.link).numbering
            if linked and linked[0] != number_id:
                return self._levels(linked[0]) if self._numbers.get(linked[0]) is not num else (key, {}, {})
        overrides = {
            number(each, "w:ilvl"): number(kid(each, "w:startOverride"), "w:val", 1)
            for each in kids(num, "w:lvlOverride")
            if kid(each, "w:startOverride") is not None
        }
        return key, found.levels if found else {}, overrides


def _is_paragraph(style: Element) -> bool:
    return value(style, "w:type") == "paragraph"


def _is_on(text: str) -> bool:
    return text.lower() in ("1", "true", "on")


def _own_level(heading: int, above: int) -> int:
    """A heading style without a list level of its own numbers at the level of the heading."""
    return heading - 1 if heading else above


def _outline(properties: Element | None) -> int | None:
    """A heading's level by its outline level, 0 for body text, None where nothing is said."""
    told = kid(properties, "w:outlineLvl")
    if told is None:
        return None
    outline = number(told, "w:val", 9)
    return min(outline + 1, _DEEPEST) if 0 <= outline < 9 else 0


def heading_level(name: str) -> int:
    """The level that a style's name tells: "heading 2", "Title"; 0 for none."""
    if name.casefold() == "title":
        return 1
    found = _HEADING_NAME.match(name)
    return min(int(found[1]), _DEEPEST) if found and found[1] != "0" else 0


def _numbering(properties: Element | None) -> tuple[str, int] | None:
    """Number id and level as they stand in the properties; "" and -1 where one of them is not there."""
    told = kid(properties, "w:numPr")
    if told is None:
        return None
    return value(kid(told, "w:numId"), "w:val"), number(kid(told, "w:ilvl"), "w:val", -1)


def _list_of(abstract: Element) -> _List:
    levels = {
        number(each, "w:ilvl"): _Level(
            value(kid(each, "w:numFmt"), "w:val", "decimal"),
            value(kid(each, "w:lvlText"), "w:val"),
            number(kid(each, "w:start"), "w:val", 1),
        )
        for each in kids(abstract, "w:lvl")
    }
    return _List(levels, value(kid(abstract, "w:numStyleLink"), "w:val"))


def _marker_text(level: _Level, depth: int, counts: Mapping[int, int], levels: Mapping[int, _Level]) -> str:
    if level.form == "bullet":
        return "-"
    if level.form == "none":
        return ""

    def shown(found: re.Match[str]) -> str:
        at = int(found[1]) - 1
        each = levels.get(at, _Level())
        return counted(counts.get(at, each.start), each.form)

    return re.sub(r"%([1-9])", shown, level.text or f"%{depth + 1}.").strip()


def counted(count: int, form: str) -> str:
    """A number in the form a list has: "decimal", "lowerLetter", "upperRoman", …; others count in decimals."""
    if form in ("lowerLetter", "upperLetter"):
        letters = chr(97 + (count - 1) % 26) * ((count - 1) // 26 + 1) if 0 < count <= 780 else str(count)
        return letters.upper() if form == "upperLetter" else letters
    if form in ("lowerRoman", "upperRoman"):
        return roman(count).upper() if form == "upperRoman" else roman(count)
    return f"{count:02d}" if form == "decimalZero" else str(count)


def roman(count: int) -> str:
    """Lower-case Roman numerals; decimals where there are none."""
    if not 0 < count < 4000:
        return str(count)
    text = ""
    for size, letters in _ROMAN:
        text += letters * (count // size)
        count %= size
    return text
