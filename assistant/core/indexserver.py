"""The point store on a Qdrant server or cluster, through `qdrant-client`: same schema and same queries as Edge.

The server optimises by itself. Writes wait until they are applied. Everything used here is in the REST API of
Qdrant 1.17 (conditional updates, RRF with k, collection metadata).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from assistant.core import points as schema
from assistant.core.errors import DiskFull, EndpointBusy, EndpointDown, Misconfigured
from assistant.core.points import Found, IndexSpec, Point, Question, Where
from assistant.core.settings import IndexSettings

TIMEOUT = 60  # seconds


class ServerStore:
    """A ``PointStore`` in one collection of a server. Open it with ``connect``."""

    def __init__(self, client: QdrantClient, collection: str, where: str = "the Qdrant server") -> None:
        self._client = client
        self._collection = collection
        self._where = where

    @classmethod
    def connect(cls, settings: IndexSettings, spec: IndexSpec) -> ServerStore:
        """Connect and open the collection, or make it. EndpointDown, Misconfigured, StoreMismatch."""
        if not settings.url:
            raise Misconfigured(
                "index.kind is server, but index.url is empty", "Set PERITO_INDEX__URL, e.g. http://localhost:6333"
            )
        key = settings.api_key.get_secret_value() or None
        try:
            client = QdrantClient(url=settings.url, api_key=key, timeout=TIMEOUT, check_compatibility=False)
        except ValueError as error:
            raise Misconfigured(f"index.url {settings.url!r} is no address: {error}", "Give http://host:6333") from None
        store = cls(client, settings.collection, f"the Qdrant server on {settings.url}")
        store.prepare(spec)
        return store

    def prepare(self, spec: IndexSpec) -> None:
        """Make the collection with its indexes where there is none; otherwise StoreMismatch unless it fits."""
        with self._translated():
            if self._client.collection_exists(self._collection):
                stored = self._client.get_collection(self._collection).config.metadata or {}
                spec.check(stored, f"The collection {self._collection} on {self._where}")
            else:
                self._create(spec)
            self._create_field_indexes()  # repeating it is harmless, and heals an interrupted first start

    def upsert(self, points: Sequence[Point]) -> None:
        """Write ``points``."""
        if points:
            with self._translated():
                self._client.upsert(self._collection, [_point(point) for point in points], wait=True)

    def revise(self, points: Sequence[Point]) -> None:
        """Overwrite what is stored with the same digest."""
        operations = [
            models.UpsertOperation(
                upsert=models.PointsList(
                    points=[_point(point)],
                    update_filter=models.Filter(must=[_equals("digest", point.payload["digest"])]),
                    update_mode=models.UpdateMode.UPDATE_ONLY,
                )
            )
            for point in points
        ]
        if operations:
            with self._translated():
                self._client.batch_update_points(self._collection, operations, wait=True)

    def set_payload(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Change some fields of stored points."""
        operations = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload=dict(fields), points=[name]))
            for name, fields in changes.items()
        ]
        if operations:
            with self._translated():
                self._client.batch_update_points(self._collection, operations, wait=True)

    def fuse(self, question: Question, where: Where, limit: int) -> list[Found]:
        """The best of both searches."""
        depth = max(schema.CANDIDATES, limit)
        acorn = models.AcornSearchParams(enable=where.crosses_collections, max_selectivity=1.0)
        how = models.SearchParams(hnsw_ef=schema.SEARCH_EF, acorn=acorn)
        condition = _filter(where)
        prefetch = [
            models.Prefetch(query=query, using=name, limit=depth, filter=condition, params=how)
            for name, query in _queries(question).items()
        ]
        with self._translated():
            found = self._client.query_points(
                self._collection,
                prefetch=prefetch,
                query=models.RrfQuery(rrf=models.Rrf(k=schema.RRF_K, weights=question.weights)),
                limit=limit,
                with_payload=True,
            )
        return [Found(str(point.id), point.payload or {}, point.score) for point in found.points]

    def scores(self, question: Question, ids: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
        """Cosine and BM25 of these points."""
        queries = _queries(question) if ids else {}
        condition = _filter(Where(ids=frozenset(ids)))
        requests = [
            models.QueryRequest(query=query, using=name, filter=condition, limit=len(ids), with_payload=False)
            for name, query in queries.items()
        ]
        with self._translated():
            answers = self._client.query_batch_points(self._collection, requests) if requests else []
        scores = {
            name: {str(point.id): point.score for point in answer.points}
            for name, answer in zip(queries, answers, strict=True)
        }
        return scores.get(schema.DENSE, {}), scores.get(schema.SPARSE, {})

    def fetch(self, where: Where, limit: int) -> list[Found]:
        """Stored points, in no particular order."""
        return self._scroll(limit, scroll_filter=_filter(where))

    def waiting(self, limit: int) -> list[Found]:
        """Without a dense vector, longest waiting first."""
        return self._scroll(limit, order_by=models.OrderBy(key="waiting"))

    def delete(self, where: Where) -> None:
        """Remove what ``where`` means."""
        condition = _filter(where)
        if condition is None:
            raise ValueError("refusing to delete every point")
        with self._translated():
            self._client.delete(self._collection, models.FilterSelector(filter=condition), wait=True)

    def count(self, where: Where) -> int:
        """How many points, exactly."""
        with self._translated():
            return self._client.count(self._collection, count_filter=_filter(where), exact=True).count

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _scroll(self, limit: int, **how: Any) -> list[Found]:
        if limit == 0:
            return []
        with self._translated():
            records, _ = self._client.scroll(self._collection, limit=limit, with_payload=True, **how)
        return [Found(str(record.id), record.payload or {}) for record in records]

    def _create(self, spec: IndexSpec) -> None:
        try:
            self._client.create_collection(
                self._collection,
                vectors_config={
                    schema.DENSE: models.VectorParams(size=spec.dimension, distance=models.Distance.COSINE)
                },
                sparse_vectors_config={schema.SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                hnsw_config=models.HnswConfigDiff(
                    m=schema.HNSW_M, ef_construct=schema.HNSW_EF_CONSTRUCT, payload_m=schema.TENANT_M
                ),
                metadata=spec.as_metadata(),
            )
        except UnexpectedResponse as error:
            if error.status_code != 409:  # another process was quicker, with the same settings or `check` will tell
                raise

    def _create_field_indexes(self) -> None:
        keyword, integer = models.KeywordIndexType.KEYWORD, models.IntegerIndexType.INTEGER
        indexes: dict[str, Any] = {schema.TENANT: models.KeywordIndexParams(type=keyword, is_tenant=True)}
        indexes |= {name: models.KeywordIndexParams(type=keyword, enable_hnsw=False) for name in schema.KEYWORDS}
        indexes |= {
            name: models.IntegerIndexParams(type=integer, lookup=True, range=True, enable_hnsw=False)
            for name in schema.INTEGERS
        }
        for name, field in indexes.items():
            self._client.create_payload_index(self._collection, name, field_schema=field, wait=True)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except UnexpectedResponse as error:
            raise self._refusal(error) from error
        except (ResponseHandlingException, ApiException) as error:
            raise EndpointDown(
                f"{self._where[0].upper()}{self._where[1:]} did not answer: {error}",
                "Check that it is running and that PERITO_INDEX__URL is its address",
            ) from error

    def _refusal(self, error: UnexpectedResponse) -> Exception:
        said = error.content.decode("utf-8", "replace")[:300]
        if error.status_code in (401, 403):
            return Misconfigured(f"{self._where} refused the key", "Set PERITO_INDEX__API_KEY")
        if error.status_code == 507 or "No space left" in said or ("disk" in said.lower() and "full" in said.lower()):
            return DiskFull(f"{self._where} has no room left: {said}")
        if error.status_code == 404 and "doesn't exist" in said:
            return Misconfigured(
                f"The collection {self._collection} is not on {self._where} any more", "Restart Perito to make it again"
            )
        if error.status_code in (408, 429) or (error.status_code is not None and error.status_code >= 500):
            return EndpointBusy(f"{self._where} could not serve a request: {error.status_code} {said}")
        return Misconfigured(
            f"{self._where} refused a request: {error.status_code} {said}",
            "Perito needs Qdrant 1.17 or later; check the server's version",
        )


def _point(point: Point) -> models.PointStruct:
    vector: dict[str, Any] = {schema.SPARSE: _sparse(point.sparse)}
    if point.dense is not None:
        vector[schema.DENSE] = list(point.dense)
    return models.PointStruct(id=point.id, vector=vector, payload=point.payload)


def _sparse(vector: tuple[list[int], list[float]]) -> models.SparseVector:
    return models.SparseVector(indices=vector[0], values=vector[1])


def _queries(question: Question) -> dict[str, Any]:
    queries: dict[str, Any] = {}
    if question.dense is not None:
        queries[schema.DENSE] = list(question.dense)
    if question.sparse is not None:
        queries[schema.SPARSE] = _sparse(question.sparse)
    return queries


def _filter(where: Where) -> models.Filter | None:
    must: list[Any] = []
    if where.collections is not None:
        must.append(_any_of(schema.TENANT, where.collections))
    if where.document_ids:
        must.append(_any_of("document_id", where.document_ids))
    if where.page is not None:
        must.append(_equals("page", where.page))
    if where.ids is not None:
        must.append(models.HasIdCondition(has_id=sorted(where.ids)))
    if where.embedded:
        must.append(models.HasVectorCondition(has_vector=schema.DENSE))
    must_not: list[Any] = [models.HasIdCondition(has_id=sorted(where.except_ids))] if where.except_ids else []
    return models.Filter(must=must or None, must_not=must_not or None) if must or must_not else None


def _equals(key: str, value: str | int) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _any_of(key: str, values: frozenset[str]) -> models.FieldCondition:
    if len(values) == 1:
        return _equals(key, next(iter(values)))
    return models.FieldCondition(key=key, match=models.MatchAny(any=sorted(values)))
