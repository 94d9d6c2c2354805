"""Text cut into blocks, and blocks into sections of bounded size that stand for pages.

A section is laid out on a grid of characters: ``ROWS`` rows of ``COLUMNS``. The grid, not a font, gives
the boxes, so that a citation's box fits the drawing on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from assistant.core.domain import Block, BlockKind, Box, Reader

COLUMNS, ROWS = 110, 64
MARGIN = 0.07  # of the width and of the height, on each side
_MOST_CHARACTERS = 3_000
_LIST_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+\S")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A block before it has a place: Markdown text, HTML for tables."""

    kind: BlockKind
    text: str
    html: str | None = None
    level: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks with their places, and the rows of text that are drawn."""

    blocks: tuple[Block, ...]
    rows: tuple[str, ...]


def plain_parts(text: str) -> Iterator[Part]:
    """Paragraphs and lists of a plain text: what stands between empty lines."""
    for piece in re.split(r"\n[ \t]*\n+", text):
        body = piece.strip("\n").rstrip()
        if body.strip():
            lines = body.splitlines()
            items = sum(1 for line in lines if _LIST_ITEM.match(line))
            is_list = items >= 2 and items * 2 >= len(lines)
            yield Part(BlockKind.LIST if is_list else BlockKind.PARAGRAPH, body)


def sections(parts: Iterator[Part]) -> Iterator[Section]:
    """Parts packed into sections; a heading opens a new one where half of the last is used."""
    held: list[Part] = []
    rows = size = 0
    for part in (small for whole in parts for small in _bounded(whole)):
        needed = len(_wrap(part.text)) + 1
        full = rows + needed > ROWS or size + len(part.text) > _MOST_CHARACTERS
        turning = part.kind is BlockKind.HEADING and (rows > ROWS // 2 or size > _MOST_CHARACTERS // 2)
        if held and (full or turning):
            yield _section(held)
            held, rows, size = [], 0, 0
        held.append(part)
        rows, size = rows + needed, size + len(part.text)
    if held:
        yield _section(held)


def _bounded(part: Part) -> Iterator[Part]:
    """The part, or pieces of it that each fit a section, cut at lines, then sentences, then words."""
    if len(part.text) <= _MOST_CHARACTERS and len(_wrap(part.text)) < ROWS:
        yield part
        return
    kind = BlockKind.PARAGRAPH if part.kind is BlockKind.TABLE else part.kind
    held = ""
    for piece in _pieces(part.text):
        if held and (len(held) + len(piece) > _MOST_CHARACTERS or len(_wrap(held + piece)) >= ROWS):
            yield Part(kind, held.strip("\n").rstrip(), level=part.level)
            held = ""
        held += piece
    if held.strip():
        yield Part(kind, held.strip("\n").rstrip(), level=part.level)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most a third of a section, nothing lost but white space at the cuts."""
    most = _MOST_CHARACTERS // 3
    for line in text.splitlines(keepends=True):
        if len(line) <= most:
            yield line
            continue
        for sentence in _SENTENCE_END.split(line):
            for start in range(0, len(sentence), most):
                yield sentence[start : start + most] + ("" if start + most < len(sentence) else " ")
        yield "\n"


def _section(parts: list[Part]) -> Section:
    blocks: list[Block] = []
    rows: list[str] = []
    for part in parts:
        lines = _wrap(part.text)
        box = grid_box(len(rows), len(rows) + len(lines))
        blocks.append(Block(part.kind, part.text, box, 1.0, Reader.TEXT, html=part.html, level=part.level))
        rows += [*lines, ""]
    return Section(tuple(blocks), tuple(rows[:-1]))


def grid_box(first: int, end: int) -> Box:
    """Where rows ``first`` to ``end`` (not included) stand on the page."""
    height = (1 - 2 * MARGIN) / ROWS
    return Box.of(MARGIN, MARGIN + first * height, 1 - MARGIN, MARGIN + end * height)


def _wrap(text: str) -> list[str]:
    """Rows of at most ``COLUMNS`` characters, cut at spaces where there are any."""
    rows: list[str] = []
    for line in text.expandtabs(4).splitlines() or [""]:
        while len(line) > COLUMNS:
            cut = line.rfind(" ", COLUMNS // 2, COLUMNS + 1)
            cut = cut if cut > 0 else COLUMNS
            rows.append(line[:cut])
            line = line[cut:].lstrip()
        rows.append(line)
    return rows
