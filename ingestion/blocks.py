"""Blocks of two readings put together by their place on the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from assistant.core.domain import Block, BlockKind, Box, Reading

_NEAR = 0.012  # of the page: blocks this close may hold the same line
_SAME = 0.75  # share of its words found in the text layer, from which a block says nothing new
_RUN = 3  # words in a row that stand in the text layer too are taken out of a longer block
_INSIDE = 0.5  # share of a block in a region, from which the region's new reading replaces it
_WORD = re.compile(r"\w+")


def merge_blocks(text: Reading, ocr: Reading) -> tuple[Block, ...]:
    """A mixed page: the text layer's blocks, and of the OCR's those (or the parts of those) that say what no
    text block near them says already. OCR blocks are placed among the others by where they stand."""
    merged = list(text.blocks)
    for block in ocr.blocks:
        upright = replace(block, bbox=_turned(block.bbox, (text.turned - ocr.turned) % 360))
        fresh = _fresh_part(upright, text.blocks)
        if fresh is not None:
            merged = _inserted(merged, fresh)
    return tuple(merged)


def replace_regions(blocks: Sequence[Block], fresh: Sequence[Block], regions: Sequence[Box]) -> tuple[Block, ...]:
    """``blocks`` with what lies in ``regions`` replaced by ``fresh``; no regions mean the whole page."""
    if not regions:
        return tuple(fresh)
    kept = [block for block in blocks if not any(block.bbox.share_inside(region) >= _INSIDE for region in regions)]
    for block in fresh:
        kept = _inserted(kept, block)
    return tuple(kept)


def _turned(box: Box, degrees: int) -> Box:
    """The box on the page turned clockwise by quarters."""
    x0, y0, x1, y1 = box
    if degrees == 90:
        return Box.of(1 - y1, x0, 1 - y0, x1)
    if degrees == 180:
        return Box.of(1 - x1, 1 - y1, 1 - x0, 1 - y0)
    return Box.of(y0, 1 - x1, y1, 1 - x0) if degrees == 270 else box


def _fresh_part(block: Block, known: Sequence[Block]) -> Block | None:
    """What ``block`` says that the known blocks near it do not; None when that is nothing."""
    near = [other for other in known if _is_near(block.bbox, other.bbox)]
    words = _words(block.text)
    if not near or not words:
        return block if words or block.kind is BlockKind.FIGURE else None
    said = _words("\n".join(other.text for other in near))
    if _share_said(words, said) >= _SAME:
        return None
    if block.kind is BlockKind.TABLE:
        return block
    rest = _without_runs(block.text, said)
    return replace(block, text=rest) if _words(rest) else None


def _is_near(one: Box, other: Box) -> bool:
    return (
        one.x0 - _NEAR <= other.x1
        and other.x0 <= one.x1 + _NEAR
        and one.y0 - _NEAR <= other.y1
        and other.y0 <= one.y1 + _NEAR
    )


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _share_said(words: Sequence[str], said: Sequence[str]) -> float:
    """The share of letters in words that stand in ``said``, exactly or nearly (OCR errs by a letter)."""
    known = set(said)
    letters = sum(len(word) for word in words)
    found = sum(len(word) for word in words if word in known or _is_nearly_in(word, known))
    return found / letters


def _is_nearly_in(word: str, known: set[str]) -> bool:
    if len(word) < 5:
        return False
    return any(
        abs(len(word) - len(other)) <= 1 and SequenceMatcher(None, word, other).ratio() >= 0.8 for other in known
    )


def _without_runs(text: str, said: Sequence[str]) -> str:
    """The text without runs of words that stand in ``said`` in the same order."""
    places = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    words = [text[start:end].casefold() for start, end in places]
    kept = text
    matches = SequenceMatcher(None, words, said, autojunk=False).get_matching_blocks()
    for match in sorted(matches, key=lambda match: -match.a):
        if match.size >= _RUN:
            start, end = places[match.a][0], places[match.a + match.size - 1][1]
            kept = kept[:start] + kept[end:]
    return kept.strip(" .,;:%)\n") if kept != text else text


def _inserted(blocks: Sequence[Block], block: Block) -> list[Block]:
    """``block`` after the last one that stands above it in its column; else before the first below it."""
    middle = (block.bbox.y0 + block.bbox.y1) / 2
    above = [i for i, other in enumerate(blocks) if _share_column(block, other) and _middle(other) <= middle]
    if above:
        place = above[-1] + 1
    else:
        below = [i for i, other in enumerate(blocks) if _share_column(block, other)]
        by_height = [i for i, other in enumerate(blocks) if other.bbox.y0 >= middle]
        place = below[0] if below else by_height[0] if by_height else len(blocks)
    return [*blocks[:place], block, *blocks[place:]]


def _middle(block: Block) -> float:
    return (block.bbox.y0 + block.bbox.y1) / 2


def _share_column(one: Block, other: Block) -> bool:
    common = min(one.bbox.x1, other.bbox.x1) - max(one.bbox.x0, other.bbox.x0)
    return common > 0.3 * min(one.bbox.width, other.bbox.width)
