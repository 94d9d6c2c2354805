"""The embedded point store: Qdrant Edge, the engine of Qdrant in our process (`qdrant-edge-py`).

Edge has no background optimiser, so we call it: HNSW graphs are built in a thread of ours after enough new
points, while searches and writes go on. A write is in Edge's log when it returns and survives a crash of the
process. One process owns the folder.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from assistant.core.errors import DiskFull, StoreBusy, StoreMismatch
from assistant.core.index import (
    CANDIDATES,
    DENSE,
    HNSW_EF_CONSTRUCT,
    HNSW_M,
    INTEGERS,
    KEYWORDS,
    RRF_K,
    SEARCH_EF,
    SPARSE,
    TENANT,
    TENANT_M,
    Found,
    IndexSpec,
    Point,
    Question,
    Where,
)

log = logging.getLogger(__name__)

OPTIMISE_AFTER = 5_000  # points written; a plain scan over as many costs about a millisecond


class EdgeStore:
    """A ``PointStore`` in a folder. Open it with ``open``."""

    def __init__(self, shard: qe.EdgeShard) -> None:
        self._shard = shard
        self._writing = threading.Lock()
        self._optimiser = Optimiser(shard.optimize, shard.info().points_count)
        self._optimiser.wrote(max(0, shard.info().points_count - shard.info().indexed_vectors_count))

    @classmethod
    def open(cls, folder: Path, spec: IndexSpec) -> EdgeStore:
        """Open the store in ``folder``, or make it. StoreBusy, StoreMismatch, DiskFull."""
        described = folder / "index.json"
        shard = folder / "shard"
        with _translated(folder):
            shard.mkdir(parents=True, exist_ok=True)
            if (shard / "segments").exists():
                spec.check(_read_description(described), f"The index in {folder}")
                return cls(qe.EdgeShard.load(str(shard)))
            _write_description(described, spec)
            return cls(_create(shard, spec.dimension))

    def upsert(self, points: Sequence[Point]) -> None:
        """Write ``points``."""
        if points:
            self._update([qe.UpdateOperation.upsert_points([_edge_point(point) for point in points])])
            self._optimiser.wrote(len(points))

    def revise(self, points: Sequence[Point]) -> None:
        """Overwrite what is stored with the same digest."""
        self._update(
            [
                qe.UpdateOperation.upsert_points(
                    [_edge_point(point)],
                    condition=qe.Filter(must=[_equals("digest", point.payload["digest"])]),
                    update_mode=qe.UpdateMode.UpdateOnly,
                )
                for point in points
            ]
        )
        self._optimiser.wrote(len(points))

    def fuse(self, question: Question, where: Where, limit: int) -> list[Found]:
        """The best of both searches."""
        depth = max(CANDIDATES, limit)
        acorn = qe.AcornSearchParams(enable=where.crosses_collections, max_selectivity=1.0)
        how = qe.SearchParams(hnsw_ef=SEARCH_EF, acorn=acorn)
        condition = _filter(where)
        request = qe.QueryRequest(
            limit=limit,
            prefetches=[qe.Prefetch(depth, query, filter=condition, params=how) for query in _queries(question)],
            query=qe.Fusion.Rrf(k=RRF_K),  # pyright: ignore[reportArgumentType] - the stub forgets that it is one
            with_payload=True,
        )
        with _translated():
            found = self._shard.query(request)
        return [Found(str(point.id), point.payload or {}, point.score) for point in found]

    def scores(self, question: Question, ids: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
        """Cosine and BM25 of these points."""
        both: list[dict[str, float]] = []
        condition = _filter(Where(ids=frozenset(ids)))
        for query in (_dense_query(question), _sparse_query(question)):
            found: list[qe.ScoredPoint] = []
            if query is not None and ids:
                with _translated():
                    found = self._shard.query(qe.QueryRequest(limit=len(ids), query=query, filter=condition))
            both.append({str(point.id): point.score for point in found})
        return both[0], both[1]

    def fetch(self, where: Where, limit: int) -> list[Found]:
        """Stored points, in no particular order."""
        return self._scroll(qe.ScrollRequest(limit=limit, filter=_filter(where), with_payload=True))

    def waiting(self, limit: int) -> list[Found]:
        """Without a dense vector, longest waiting first."""
        return self._scroll(qe.ScrollRequest(limit=limit, order_by=qe.OrderBy("waiting"), with_payload=True))

    def delete(self, where: Where) -> None:
        """Remove what ``where`` means."""
        condition = _filter(where)
        if condition is None:
            raise ValueError("refusing to delete every point")
        self._update([qe.UpdateOperation.delete_points_by_filter(condition)])

    def count(self, where: Where) -> int:
        """How many points, exactly."""
        with _translated():
            return self._shard.count(qe.CountRequest(exact=True, filter=_filter(where)))

    def optimise(self) -> None:
        """Build what graphs are missing now, in this thread; searches go on meanwhile."""
        with _translated():
            self._shard.optimize()

    def close(self) -> None:
        """Flush and let the folder go; waits for a running optimisation."""
        self._optimiser.stop()
        with self._writing, _translated():
            self._shard.flush()
            self._shard.close()

    def _scroll(self, request: qe.ScrollRequest) -> list[Found]:
        if request.limit == 0:
            return []
        with _translated():
            records, _ = self._shard.scroll(request)
        return [Found(str(record.id), record.payload or {}) for record in records]

    def _update(self, operations: Sequence[qe.UpdateOperation]) -> None:
        with self._writing, _translated():
            for operation in operations:
                self._shard.update(operation)


class Optimiser:
    """Calls ``optimise`` in a thread of its own once a tenth of the points (5,000 at least) is new."""

    def __init__(self, optimise: Callable[[], Any], points: int) -> None:
        self._optimise = optimise
        self._points = points
        self._new = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def wrote(self, count: int) -> None:
        """``count`` more points were written; returns at once."""
        with self._lock:
            self._new += count
            if self._new < max(OPTIMISE_AFTER, self._points // 10) or self._thread is not None:
                return
            self._points += self._new
            self._new = 0
            self._thread = threading.Thread(target=self._run, name="index-optimiser", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Start no other and wait for the running one."""
        with self._lock:
            self._new, self._points = 0, 1 << 60
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        try:
            self._optimise()
        except Exception as error:  # the index works without, only slower; the next write tries again
            log.warning("the index could not be optimised: %s", error)
        finally:
            with self._lock:
                self._thread = None


