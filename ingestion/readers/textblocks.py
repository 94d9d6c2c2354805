"""Lines in reading order become blocks: headings, paragraphs, lists, running heads and feet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assistant.core.domain import BlockKind
from ingestion.readers.textlayout import Item, Region, rows_of

_SIGN = r"[-*+•‣◦▪●○■□–—\uf0a7\uf0b7\uf02d]"
_NUMBER = r"\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]"
_BULLET = re.compile(rf"{_SIGN}\s*(?=\S)")
_NUMBERED = re.compile(rf"{_NUMBER}\s+(?=\S)")
_MARKER = re.compile(rf"{_SIGN}|{_NUMBER}")
_SECTION = re.compile(r"(?:(?P<number>\d{1,2}(?:\.\d{1,2}){0,4})\.?|[IVX]{1,5}\.|[A-Z]\.)\s+\S")
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|página|pág|pag|seite|s|p)\W*)?(?:\d{1,4}|[ivxlc]{1,6})(?:\s*(?:/|of|de|von|sur|di)\s*\d{1,4})?\W*",
    re.IGNORECASE,
)
_CAPTION = re.compile(
    r"(?:table|figure|fig|tabla|tabela|tabelle|tableau|figura|abbildung|abb|gráfico|grafik|chart|cuadro|ilustración)"
    r"\.?\s*[\dIVX]+", re.IGNORECASE,
)  # fmt: skip
_SENTENCE_END = re.compile(r"[.!?…:;。！？]['\")\]»”’]*$")
_HYPHENS = ("-", "\u2010", "\u00ad")
_EDGE = 0.08  # of the page's height: where running heads and feet stand
_WIDE_SCRIPT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


@dataclass(frozen=True, slots=True)
class Type:
    """The page's usual type, to hold headings against."""

    size: float
    bold: bool
    height: float  # of the page


@dataclass
class Made:
    """A block in the making: its kind, Markdown text and the items it stands on."""

    kind: BlockKind
    text: str
    items: list[Item]
    level: int = 0


def body_type(items: Sequence[Item], height: float) -> Type:
    """The size most letters of running text are set in, and whether most of them are bold."""
    prose = [item for item in items if item.words >= 5]
    items = prose if sum(item.words for item in prose) >= 40 else items
    weights: dict[float, int] = {}
    bold = letters = 0
    for item in items:
        if item.line:
            count = len(item.line.text)
            weights[round(item.size * 2) / 2] = weights.get(round(item.size * 2) / 2, 0) + count
            bold += count * item.line.bold
            letters += count
    usual = [size for size, count in weights.items() if count >= 0.2 * letters]
    size = max(usual or weights, default=10.0)
    return Type(size, 2 * bold > letters, height)


def make_blocks(items: Sequence[Item], body: Type, vocabulary: frozenset[str]) -> list[Made]:
    """Blocks of one column. ``vocabulary`` holds words of the page written with a hyphen inside a line."""
    rows = [_row(row) for row in rows_of([item for item in items if item.line])]
    groups: list[list[_Row]] = []
    pitch = _pitch(rows)
    for row in rows:
        if groups and not _begins(groups[-1], row, pitch, body):
            groups[-1].append(row)
        else:
            groups.append([row])
    return _lists([_made(group, body, vocabulary) for group in groups])


@dataclass
class _Row:
    """Pieces of one baseline as one line."""

    items: list[Item]
    text: str
    x0: float
    x1: float
    y0: float
    y1: float
    size: float
    bold: bool
    repeated: bool
    hyphen: bool


def _row(items: list[Item]) -> _Row:
    rtl = sum(_is_rtl(item) for item in items) * 2 > len(items)
    ordered = sorted(items, key=lambda item: -item.x1 if rtl else item.x0)
    lines = [item.line for item in ordered if item.line]
    main = max(ordered, key=lambda item: len(item.line.text) if item.line else 0)
    letters = sum(len(line.text) for line in lines)
    return _Row(
        items=ordered,
        text=" ".join(line.text for line in lines),
        x0=min(item.x0 for item in items),
        x1=max(item.x1 for item in items),
        y0=min(item.y0 for item in items),
        y1=max(item.y1 for item in items),
        size=main.size,
        bold=2 * sum(len(line.text) for line in lines if line.bold) > letters,
        repeated=all(line.repeated for line in lines),
        hyphen=lines[-1].hyphen,
    )


