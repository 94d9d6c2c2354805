"""What a Qdrant server is sent, and what its failures become. Bodies are checked by the double's strict models."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.core.domain import Access
from assistant.core.errors import DiskFull, EndpointBusy, EndpointDown, Misconfigured, StoreMismatch
from assistant.core.index import HybridIndex
from assistant.core.indexserver import ServerStore
from assistant.core.points import IndexSpec
from assistant.core.ports import SearchQuery
from assistant.core.settings import IndexSettings
from tests.core.indexing import ALL, chunk
from tests.qdrantdouble import QdrantDouble, serving

SPEC = IndexSpec("a model", 4)
VECTOR = [0.5, 0.5, 0.5, 0.5]


@pytest.fixture
def double(tmp_path: Path) -> QdrantDouble:
    return QdrantDouble(tmp_path)


@pytest.fixture
def url(double: QdrantDouble) -> Iterator[str]:
    with serving(double) as address:
        yield address


def connected(url: str, spec: IndexSpec = SPEC) -> HybridIndex:
    return HybridIndex(ServerStore.connect(IndexSettings(kind="server", url=url), spec), spec)


def test_the_collection_is_made_with_the_schema(double: QdrantDouble, url: str):
    connected(url).close()
    sent = {(method, path): body for method, path, body in double.bodies}
    created = sent["PUT", "/collections/perito"]
    assert created["vectors"] == {"dense": {"size": 4, "distance": "Cosine"}}
    assert created["sparse_vectors"] == {"bm25": {"modifier": "idf"}}
    assert created["hnsw_config"] == {"m": 16, "ef_construct": 100, "payload_m": 16}
    assert created["metadata"]["model"] == "a model"
    indexes = {body["field_name"]: body["field_schema"] for _, path, body in double.bodies if path.endswith("/index")}
    assert indexes["collection"] == {"type": "keyword", "is_tenant": True}
    assert indexes["document_id"]["type"] == "keyword"
    assert indexes["waiting"]["range"] is True


def test_a_search_is_filtered_in_both_halves_and_fused_by_the_server(double: QdrantDouble, url: str):
    index = connected(url)
    index.upsert([chunk("el contrato", collection="legal")], [VECTOR])
    access = Access("anna", frozenset({"legal", "hr"}))
    index.search(SearchQuery("contrato", VECTOR, access, limit=5, document_ids=frozenset({"lease"})))
    sent = next(body for _, path, body in double.bodies if path.endswith("/points/query"))
    assert sent["query"] == {"rrf": {"k": 2, "weights": [1.0, 0.5]}}
    assert sent["limit"] == 5
    assert [half["using"] for half in sent["prefetch"]] == ["dense", "bm25"]
    for half in sent["prefetch"]:
        assert half["filter"]["must"] == [
            {"key": "collection", "match": {"any": ["hr", "legal"]}},
            {"key": "document_id", "match": {"value": "lease"}},
        ]
    index.close()


def test_the_same_embedder_may_come_back_and_another_may_not(url: str):
    connected(url).close()
    connected(url).close()
    with pytest.raises(StoreMismatch, match="perito documents reread"):
        connected(url, IndexSpec("another", 4))


def test_a_server_that_is_not_there_is_down(tmp_path: Path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    with pytest.raises(EndpointDown, match="PERITO_INDEX__URL"):
        connected(f"http://127.0.0.1:{port}")


def test_a_server_that_goes_away_is_down_and_may_come_back(double: QdrantDouble):
    with serving(double) as address:
        index = connected(address)
        index.upsert([chunk("el contrato")], None)
    with pytest.raises(EndpointDown):
        index.search(SearchQuery("contrato", None, ALL))
    index.close()


@pytest.mark.parametrize(
    ("status", "said", "error"),
    [
        (401, "Must provide an API key", Misconfigured),
        (403, "Forbidden", Misconfigured),
        (429, "Rate limit", EndpointBusy),
        (503, "Service unavailable", EndpointBusy),
        (500, "Service internal error: No space left on device: WAL buffer size exceeds available disk", DiskFull),
        (400, "unknown variant `rrf`", Misconfigured),
        (404, "Not found: Collection `perito` doesn't exist!", Misconfigured),
    ],
)
def test_refusals_become_errors_with_advice(
    double: QdrantDouble, url: str, status: int, said: str, error: type[Exception]
):
    index = connected(url)
    double.refuse_with = status, said
    with pytest.raises(error) as caught:
        index.search(SearchQuery("contrato", VECTOR, ALL))
    assert "Traceback" not in str(caught.value)
    index.close()


@pytest.mark.parametrize("address", ["", "http://", "not an address"])
def test_an_address_that_is_none_is_named(address: str):
    with pytest.raises((Misconfigured, EndpointDown), match=r"PERITO_INDEX__URL|http://host:6333"):
        connected(address)


def test_a_key_goes_with_every_request(url: str, monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []

    def client(**how: object) -> object:
        seen.append(how)
        raise ValueError("enough")

    monkeypatch.setattr("assistant.core.indexserver.QdrantClient", client)
    with pytest.raises(Misconfigured):
        ServerStore.connect(
            IndexSettings(kind="server", url=url, api_key="s3cret"),  # pyright: ignore[reportArgumentType]
            SPEC,
        )
    assert seen == [{"url": url, "api_key": "s3cret", "timeout": 60, "check_compatibility": False}]
