"""From a question to the passages that may answer it: hybrid search, without repetitions, neighbours joined."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assistant.core.domain import Access, BlockKind, Chunk, Hit
from assistant.core.ports import ChunkIndex, Embedder, SearchQuery
from assistant.core.settings import RetrievalSettings
from assistant.language import tokens

_NEAR_DUPLICATE = 0.9  # share of common words from which two passages say the same
_JOINED_CHUNKS = 3  # at most, so that one passage does not crowd out the others


@dataclass(frozen=True, slots=True)
class Found:
    """``hits`` best first; a hit's chunk may be several neighbouring ones joined. ``vector`` is the
    question's, for whoever weighs the hits' sentences."""

    hits: tuple[Hit, ...]
    vector: tuple[float, ...]


class Retriever:
    """Search over the chunks a person may see. Store and embedder run in threads."""

    def __init__(self, index: ChunkIndex, embedder: Embedder, settings: RetrievalSettings) -> None:
        self._index = index
        self._embedder = embedder
        self._settings = settings

    async def find(self, question: str, access: Access) -> Found:
        """The passages nearest to ``question``, at most ``settings.limit``."""
        vector = await asyncio.to_thread(self._embedder.embed_query, question)
        query = SearchQuery(question, vector, access, self._settings.limit)
        hits = await asyncio.to_thread(self._index.search, query)
        return Found(tuple(joined(without_repetitions(hits))), tuple(vector))

    async def widened(self, hits: Sequence[Hit], access: Access) -> list[Hit]:
        """The hits with the text just before and after each on its page, for a reader who can use context."""
        return await asyncio.gather(*(self._with_neighbours(hit, access) for hit in hits))

    async def _with_neighbours(self, hit: Hit, access: Access) -> Hit:
        if hit.chunk.kind is BlockKind.TABLE:
            return hit  # a table is whole, or repeats its header
        around = await asyncio.to_thread(self._index.neighbours, hit.chunk, access, 1)
        near = [chunk for chunk in around if _same_page(chunk, hit.chunk) and chunk.text not in hit.chunk.text]
        ordered = sorted([*near, hit.chunk], key=lambda chunk: chunk.ordinal)
        return replace(hit, chunk=_merged(ordered, named_by=hit.chunk))


def without_repetitions(hits: Sequence[Hit]) -> list[Hit]:
    """The hits less those whose text another, better one has already (copies, overlapping chunks). Of the copies
    in one document the first page is kept."""
    kept: list[Hit] = []
    words: list[frozenset[str]] = []
    for hit in hits:
        own = frozenset(tokens(hit.chunk.text))
        same = next((n for n, other in enumerate(words) if _repeats(own, other)), None)
        if same is None:
            if own:
                kept.append(hit)
                words.append(own)
        elif _is_earlier_copy(hit.chunk, kept[same].chunk):
            kept[same] = replace(kept[same], chunk=hit.chunk)
    return kept


def _is_earlier_copy(chunk: Chunk, of: Chunk) -> bool:
    return chunk.document_id == of.document_id and chunk.page < of.page and chunk.text == of.text


def _repeats(words: frozenset[str], other: frozenset[str]) -> bool:
    """Numbers tell forms and receipts of one template apart, so they must agree entirely."""
    common = len(words & other)
    if any(character.isdigit() for word in words ^ other for character in word):
        return words <= other
    return common >= _NEAR_DUPLICATE * len(words | other) or words <= other


def joined(hits: Sequence[Hit]) -> list[Hit]:
    """Hits that stand next to each other on a page become one passage, placed and scored as its best."""
    passages: list[list[Hit]] = []
    for hit in hits:
        for passage in passages:
            if len(passage) < _JOINED_CHUNKS and any(_adjoin(hit.chunk, member.chunk) for member in passage):
                passage.append(hit)
                break
        else:
            passages.append([hit])
    return [_joined(passage) for passage in passages]


def _joined(passage: list[Hit]) -> Hit:
    best = passage[0]
    ordered = sorted((hit.chunk for hit in passage), key=lambda chunk: chunk.ordinal)
    return replace(
        best,
        chunk=_merged(ordered, named_by=best.chunk),
        dense=max((hit.dense for hit in passage if hit.dense is not None), default=None),
        sparse=max((hit.sparse for hit in passage if hit.sparse is not None), default=None),
    )


def _adjoin(one: Chunk, other: Chunk) -> bool:
    if BlockKind.TABLE in (one.kind, other.kind):
        return False  # rows are weighed under their own header
    return _same_page(one, other) and abs(one.ordinal - other.ordinal) == 1


def _same_page(one: Chunk, other: Chunk) -> bool:
    return one.document_id == other.document_id and one.page == other.page


def _merged(ordered: Sequence[Chunk], named_by: Chunk) -> Chunk:
    """One chunk with the text and anchors of all, as sure as its least sure part."""
    if len(ordered) == 1:
        return ordered[0]
    return replace(
        named_by,
        text="\n\n".join(chunk.text for chunk in ordered),
        anchors=tuple(anchor for chunk in ordered for anchor in chunk.anchors),
        confidence=min(chunk.confidence for chunk in ordered),
        ordinal=ordered[0].ordinal,
        corrected_by=tuple(dict.fromkeys(who for chunk in ordered for who in chunk.corrected_by)),
    )