def _is_rtl(item: Item) -> bool:
    text = item.line.text if item.line else ""
    return sum("\u0590" <= letter < "\u0900" for letter in text) * 2 > len(text)


def _pitch(rows: list[_Row]) -> float:
    """The usual white between two lines of a column, in points."""
    gaps = [below.y0 - above.y1 for above, below in itertools.pairwise(rows) if below.y0 - above.y1 < 30]
    return float(np.percentile(gaps, 35)) if gaps else 0.0


def _begins(group: list[_Row], row: _Row, pitch: float, body: Type) -> bool:
    """Whether ``row`` begins a new block after ``group``."""
    last = group[-1]
    gap = row.y0 - last.y1
    em = max(1.0, min(row.size, last.size))
    inner = last.y0 - group[-2].y1 if len(group) > 1 else pitch
    if gap > max(pitch, inner) + 0.42 * em or gap < -1.5 * em:
        return True
    if abs(row.size - last.size) > 0.12 * max(row.size, last.size) or row.repeated != last.repeated:
        return True
    if row.bold != last.bold and not body.bold and (len(group) == 1 or group[0].bold == last.bold):
        return _stands_alone(last if last.bold else row, last, row)
    if is_item(row.text) and not _wraps(group, row):
        return True
    if _is_capital(last.text) and all(_is_capital(r.text) for r in group) and not _is_capital(row.text):
        return True
    return _indents(group, row)


def _stands_alone(bold: _Row, last: _Row, row: _Row) -> bool:
    """A bold line is a heading of its own unless a sentence goes on before it or, in small letters, after it."""
    ended = bool(_SENTENCE_END.search(last.text))
    if bold is last:
        return len(last.text) < 120 and (ended or last.text.isupper() or not row.text[:1].islower())
    return ended or len(last.text) < 60


def _is_capital(text: str) -> bool:
    return text.isupper() and sum(letter.isalpha() for letter in text) >= 5


def is_item(text: str) -> bool:
    """Whether a line begins like an item of a list."""
    return bool(_BULLET.match(text) or _NUMBERED.match(text))


def is_itemised(region: Region) -> bool:
    """Whether what stands like a table is a list whose marks stand in a column of their own."""
    if len(region.gutters) != 1:
        return False
    edge = sum(region.gutters[0]) / 2
    marks = [item.line.text.strip() for item in region.items if item.line and item.x1 <= edge]
    return len(marks) > 0 and all(_MARKER.fullmatch(mark) for mark in marks)


def _wraps(group: list[_Row], row: _Row) -> bool:
    """A line that merely happens to begin like an item in the middle of a sentence: '(a) …', or a
    day before a bracket, '29) …'."""
    last = group[-1]
    if _BULLET.match(row.text) or last.text[-1:] in ".;:,":
        return False
    in_prose = len(group) > 1 and not any(is_item(above.text) for above in group)
    full = last.x1 > max(above.x1 for above in group) - 2 * row.size
    return row.x0 < last.x0 - 0.5 * row.size or (in_prose and full)


def _indents(group: list[_Row], row: _Row) -> bool:
    """A first-line indent after a line that ended a paragraph."""
    last, first = group[-1], group[0]
    if is_item(first.text):
        # Text of an item hangs at or right of where the item's text began; back at its left: a new block.
        back = row.x0 < first.x0 - 0.5 * row.size and not row.text[:1].islower()
        return back or (
            len(group) > 1 and abs(row.x0 - first.x0) < 0.3 * row.size and group[1].x0 > first.x0 + 0.8 * row.size
        )
    indent = row.x0 - min(last.x0, *(r.x0 for r in group[1:] or [last]))
    right = max(r.x1 for r in group)
    ended = bool(_SENTENCE_END.search(last.text))
    short = last.x1 < right - 0.15 * (right - min(r.x0 for r in group))
    return (0.8 * row.size <= indent <= 6 * row.size and ended) or (
        ended and short and row.text[:1].isupper() and indent > -1
    )


def _made(group: list[_Row], body: Type, vocabulary: frozenset[str]) -> Made:
    items = [item for row in group for item in row.items]
    text = join_lines([(row.text, row.hyphen) for row in group], vocabulary)
    kind, level = _kind(group, text, body)
    if kind is BlockKind.LIST:
        text = _item_text(text)
    return Made(kind, text, items, level)


