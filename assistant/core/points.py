"""What the index's two stores have in common: a point, its schema, how points are asked for, and the store's port.

``HybridIndex`` (``index``) stands on a ``PointStore``; ``indexedge`` and ``indexserver`` are two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assistant.core.bm25 import VERSION, SparseVector
from assistant.core.errors import StoreMismatch

DENSE = "dense"  # cosine
SPARSE = "bm25"  # with the IDF modifier
TENANT = "collection"  # the payload field every read is filtered by
KEYWORDS = ("document_id",)
INTEGERS = ("page", "waiting")

HNSW_M = 16
HNSW_EF_CONSTRUCT = 100
TENANT_M = 16  # links inside a collection: without them a filtered search finds half of what it should
# Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) as Qdrant weighs it: each search adds
# 1 / (rank / weight + k - 1). Words count half, so that a shared "de" or "the" does not outrank the meaning where
# question and document are in different languages. XQuAD, 403 questions over 320 passages, first hit right in the
# question's language / in the other: k = 60 95 % / 73 %, k = 2 95.8 / 79.4, k = 2 and words half 95.5 / 88.3.
RRF_K = 2
RRF_WEIGHTS = {DENSE: 1.0, SPARSE: 0.5}
CANDIDATES = 60  # of each kind that are fused
SEARCH_EF = 256  # candidates looked at in the graph: recall@10 .99 instead of .96 for 0.2 ms


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """What stored vectors depend on. A store keeps it and is opened only with the same."""

    model: str
    dimension: int
    terms: str = VERSION

    def as_metadata(self) -> dict[str, Any]:
        return {"model": self.model, "dimension": self.dimension, "terms": self.terms}

    def check(self, stored: Mapping[str, Any], where: str) -> None:
        """StoreMismatch when ``stored`` was written with another embedder or another cut into terms."""
        if stored == self.as_metadata():
            return
        made = f"{stored.get('model', 'an unknown model')} ({stored.get('dimension', '?')} dimensions)"
        if stored.get("model") == self.model and stored.get("dimension") == self.dimension:
            made = "another version of Perito's word search"
        raise StoreMismatch(
            f"{where} was made with {made}, but the settings ask for {self.model} ({self.dimension} dimensions)",
            "Set [embedding] back to that model, or move this index away and read the documents again "
            "with `perito documents reread`",
        )


@dataclass(frozen=True, slots=True)
class Where:
    """Which points are meant; all conditions hold together. ``collections`` None: any."""

    collections: frozenset[str] | None = None
    document_ids: frozenset[str] = field(default_factory=frozenset[str])  # empty: any
    page: int | None = None
    ids: frozenset[str] | None = None
    except_ids: frozenset[str] = field(default_factory=frozenset[str])
    embedded: bool = False  # only those with a dense vector

    @property
    def crosses_collections(self) -> bool:
        """Whether some but not one of the collections are meant. Their graphs are not linked to each other, so
        the way from one to the next must lead through chunks that are filtered out (ACORN, arXiv 2403.04871);
        without it 4 of 20 collections are found with a recall of .84 instead of .99."""
        return self.collections is not None and len(self.collections) > 1


@dataclass(frozen=True, slots=True)
class Point:
    """A chunk as it is stored."""

    id: str
    payload: dict[str, Any]
    sparse: SparseVector
    dense: Sequence[float] | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, as vectors; at least one of the two."""

    dense: Sequence[float] | None
    sparse: SparseVector | None

    @property
    def weights(self) -> list[float]:
        """Of its searches in the fusion, the dense one first."""
        asked = {DENSE: self.dense, SPARSE: self.sparse}
        return [RRF_WEIGHTS[name] for name, vector in asked.items() if vector is not None]


@dataclass(frozen=True, slots=True)
class Found:
    """A stored point, with its fused score where it was searched for."""

    id: str
    payload: Mapping[str, Any]
    score: float = 0.0


class PointStore(Protocol):
    """The few operations of Qdrant that we use. Thread-safe. What is written is durable when a call
    returns. Raises StoreBusy, EndpointDown, EndpointBusy, DiskFull."""

    def upsert(self, points: Sequence[Point]) -> None: ...

    def revise(self, points: Sequence[Point]) -> None:
        """Overwrite those points that are stored with the same ``digest``; add none."""
        ...

    def set_payload(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Change these fields of the payload of points, by id; their vectors and other fields stay."""
        ...

    def fuse(self, question: Question, where: Where, limit: int) -> list[Found]:
        """The best by reciprocal rank fusion of both searches, best first."""
        ...

    def scores(self, question: Question, ids: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
        """Cosine and BM25 scores of these points, by id, where they have one."""
        ...

    def fetch(self, where: Where, limit: int) -> list[Found]: ...

    def waiting(self, limit: int) -> list[Found]:
        """The points without a dense vector, longest waiting first."""
        ...

    def delete(self, where: Where) -> None: ...

    def count(self, where: Where) -> int: ...

    def close(self) -> None: ...
