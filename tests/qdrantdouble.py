"""A test double of a Qdrant server: the few REST routes we use, over qdrant-client's local mode. Tests only.

Every body is parsed with the strict models that qdrant-client generates from Qdrant's OpenAPI description, so a
field that no server knows fails here. Local mode searches exactly: it has no graphs and no payload indexes, and
ignores their parameters; and it answers a word search with points of score 0, which a server leaves out.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

Route = Callable[["QdrantDouble", str, Any], Any]


class QdrantDouble:
    """Serve it with ``serving``. ``bodies`` keeps what was sent, as (method, path, JSON)."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.lock = threading.Lock()
        self.bodies: list[tuple[str, str, Any]] = []
        self.refuse_with: tuple[int, str] | None = None  # a status and a text, for every further request

    def create(self, name: str, body: models.CreateCollection) -> bool:
        return self.client.create_collection(
            name,
            vectors_config=body.vectors,
            sparse_vectors_config=body.sparse_vectors,
            hnsw_config=body.hnsw_config,
            metadata=body.metadata,
        )

    def query(self, name: str, body: models.QueryRequest) -> models.QueryResponse:
        return self.client.query_points(
            name,
            query=body.query,
            using=body.using,
            prefetch=body.prefetch,
            query_filter=body.filter,
            limit=body.limit or 10,
            with_payload=body.with_payload or False,
            search_params=body.params,
        )

    def scroll(self, name: str, body: models.ScrollRequest) -> models.ScrollResult:
        points, following = self.client.scroll(
            name, scroll_filter=body.filter, limit=body.limit or 10, order_by=body.order_by, with_payload=True
        )
        return models.ScrollResult(points=points, next_page_offset=following)


def _routes() -> dict[tuple[str, str], tuple[Any, Route]]:
    done = models.UpdateResult(operation_id=1, status=models.UpdateStatus.COMPLETED)

    def upsert(double: QdrantDouble, name: str, body: models.PointsList) -> Any:
        double.client.upsert(name, body.points, update_filter=body.update_filter, update_mode=body.update_mode)
        return done

    def delete(double: QdrantDouble, name: str, body: models.FilterSelector) -> Any:
        double.client.delete(name, body)
        return done

    def index(double: QdrantDouble, name: str, body: models.CreateFieldIndex) -> Any:
        assert double.client.collection_exists(name)
        return done  # local mode has none

    return {
        ("GET", ""): (None, lambda double, name, _: double.client.get_collection(name)),
        ("GET", "/exists"): (
            None,
            lambda double, name, _: models.CollectionExistence(exists=double.client.collection_exists(name)),
        ),
        ("PUT", ""): (models.CreateCollection, QdrantDouble.create),
        ("PUT", "/index"): (models.CreateFieldIndex, index),
        ("PUT", "/points"): (models.PointsList, upsert),
        ("POST", "/points/batch"): (
            models.UpdateOperations,
            lambda double, name, body: double.client.batch_update_points(name, body.operations),
        ),
        ("POST", "/points/query"): (models.QueryRequest, QdrantDouble.query),
        ("POST", "/points/query/batch"): (
            models.QueryRequestBatch,
            lambda double, name, body: [double.query(name, search) for search in body.searches],
        ),
        ("POST", "/points/scroll"): (models.ScrollRequest, QdrantDouble.scroll),
        ("POST", "/points/delete"): (models.FilterSelector, delete),
        ("POST", "/points/count"): (
            models.CountRequest,
            lambda double, name, body: double.client.count(name, count_filter=body.filter, exact=True),
        ),
    }


@contextmanager
def serving(double: QdrantDouble) -> Iterator[str]:
    """Serve ``double`` on a free port of loopback; yields its URL."""
    routes = _routes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if double.refuse_with:
                status, text = double.refuse_with
                return self.reply(status, {"status": {"error": text}})
            match = re.fullmatch(r"/collections/([^/]+)(.*)", path)
            assert match, path
            model, route = routes[self.command, match[2]]
            double.bodies.append((self.command, path, json.loads(sent) if sent else None))
            with double.lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # local mode says that it ignores graphs and indexes
                body = model.model_validate_json(sent) if model else None
                result = TypeAdapter(Any).dump_python(route(double, match[1], body), mode="json")
            self.reply(200, {"result": result, "status": "ok", "time": 0.0})

        def reply(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

        do_GET = do_PUT = do_POST = answer  # noqa: N815 - the names that http.server looks for

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client that was killed is no error here
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
