"""The chunk index: one schema and one way of asking, over Qdrant Edge in this process or a Qdrant server.

A point is a chunk: its id is made of document, page and ordinal, so that publishing twice changes nothing.
It has a sparse vector for words from the start and a dense vector for meaning as soon as there is one; until
then its payload carries ``waiting``, the time it began to wait. ``HybridIndex`` implements the kernel's
``ChunkIndex`` over a ``PointStore`` (``points``); the two stores (``indexedge``, ``indexserver``) only translate.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from assistant.core.bm25 import Bm25Encoder
from assistant.core.domain import Access, Anchor, BlockKind, Box, Chunk, Hit, Reader, TimeSpan
from assistant.core.errors import BadRequest
from assistant.core.points import TENANT, Found, IndexSpec, Point, PointStore, Question, Where
from assistant.core.ports import ChunkIndex, Embedder, SearchQuery
from assistant.core.settings import IndexSettings

MOST_ON_A_PAGE = 10_000  # chunks
MOVED_AT_ONCE = 256  # chunks
NAMESPACE = uuid.UUID("6f0b8a0e-5c2d-5e6b-9d0c-8f5a1f7f3b11")


def chunk_id(document_id: str, page: int, ordinal: int) -> str:
    """The point id of a chunk: a UUID (version 5), the same on every machine and at every reading."""
    return str(uuid.uuid5(NAMESPACE, f"{document_id}/{page}/{ordinal}"))


class AnchorPayload(BaseModel):
    """An anchor as it is stored; its document is the point's."""

    page: int
    boxes: list[tuple[float, float, float, float]]
    headings: list[str]
    times: list[tuple[float, float]] = []

    def anchor(self, document_id: str) -> Anchor:
        """The anchor this was made of."""
        boxes = tuple(Box(*box) for box in self.boxes)
        times = tuple(TimeSpan(*time) for time in self.times)
        return Anchor(document_id, self.page, boxes, tuple(self.headings), times)


class ChunkPayload(BaseModel):
    """The payload of a point. ``digest`` tells two versions of a chunk apart."""

    model_config = ConfigDict(extra="ignore")  # a newer Perito may have written more

    collection: str
    document_id: str
    document: str
    page: int
    ordinal: int
    text: str
    kind: BlockKind
    reader: Reader
    confidence: float
    anchors: list[AnchorPayload]
    corrected_by: list[str] = []
    digest: str = ""
    waiting: int | None = None

    @classmethod
    def of(cls, chunk: Chunk) -> ChunkPayload:
        """The payload of ``chunk``, not waiting."""
        payload = cls(
            collection=chunk.collection,
            document_id=chunk.document_id,
            document=chunk.document,
            page=chunk.page,
            ordinal=chunk.ordinal,
            text=chunk.text,
            kind=chunk.kind,
            reader=chunk.reader,
            confidence=chunk.confidence,
            anchors=[
                AnchorPayload(
                    page=anchor.page,
                    boxes=list(anchor.boxes),
                    headings=list(anchor.headings),
                    times=list(anchor.times),
                )
                for anchor in chunk.anchors
            ],
            corrected_by=list(chunk.corrected_by),
        )
        return payload.model_copy(update={"digest": payload.fingerprint()})

    def fingerprint(self) -> str:
        """Of all a chunk says and shows, the same before and after it was stored (so of the values as they are
        here: 1 has become 1.0). Another recipe needs another ``VERSION``, since vectors are added by digest."""
        said = (self.text, self.document, self.collection, self.kind, self.reader, self.confidence)
        shown: list[Any] = [(anchor.page, anchor.boxes, anchor.headings) for anchor in self.anchors]
        shown += [anchor.times for anchor in self.anchors if anchor.times]
        shown += [self.corrected_by] if self.corrected_by else []
        return hashlib.blake2b(json.dumps([said, shown]).encode(), digest_size=12).hexdigest()

    def chunk(self, point_id: str) -> Chunk:
        """The chunk this was made of."""
        return Chunk(
            id=point_id,
            document_id=self.document_id,
            document=self.document,
            collection=self.collection,
            page=self.page,
            ordinal=self.ordinal,
            text=self.text,
            anchors=tuple(anchor.anchor(self.document_id) for anchor in self.anchors),
            reader=self.reader,
            confidence=self.confidence,
            kind=self.kind,
            corrected_by=tuple(self.corrected_by),
        )


