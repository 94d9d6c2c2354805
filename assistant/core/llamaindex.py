"""LlamaIndex on our index: its sentence parser for long passages, its nodes for chunks, its retriever over the port.

The library takes seconds to import, so everything here imports it when called. Its ingestion pipeline and
vector store are not used: writing is ours (``publish``), with an id for every chunk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from assistant.core.domain import Access, Anchor, BlockKind, Box, Chunk, Reader, TimeSpan
from assistant.core.ports import ChunkIndex, Embedder, SearchQuery

if TYPE_CHECKING:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

# A stop, closing marks, a blank, and then no small letter: good enough in any script to break a passage at.
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]]*(?:\s+(?![a-zà-öø-ÿ])|(?<=[。！？]))")


def sentence_splitter(max_tokens: int, count_tokens: Callable[[str], int]) -> Callable[[str], list[str]]:
    """A function that cuts a text at sentence ends into pieces of at most ``max_tokens``.

    Pieces are verbatim and cover the text; a sentence that is too long is cut at its commas, then at its
    words, then at its letters.
    """
    from llama_index.core.node_parser import SentenceSplitter

    def tokens(text: str) -> range:  # the library asks for a list and only takes its length
        return range(count_tokens(text))

    splitter = SentenceSplitter(
        chunk_size=max_tokens,
        chunk_overlap=0,
        tokenizer=tokens,
        chunking_tokenizer_fn=_sentences,
        paragraph_separator="\n\n",
    )
    return splitter.split_text


def to_node(chunk: Chunk) -> TextNode:
    """The chunk as a LlamaIndex node: its id, its text, and all else as metadata that goes into no prompt."""
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

    metadata = {
        "document_id": chunk.document_id,
        "document": chunk.document,
        "collection": chunk.collection,
        "page": chunk.page,
        "ordinal": chunk.ordinal,
        "kind": chunk.kind.value,
        "reader": chunk.reader.value,
        "confidence": chunk.confidence,
        "anchors": [
            {
                "document_id": a.document_id,
                "page": a.page,
                "boxes": [list(b) for b in a.boxes],
                "headings": a.headings,
                "times": [list(time) for time in a.times],
            }
            for a in chunk.anchors
        ],
        "corrected_by": list(chunk.corrected_by),
    }
    return TextNode(
        id_=chunk.id,
        text=chunk.text,
        metadata=metadata,
        excluded_embed_metadata_keys=list(metadata),
        excluded_llm_metadata_keys=list(metadata),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
    )


def to_chunk(node: TextNode) -> Chunk:
    """The chunk that ``to_node`` made the node of."""
    held = node.metadata
    return Chunk(
        id=node.node_id,
        document_id=held["document_id"],
        document=held["document"],
        collection=held["collection"],
        page=held["page"],
        ordinal=held["ordinal"],
        text=node.text,
        anchors=tuple(
            Anchor(
                a["document_id"],
                a["page"],
                tuple(Box(*box) for box in a["boxes"]),
                tuple(a["headings"]),
                tuple(TimeSpan(*time) for time in a.get("times", ())),
            )
            for a in held["anchors"]
        ),
        reader=Reader(held["reader"]),
        confidence=held["confidence"],
        kind=BlockKind(held["kind"]),
        corrected_by=tuple(held.get("corrected_by", ())),
    )


def retriever(index: ChunkIndex, embedder: Embedder, access: Access, limit: int = 12) -> BaseRetriever:
    """A LlamaIndex retriever that sees what ``access`` allows; for its postprocessors and evaluators."""
    from llama_index.core.base.base_retriever import BaseRetriever

    class ChunkRetriever(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes(index, embedder, access, query_bundle.query_str, limit)

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            import asyncio

            return await asyncio.to_thread(self._retrieve, query_bundle)

    return ChunkRetriever()


def _nodes(index: ChunkIndex, embedder: Embedder, access: Access, question: str, limit: int) -> list[NodeWithScore]:
    from llama_index.core.schema import NodeWithScore

    hits = index.search(SearchQuery(question, embedder.embed_query(question), access, limit))
    return [NodeWithScore(node=to_node(hit.chunk), score=hit.score) for hit in hits]


def _sentences(text: str) -> list[str]:
    """``text`` cut after its sentence ends; the pieces joined are the text."""
    cuts = [0, *(found.end() for found in _SENTENCE_END.finditer(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    return [piece for piece in pieces if piece]


def load() -> None:
    """Import the library now, so that the first long passage does not wait for it."""
    import llama_index.core.node_parser  # noqa: F401  # pyright: ignore[reportUnusedImport]
