"""One collection of Qdrant's double: Qdrant Edge, the engine of a Qdrant server, behind the JSON of its REST API.

Only what Perito sends is translated. Anything else fails loudly, as KeyError, TypeError or AssertionError.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import qdrant_edge as qe

JSON = dict[str, Any]

FULL_SCAN_THRESHOLD = 10_000  # a server's default, in kilobytes


class Collection:
    """A shard in ``folder``, which is made. Bodies are those that the REST API describes, without nulls."""

    def __init__(self, folder: Path, asked: JSON) -> None:
        self._asked = asked
        self._shard = qe.EdgeShard.create(
            str(folder),
            qe.EdgeConfig(
                vectors={name: _dense_params(**params) for name, params in asked["vectors"].items()},
                sparse_vectors={name: _sparse_params(**params) for name, params in asked["sparse_vectors"].items()},
                hnsw_config=qe.HnswIndexConfig(full_scan_threshold=FULL_SCAN_THRESHOLD, **asked["hnsw_config"]),
                wal_enabled=False,  # nobody opens it a second time
            ),
        )

    def info(self) -> JSON:
        """``CollectionInfo``, with a server's defaults for what was not asked for."""
        optimizer = {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        }
        config = {
            "params": {name: self._asked[name] for name in ("vectors", "sparse_vectors")},
            "hnsw_config": {"full_scan_threshold": FULL_SCAN_THRESHOLD} | self._asked["hnsw_config"],
            "optimizer_config": optimizer,
            "metadata": self._asked.get("metadata"),
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "points_count": self.count({}),
            "config": config,
            "payload_schema": {},
        }

    def index(self, body: JSON) -> None:
        params: JSON = dict(body["field_schema"])
        made = {"keyword": qe.KeywordIndexParams, "integer": qe.IntegerIndexParams}[params.pop("type")](**params)
        self._shard.update(qe.UpdateOperation.create_field_index(body["field_name"], made))

    def upsert(self, body: JSON) -> None:
        mode = {None: None, "update_only": qe.UpdateMode.UpdateOnly}[body.get("update_mode")]
        points = [qe.Point(point["id"], _vectors(point["vector"]), point["payload"]) for point in body["points"]]
        self._shard.update(qe.UpdateOperation.upsert_points(points, _filter(body.get("update_filter")), mode))

    def update(self, operation: JSON) -> None:
        ((name, body),) = operation.items()
        {"upsert": self.upsert, "set_payload": self._set_payload}[name](body)

    def delete(self, body: JSON) -> None:
        condition = _filter(body["filter"])
        assert condition is not None
        self._shard.update(qe.UpdateOperation.delete_points_by_filter(condition))

    def query(self, body: JSON) -> JSON:
        request = qe.QueryRequest(prefetches=[_prefetch(**one) for one in body.get("prefetch", ())], **_search(**body))
        found = self._shard.query(request)
        points = [{"id": str(it.id), "version": 0, "score": it.score, "payload": it.payload} for it in found]
        return {"points": points}

    def scroll(self, body: JSON) -> JSON:
        order = body.pop("order_by", None)
        request = qe.ScrollRequest(
            order_by=qe.OrderBy(**order) if order else None,
            filter=_filter(body.pop("filter", None)),
            **body,
        )
        records, following = self._shard.scroll(request)
        points = [{"id": str(record.id), "payload": record.payload} for record in records]
        return {"points": points, "next_page_offset": None if following is None else str(following)}

    def count(self, body: JSON) -> int:
        return self._shard.count(qe.CountRequest(exact=True, filter=_filter(body.get("filter"))))

    def close(self) -> None:
        self._shard.close()

    def _set_payload(self, body: JSON) -> None:
        self._shard.update(qe.UpdateOperation.set_payload(body["points"], body["payload"]))


def _dense_params(size: int, distance: str) -> qe.EdgeVectorParams:
    return qe.EdgeVectorParams(size, {"Cosine": qe.Distance.Cosine}[distance])


def _sparse_params(modifier: str) -> qe.EdgeSparseVectorParams:
    return qe.EdgeSparseVectorParams(modifier={"idf": qe.Modifier.Idf}[modifier])


def _vectors(named: JSON) -> JSON:
    return {name: qe.SparseVector(**it) if isinstance(it, dict) else it for name, it in named.items()}


def _prefetch(**body: Any) -> qe.Prefetch:
    return qe.Prefetch(**_search(**body))


def _search(limit: int, query: Any, using: str | None = None, **more: Any) -> JSON:
    """What a query and a prefetch have in common."""
    search: JSON = {"limit": limit, "query": _query(query, using), "filter": _filter(more.pop("filter", None))}
    if params := more.pop("params", None):
        search["params"] = qe.SearchParams(acorn=qe.AcornSearchParams(**params.pop("acorn")), **params)
    more.pop("prefetch", None)
    return search | more


def _query(asked: Any, using: str | None) -> Any:
    match asked:
        case {"rrf": fused}:
            return qe.Fusion.Rrf(**fused)
        case {"nearest": vector}:
            return _query(vector, using)
        case {"indices": _, "values": _}:
            return qe.Query.Nearest(qe.SparseVector(**asked), using=using)
        case list():
            return qe.Query.Nearest(asked, using=using)
        case _:
            raise AssertionError(asked)


def _filter(asked: JSON | None) -> qe.Filter | None:
    if not asked:
        return None
    conditions: JSON = {name: [_condition(**one) for one in several] for name, several in asked.items()}
    return qe.Filter(**conditions)


def _condition(**asked: Any) -> Any:
    match asked:
        case {"key": key, "match": {"value": value}}:
            return qe.FieldCondition(key, match=qe.MatchValue(value))
        case {"key": key, "match": {"any": values}}:
            return qe.FieldCondition(key, match=qe.MatchAny(values))
        case {"has_id": ids}:
            return qe.HasIdCondition(set(ids))
        case {"has_vector": name}:
            return qe.HasVectorCondition(name)
        case _:
            raise AssertionError(asked)