def _create(folder: Path, dimension: int) -> qe.EdgeShard:
    """A new shard with the schema of ``index``."""
    shard = qe.EdgeShard.create(
        str(folder),
        qe.EdgeConfig(
            vectors={DENSE: qe.EdgeVectorParams(dimension, qe.Distance.Cosine)},
            sparse_vectors={SPARSE: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
            hnsw_config=qe.HnswIndexConfig(
                m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCT, full_scan_threshold=10_000, payload_m=TENANT_M
            ),
        ),
    )
    indexes: dict[str, Any] = {TENANT: qe.KeywordIndexParams(is_tenant=True)}
    indexes |= {name: qe.KeywordIndexParams(enable_hnsw=False) for name in KEYWORDS}
    indexes |= {name: qe.IntegerIndexParams(lookup=True, range=True, enable_hnsw=False) for name in INTEGERS}
    for name, params in indexes.items():
        shard.update(qe.UpdateOperation.create_field_index(name, params))
    shard.flush()
    return shard


def _read_description(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StoreMismatch(
            f"The index in {file.parent} does not say what it was made with ({error})",
            "Move the folder away and read the documents again with `perito documents reread`",
        ) from None


def _write_description(file: Path, spec: IndexSpec) -> None:
    """First the description, then the shard: a crash in between leaves an empty folder, not a riddle."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(spec.as_metadata(), indent=1), "utf-8")
    part.replace(file)


def _edge_point(point: Point) -> qe.Point:
    vectors: dict[str, Any] = {SPARSE: qe.SparseVector(*point.sparse)}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    return qe.Point(point.id, vectors, point.payload)


def _queries(question: Question) -> Iterator[qe.Query]:
    yield from (query for query in (_dense_query(question), _sparse_query(question)) if query is not None)


def _dense_query(question: Question) -> qe.Query | None:
    if question.dense is None:
        return None
    return qe.Query.Nearest(list(question.dense), using=DENSE)


def _sparse_query(question: Question) -> qe.Query | None:
    return None if question.sparse is None else qe.Query.Nearest(qe.SparseVector(*question.sparse), using=SPARSE)


def _filter(where: Where) -> qe.Filter | None:
    must: list[Any] = []
    if where.collections is not None:
        must.append(_any_of(TENANT, where.collections))
    if where.document_ids:
        must.append(_any_of("document_id", where.document_ids))
    if where.page is not None:
        must.append(_equals("page", where.page))
    if where.ids is not None:
        must.append(qe.HasIdCondition(set(where.ids)))
    if where.embedded:
        must.append(qe.HasVectorCondition(DENSE))
    must_not: list[Any] = [qe.HasIdCondition(set(where.except_ids))] if where.except_ids else []
    return qe.Filter(must=must, must_not=must_not) if must or must_not else None


def _equals(key: str, value: str | int) -> qe.FieldCondition:
    return qe.FieldCondition(key, match=qe.MatchValue(value))


def _any_of(key: str, values: frozenset[str]) -> qe.FieldCondition:
    if len(values) == 1:
        return _equals(key, next(iter(values)))
    return qe.FieldCondition(key, match=qe.MatchAny(sorted(values)))


@contextmanager
def _translated(folder: Path | None = None) -> Generator[None]:
    """Edge raises bare ``Exception``; the messages are all there is to tell one cause from another."""
    try:
        yield
    except OSError as error:
        raise _os_error(error, folder) from error
    except Exception as error:
        known = _known(str(error), folder)
        if known is None:
            raise
        raise known from error


def _os_error(error: OSError, folder: Path | None) -> Exception:
    return DiskFull(f"The index in {folder} could not be written: {error}") if error.errno == 28 else error


def _known(message: str, folder: Path | None) -> Exception | None:
    if "WouldBlock" in message:
        return StoreBusy(
            f"Another process has the index in {folder} open",
            "Stop it, or use the server that runs on it; a Qdrant server (PERITO_INDEX__KIND=server) takes many",
        )
    if "not initialized" in message:
        return StoreBusy("The index is closed", "Start Perito again")
    if "No space left" in message or "os error 28" in message:
        return DiskFull("The index could not be written: the disk is full")
    return None