class HybridIndex:
    """The kernel's ``ChunkIndex`` over a point store. Thread-safe."""

    def __init__(
        self, store: PointStore, spec: IndexSpec, clock: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        """``clock`` gives microseconds; it orders what waits for its vector."""
        self._store = store
        self._spec = spec
        self._clock = clock
        self._bm25 = Bm25Encoder()

    def upsert(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]] | None) -> None:
        """See ``ChunkIndex.upsert``. ValueError when the vectors do not fit."""
        if vectors is not None:
            self._store.upsert(self._embedded_points(chunks, vectors))
            return
        stored = self._digests([chunk.id for chunk in chunks])
        points = [self._waiting_point(chunk, number) for number, chunk in enumerate(chunks)]
        self._store.upsert([point for point in points if stored.get(point.id) != point.payload["digest"]])

    def add_vectors(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]) -> None:
        """See ``ChunkIndex.add_vectors``. ValueError when the vectors do not fit."""
        self._store.revise(self._embedded_points(chunks, vectors))

    def search(self, query: SearchQuery) -> list[Hit]:
        """See ``ChunkIndex.search``."""
        collections = query.access.collections
        question = self._question(query)
        if collections == frozenset() or (question.dense is None and question.sparse is None):
            return []
        found = self._store.fuse(question, Where(collections, query.document_ids), query.limit)
        dense, sparse = self._store.scores(question, [point.id for point in found])
        return [
            Hit(_chunk(point), point.score, dense=dense.get(point.id), sparse=sparse.get(point.id)) for point in found
        ]

    def neighbours(self, chunk: Chunk, access: Access, reach: int = 1) -> list[Chunk]:
        """See ``ChunkIndex.neighbours``. Looks over at most three pages without text."""
        if access.collections == frozenset() or reach < 1:
            return []
        ids = [*self._ids_before(chunk, reach), *self._ids_after(chunk, reach)]
        where = Where(access.collections, frozenset({chunk.document_id}), ids=frozenset(ids))
        near = sorted((_chunk(point) for point in self._store.fetch(where, len(ids))), key=_place)
        before = [other for other in near if _place(other) < _place(chunk)]
        after = [other for other in near if _place(other) > _place(chunk)]
        return [*before[-reach:], *after[:reach]]

    def unembedded(self, limit: int) -> list[Chunk]:
        """See ``ChunkIndex.unembedded``."""
        return [_chunk(point) for point in self._store.waiting(limit)]

    def delete(self, document_id: str, keep: frozenset[str] | None = None) -> None:
        """See ``ChunkIndex.delete``."""
        self._store.delete(Where(document_ids=frozenset({document_id}), except_ids=keep or frozenset()))

    def move(self, document_id: str, source: str, target: str) -> None:
        """See ``ChunkIndex.move``. Each chunk changes over at once, a batch at a time."""
        where = Where(frozenset({source}), frozenset({document_id}))
        while source != target and (found := self._store.fetch(where, MOVED_AT_ONCE)):
            moved = {point.id: ChunkPayload.of(replace(_chunk(point), collection=target)) for point in found}
            self._store.set_payload(
                {name: {TENANT: target, "digest": payload.digest} for name, payload in moved.items()}
            )

    def rename(self, document_id: str, name: str, pages: int) -> None:
        """See ``ChunkIndex.rename``. Each page's chunks change over at once."""
        for number in range(1, pages + 1):
            found = self._store.fetch(Where(document_ids=frozenset({document_id}), page=number), MOST_ON_A_PAGE)
            renamed = {point.id: ChunkPayload.of(replace(_chunk(point), document=name)) for point in found}
            if renamed:
                self._store.set_payload(
                    {point: {"document": name, "digest": payload.digest} for point, payload in renamed.items()}
                )

    def count(self, document_id: str, *, embedded: bool = False) -> int:
        """See ``ChunkIndex.count``."""
        return self._store.count(Where(document_ids=frozenset({document_id}), embedded=embedded))

    def close(self) -> None:
        """Let the store go; nothing can be asked afterwards."""
        self._store.close()

    def _question(self, query: SearchQuery) -> Question:
        sparse = self._bm25.query(query.text)
        dense = query.vector
        if dense is not None and len(dense) != self._spec.dimension:
            raise BadRequest(f"A question's vector has {self._spec.dimension} dimensions, not {len(dense)}")
        return Question(dense, sparse if sparse.indices else None)

    def _digests(self, ids: Sequence[str]) -> dict[str, str]:
        stored = self._store.fetch(Where(ids=frozenset(ids)), len(ids)) if ids else []
        return {point.id: str(point.payload.get("digest", "")) for point in stored}

    def _embedded_points(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]) -> list[Point]:
        for vector in vectors:
            if len(vector) != self._spec.dimension:  # a store would take it into its log and fail on it later
                raise ValueError(f"a vector of {len(vector)} dimensions in an index of {self._spec.dimension}")
        return [
            Point(chunk.id, _payload(chunk), self._bm25.document(chunk.searchable_text), vector)
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]

    def _waiting_point(self, chunk: Chunk, number: int) -> Point:
        payload = _payload(chunk) | {"waiting": self._clock() + number}
        return Point(chunk.id, payload, self._bm25.document(chunk.searchable_text), None)

    def _ids_before(self, chunk: Chunk, reach: int) -> Iterator[str]:
        first = max(0, chunk.ordinal - reach)
        yield from (chunk_id(chunk.document_id, chunk.page, ordinal) for ordinal in range(first, chunk.ordinal))
        for page in range(chunk.page - 1, max(0, chunk.page - 4), -1):
            if chunk.ordinal >= reach:
                return
            count = self._store.count(Where(document_ids=frozenset({chunk.document_id}), page=page))
            yield from (chunk_id(chunk.document_id, page, ordinal) for ordinal in range(max(0, count - reach), count))

    def _ids_after(self, chunk: Chunk, reach: int) -> Iterator[str]:
        for ordinal in range(chunk.ordinal + 1, chunk.ordinal + 1 + reach):
            yield chunk_id(chunk.document_id, chunk.page, ordinal)
        for page in range(chunk.page + 1, chunk.page + 4):
            yield from (chunk_id(chunk.document_id, page, ordinal) for ordinal in range(reach))


def open_index(settings: IndexSettings, folder: Path, embedder: Embedder) -> ChunkIndex:
    """The index that ``settings`` ask for; the embedded one lives in ``folder`` and belongs to one process.

    StoreBusy when another process has it open, StoreMismatch when it was made with another embedder,
    EndpointDown when the server does not answer, Misconfigured when its address or key is wrong.
    """
    spec = IndexSpec(embedder.model, embedder.dimension)
    if settings.kind == "server":
        from assistant.core.indexserver import ServerStore

        return HybridIndex(ServerStore.connect(settings, spec), spec)
    from assistant.core.indexedge import EdgeStore

    return HybridIndex(EdgeStore.open(folder, spec), spec)


def _payload(chunk: Chunk) -> dict[str, Any]:
    return ChunkPayload.of(chunk).model_dump(mode="json", exclude_none=True)


def _chunk(point: Found) -> Chunk:
    return ChunkPayload.model_validate(point.payload).chunk(point.id)


def _place(chunk: Chunk) -> tuple[int, int]:
    return chunk.page, chunk.ordinal