def _kind(group: list[_Row], text: str, body: Type) -> tuple[BlockKind, int]:
    edge = _edge_kind(group, text, body)
    if edge:
        return edge, 0
    level = _heading_level(group, text, body)
    if level:
        return BlockKind.HEADING, level
    if _CAPTION.match(text) and len(text) < 400:
        return BlockKind.CAPTION, 0
    if is_item(text):
        return BlockKind.LIST, 0
    return BlockKind.PARAGRAPH, 0


def _edge_kind(group: list[_Row], text: str, body: Type) -> BlockKind | None:
    """Header or footer: at the page's edge, and repeated on a neighbouring page or a mere page number."""
    top, bottom = group[0].y0 / body.height, group[-1].y1 / body.height
    at_edge = bottom <= _EDGE or top >= 1 - _EDGE
    numbered = at_edge and len(text) < 24 and _PAGE_NUMBER.fullmatch(text)
    if all(row.repeated for row in group) or numbered:
        return BlockKind.HEADER if bottom <= 0.5 else BlockKind.FOOTER
    return None


def _heading_level(group: list[_Row], text: str, body: Type) -> int:
    """1 to 6, or 0 for what is no heading."""
    letters = sum(letter.isalpha() for letter in text)
    if len(group) > 4 or len(text) > 220 or letters < 2 or letters < 0.4 * len(text.replace(" ", "")):
        return 0
    ratio = group[0].size / body.size
    numbered = _SECTION.match(text)
    if ratio >= 1.14 and not (text.endswith((".", ",")) and len(text) > 80) and (ratio >= 1.3 or len(text) <= 140):
        return 1 if ratio >= 1.7 else 2 if ratio >= 1.3 else 3
    bold = all(row.bold for row in group) and not body.bold
    ended = text.rstrip().endswith((".", ",", ";"))
    if bold and ratio >= 0.95 and not ended and len(text) <= 120:
        depth = numbered.group("number").count(".") + 2 if numbered and numbered.group("number") else 3
        return min(6, depth)
    capital = text.isupper() and len(text) >= 4 and len(group) <= 2 and len(text) <= 80 and ratio >= 0.95
    return 3 if capital and not ended and letters > 0.7 * len(text.replace(" ", "")) else 0


def _item_text(text: str) -> str:
    """An item as Markdown: bullets of all kinds become dashes, numbers stay."""
    return _BULLET.sub("- ", text, count=1) if _BULLET.match(text) else text


def _lists(made: list[Made]) -> list[Made]:
    """Items that follow each other become one list."""
    joined: list[Made] = []
    for block in made:
        if joined and block.kind is joined[-1].kind is BlockKind.LIST:
            joined[-1].text += "\n" + block.text
            joined[-1].items += block.items
        else:
            joined.append(block)
    return joined


def join_lines(lines: Sequence[tuple[str, bool]], vocabulary: frozenset[str]) -> str:
    """Lines as one paragraph; ``lines`` are (text, ends in a hyphen the file marks as soft).

    A hyphen at a line's end goes when the next line begins with a small letter, unless the page writes the
    same word with a hyphen elsewhere.
    """
    text, soft = lines[0]
    for following, next_soft in lines[1:]:
        text = _joined(text.rstrip(), following.lstrip(), soft, vocabulary)
        soft = next_soft
    return text.strip()


def _joined(text: str, following: str, soft: bool, vocabulary: frozenset[str]) -> str:
    if text.endswith(_HYPHENS) and len(text) > 1 and following:
        stem, rest = text[:-1], following.split(maxsplit=1)[0]
        word = (stem.split()[-1] if stem.split() else "") + "-" + rest.rstrip(".,;:!?)")
        if word.lower() in vocabulary or not text[-2].isalpha():
            return text + following
        if following[0].islower():
            return stem + following
        return text + following if following[0].isalpha() or soft else f"{text} {following}"
    if text and following and _WIDE_SCRIPT.match(text[-1]) and _WIDE_SCRIPT.match(following[0]):
        return text + following
    return f"{text} {following}"


def hyphenated_words(items: Sequence[Item]) -> frozenset[str]:
    """Words written with a hyphen inside a line, in small letters."""
    return frozenset(
        word.strip(".,;:!?()").lower()
        for item in items
        if item.line and "-" in item.line.text
        for word in item.line.text.split()
        if "-" in word[1:-1]
    )
