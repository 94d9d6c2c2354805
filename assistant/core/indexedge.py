"""The embedded point store: Qdrant Edge, the engine of Qdrant in our process (`qdrant-edge-py`).

A write is in Edge's log when it returns and survives a crash of the process. One process owns the folder: it
holds ``index.json``, which says what the index was made with and which folder beside it is the shard. Up to some
20,000 chunks a search compares all vectors (a millisecond); then graphs are built on a copy (``edgegraphs``).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as qe

from assistant.core import points as schema
from assistant.core.edgegraphs import GraphBuilder
from assistant.core.errors import DiskFull, Misconfigured, StoreBusy, StoreMismatch
from assistant.core.points import Found, IndexSpec, Point, Question, Where
from assistant.core.settings import MEGABYTE

DESCRIPTION = "index.json"
# Edge writes into memory maps of files with holes. Where the disk has no room to fill one, nothing is raised: the
# kernel ends the process (SIGBUS). So there must be more room than opening or a write takes (measured: 23 MB).
ROOM = 64 * MEGABYTE
ROOM_TO_DELETE = 8 * MEGABYTE  # less, for deleting is how people make room


class EdgeStore:
    """A ``PointStore`` in a folder. Open it with ``open``."""

    def __init__(self, folder: Path, shard: qe.EdgeShard, spec: IndexSpec) -> None:
        self._folder = folder
        self._shard = shard  # replaced when a copy with graphs is ready; take it once for each operation
        self._spec = spec
        self._writing = threading.Lock()
        self._journal: list[qe.UpdateOperation] | None = None  # what the copy being made does not have yet
        self._builder = GraphBuilder(self._rebuild, shard.info().points_count, _without_graph(shard))

    @classmethod
    def open(cls, folder: Path, spec: IndexSpec) -> EdgeStore:
        """Open the store in ``folder``, or make it. StoreBusy, StoreMismatch, DiskFull."""
        with _translated(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _require_room(folder, ROOM)
            current = _current_shard(folder, spec)
            if (current / "segments").exists():
                shard = qe.EdgeShard.load(str(current))
            else:
                shutil.rmtree(current, ignore_errors=True)  # a first start that was cut off
                current.mkdir()
                shard = _create(current, spec.dimension)
            for other in folder.glob("shard-*"):  # copies that a crash left behind; only the owner gets here
                if other != current:
                    shutil.rmtree(other, ignore_errors=True)
            return cls(folder, shard, spec)

    def upsert(self, points: Sequence[Point]) -> None:
        """Write ``points``."""
        if points:
            self._update([qe.UpdateOperation.upsert_points([_edge_point(point) for point in points])])
            self._builder.wrote(len(points))

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
        self._builder.wrote(len(points))

    def set_payload(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Change some fields of stored points."""
        self._update([qe.UpdateOperation.set_payload([name], dict(fields)) for name, fields in changes.items()])

    def fuse(self, question: Question, where: Where, limit: int) -> list[Found]:
        """The best of both searches."""
        depth = max(schema.CANDIDATES, limit)
        acorn = qe.AcornSearchParams(enable=where.crosses_collections, max_selectivity=1.0)
        how = qe.SearchParams(hnsw_ef=schema.SEARCH_EF, acorn=acorn)
        fusion: Any = qe.Fusion.Rrf(k=schema.RRF_K, weights=question.weights)
        condition = _filter(where)
        request = qe.QueryRequest(
            limit=limit,
            prefetches=[qe.Prefetch(depth, query, filter=condition, params=how) for query in _queries(question)],
            query=fusion,
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
        count = self.count(where)
        self._update([qe.UpdateOperation.delete_points_by_filter(condition)], ROOM_TO_DELETE)
        self._builder.wrote(count)  # what is deleted takes room until the next copy

    def count(self, where: Where) -> int:
        """How many points, exactly."""
        with _translated():
            return self._shard.count(qe.CountRequest(exact=True, filter=_filter(where)))

    def build_graphs(self) -> None:
        """Build the graphs that are missing and wait for it; searches and writes go on meanwhile."""
        self._builder.build_now()

    def close(self) -> None:
        """Flush and let the folder go; a copy being made is given up."""
        self._builder.stop()
        with self._writing, _translated():
            self._shard.flush()
            self._shard.close()

    def _scroll(self, request: qe.ScrollRequest) -> list[Found]:
        if request.limit == 0:
            return []
        with _translated():
            records, _ = self._shard.scroll(request)
        return [Found(str(record.id), record.payload or {}) for record in records]

    def _update(self, operations: Sequence[qe.UpdateOperation], room: int = ROOM) -> None:
        with self._writing, _translated(self._folder):
            _require_room(self._folder, room)
            for operation in operations:
                self._shard.update(operation)
            if self._journal is not None:
                self._journal += operations

    def _rebuild(self, build: Callable[[Path], bool]) -> None:
        """Copy the shard, have ``build`` work on the copy, bring it up to date and put it in place."""
        copy = self._folder / f"shard-{uuid.uuid4().hex[:12]}"
        try:
            with self._writing:
                self._shard.flush()
                current = _current_shard(self._folder, self._spec)
                _require_room(self._folder, 2 * _size(current) + ROOM)  # the copy, and the graphs in it
                shutil.copytree(current, copy)
                self._journal = []
            if build(copy):
                self._adopt(copy)
        finally:
            self._journal = None
            if copy != _current_shard(self._folder, self._spec):
                shutil.rmtree(copy, ignore_errors=True)

    def _adopt(self, copy: Path) -> None:
        with self._writing:
            _require_room(self._folder, ROOM)
            shard = qe.EdgeShard.load(str(copy))
            for operation in self._journal or ():
                shard.update(operation)
            shard.flush()
            former = _current_shard(self._folder, self._spec)
            _write_description(self._folder, self._spec, copy.name)
            # The former shard is not closed but let go: a search in another thread may still be using it.
            self._shard = shard
        shutil.rmtree(former, ignore_errors=True)


def _create(folder: Path, dimension: int) -> qe.EdgeShard:
    """A new shard with the schema of ``index``."""
    shard = qe.EdgeShard.create(
        str(folder),
        qe.EdgeConfig(
            vectors={schema.DENSE: qe.EdgeVectorParams(dimension, qe.Distance.Cosine)},
            sparse_vectors={schema.SPARSE: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
            hnsw_config=qe.HnswIndexConfig(
                m=schema.HNSW_M,
                ef_construct=schema.HNSW_EF_CONSTRUCT,
                full_scan_threshold=10_000,
                payload_m=schema.TENANT_M,
            ),
        ),
    )
    indexes: dict[str, Any] = {schema.TENANT: qe.KeywordIndexParams(is_tenant=True)}
    indexes |= {name: qe.KeywordIndexParams(enable_hnsw=False) for name in schema.KEYWORDS}
    indexes |= {name: qe.IntegerIndexParams(lookup=True, range=True, enable_hnsw=False) for name in schema.INTEGERS}
    for name, params in indexes.items():
        shard.update(qe.UpdateOperation.create_field_index(name, params))
    shard.flush()
    return shard


def _current_shard(folder: Path, spec: IndexSpec) -> Path:
    """The shard's folder, named by ``index.json``, which is written first where there is none. StoreMismatch."""
    file = folder / DESCRIPTION
    if not file.exists():
        _write_description(folder, spec, "shard-0")
    try:
        described: dict[str, Any] = json.loads(file.read_text("utf-8"))
        name = str(described.pop("shard"))
    except (ValueError, KeyError, AttributeError) as error:
        raise StoreMismatch(
            f"The index in {folder} does not say what it was made with ({error})",
            "Move the folder away and read the documents again with `perito documents reread`",
        ) from None
    spec.check(described, f"The index in {folder}")
    return folder / name


def _require_room(folder: Path, needed: int) -> None:
    """DiskFull unless so many bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(
            f"The index in {folder} needs {needed // MEGABYTE} MB of free disk, and {free // MEGABYTE} MB are left"
        )


def _size(folder: Path) -> int:
    """Bytes of all files, holes counted: copies have none."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _write_description(folder: Path, spec: IndexSpec, shard: str) -> None:
    """Whole or not at all: it is written beside and moved into place."""
    part = folder / f"{DESCRIPTION}.part"
    with part.open("w", encoding="utf-8") as file:
        json.dump(spec.as_metadata() | {"shard": shard}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / DESCRIPTION)


def _without_graph(shard: qe.EdgeShard) -> int:
    """How many points are searched by comparing all. Every point has a sparse vector, which counts as indexed."""
    info = shard.info()
    return max(0, info.points_count - max(0, info.indexed_vectors_count - info.points_count))


def _edge_point(point: Point) -> qe.Point:
    vectors: dict[str, Any] = {schema.SPARSE: qe.SparseVector(*point.sparse)}
    if point.dense is not None:
        vectors[schema.DENSE] = list(point.dense)
    return qe.Point(point.id, vectors, point.payload)


def _queries(question: Question) -> Iterator[qe.Query]:
    yield from (query for query in (_dense_query(question), _sparse_query(question)) if query is not None)


def _dense_query(question: Question) -> qe.Query | None:
    if question.dense is None:
        return None
    return qe.Query.Nearest(list(question.dense), using=schema.DENSE)


def _sparse_query(question: Question) -> qe.Query | None:
    return None if question.sparse is None else qe.Query.Nearest(qe.SparseVector(*question.sparse), using=schema.SPARSE)


def _filter(where: Where) -> qe.Filter | None:
    must: list[Any] = []
    if where.collections is not None:
        must.append(_any_of(schema.TENANT, where.collections))
    if where.document_ids:
        must.append(_any_of("document_id", where.document_ids))
    if where.page is not None:
        must.append(_equals("page", where.page))
    if where.ids is not None:
        must.append(qe.HasIdCondition(set(where.ids)))
    if where.embedded:
        must.append(qe.HasVectorCondition(schema.DENSE))
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
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(folder)
    return _unusable(folder, f"{error.filename or folder}: {error.strerror or error}")


def _known(message: str, folder: Path | None) -> Exception | None:
    if "WouldBlock" in message:
        return StoreBusy(
            f"Another process has the index in {folder} open",
            "Stop it, or use the server that runs on it; a Qdrant server (PERITO_INDEX__KIND=server) takes many",
        )
    if "not initialized" in message:
        return StoreBusy("The index is closed", "Start Perito again")
    if "No space left" in message or "os error 28" in message:
        return _full(folder)
    if "os error" in message:
        return _unusable(folder, message)
    return None


def _full(folder: Path | None) -> DiskFull:
    return DiskFull(f"The index{_in(folder)} could not be written: the disk is full")


def _unusable(folder: Path | None, reason: str) -> Misconfigured:
    return Misconfigured(f"The index{_in(folder)} cannot be used ({reason})", "Let Perito read and write its folder")


def _in(folder: Path | None) -> str:
    return f" in {folder}" if folder else ""


def build_graphs(folder: Path) -> None:
    """Build the graphs of the shard in ``folder`` and drop what is deleted; run in a process by ``edgegraphs``."""
    if hasattr(os, "nice"):
        os.nice(10)
    if sys.platform == "linux":  # end with the process that asked for it, even when that one is killed
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    shard = qe.EdgeShard.load(str(folder))
    shard.optimize()
    shard.flush()  # removes the segments that were replaced
    shard.close()


if __name__ == "__main__":
    build_graphs(Path(sys.argv[1]))
