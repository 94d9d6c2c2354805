"""Corrections laid over a page: what people say stands there, whatever a reader made of it this time.

A page read again may be cut into other blocks by another reader, so a correction finds its block by place and by
what was read there before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from assistant.core.domain import Block, Box, Correction, PageReading

SAME_PLACE = 0.5  # of what both boxes cover together (intersection over union)
SAME_TEXT = 0.6  # likeness that tells blocks of one place apart, e.g. on a page without places
ANOTHER_READING = 0.3  # likeness under which a block of the same place says something else altogether
COMPARED = 2000  # letters


def corrected(page: PageReading, corrections: Sequence[Correction]) -> PageReading:
    """``page`` as corrected: later corrections win; those that only mark, or find no block, change nothing."""
    blocks = list(page.blocks)
    for correction in corrections:
        if correction.page != page.number or correction.text is None:
            continue
        place = place_of(correction, page.blocks)
        if place is not None:
            blocks[place] = _said(page.blocks[place], correction)
    return replace(page, blocks=tuple(blocks)) if tuple(blocks) != page.blocks else page


def place_of(correction: Correction, blocks: Sequence[Block]) -> int | None:
    """The index of the block, as it was read, that ``correction`` is about; None where there is none any more."""
    near = [i for i, block in enumerate(blocks) if _common_share(block.bbox, correction.bbox) >= SAME_PLACE]
    if not near:
        return None
    alike = {i: _likeness(blocks[i].text, correction.original) for i in near}
    best = max(near, key=lambda i: (alike[i], _common_share(blocks[i].bbox, correction.bbox)))
    least = SAME_TEXT if len(near) > 1 else ANOTHER_READING
    return best if alike[best] >= least or correction.text == blocks[best].text else None


def _said(block: Block, correction: Correction) -> Block:
    """``block`` with a person's text. A table's HTML was the reader's, so it goes with the reader's text."""
    text = correction.text or ""
    return replace(block, text=text, html=None, confidence=1.0, corrected_by=correction.by)


def _common_share(one: Box, other: Box) -> float:
    if one == other:  # also where a format has no places, or boxes without area
        return 1.0
    common = one.overlap(other)
    return common / (one.area + other.area - common) if common else 0.0


def _likeness(one: str, other: str) -> float:
    if one == other:
        return 1.0
    return SequenceMatcher(None, one[:COMPARED], other[:COMPARED], autojunk=False).ratio()
