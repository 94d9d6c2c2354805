"""Where on the page a quoted or cited sentence stands: the blocks that hold it, not the whole passage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from assistant.core.domain import Access, Block, Box, Chunk
from assistant.core.errors import NotFound
from assistant.core.ports import Catalogue
from assistant.grounding import Ground

_INSIDE = 0.5  # share of a block that must lie in the passage's boxes to belong to it
_LEAST_WORDS = 0.5


class Placer:
    """Narrows passages to the blocks behind a sentence, by the page as it was published."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def boxes(self, chunk: Chunk, sentences: Sequence[str], access: Access) -> tuple[Box, ...]:
        """The boxes on ``chunk.page`` that hold ``sentences``; all the passage's boxes there where that is unclear."""
        passage = tuple(dict.fromkeys(b for a in chunk.anchors if a.page == chunk.page for b in a.boxes))
        if len(passage) <= 1 or not sentences:
            return passage
        try:
            page = await asyncio.to_thread(self._catalogue.page, chunk.document_id, chunk.page, access)
        except NotFound:  # deleted, or published anew with fewer pages, since the search
            return passage
        return narrowed(page.blocks, passage, sentences) or passage


def narrowed(blocks: Sequence[Block], passage: Sequence[Box], sentences: Sequence[str]) -> tuple[Box, ...]:
    """The boxes of the blocks inside ``passage`` that hold one of ``sentences``; empty where none does."""
    inside = [block for block in blocks if any(block.bbox.share_inside(box) >= _INSIDE for box in passage)]
    found: list[Box] = []
    for sentence in sentences:
        holding = [block for block in inside if Ground(block.text).holds(sentence)] or _nearest(inside, sentence)
        found += [block.bbox for block in holding if block.bbox not in found]
    return tuple(found)


def _nearest(blocks: Sequence[Block], sentence: str) -> list[Block]:
    """The block with most of the sentence's words, where it has enough of them."""
    shares = [(Ground(block.text).word_share(sentence), -index) for index, block in enumerate(blocks)]
    best = max(shares, default=(0.0, 0))
    return [blocks[-best[1]]] if best[0] >= _LEAST_WORDS else []
