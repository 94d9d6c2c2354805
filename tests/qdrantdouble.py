"""A test double of a Qdrant server: the few REST routes we use, over Qdrant Edge, the same engine. Tests only.

Every body is parsed with the strict models that qdrant-client generates from Qdrant's OpenAPI description, so a field
that no server knows fails here, and so is every answer: what the client gets is what a server may say.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from qdrant_client.http import models

from tests.qdrantedge import JSON, Collection

DONE = {"operation_id": 1, "status": "completed"}


class QdrantDouble:
    """Serve it with ``serving``. Collections lie in ``folder``. ``bodies`` keeps what was sent: method, path, JSON."""

    def __init__(self, folder: Path) -> None:
        self.collections: dict[str, Collection] = {}
        self.lock = threading.Lock()
        self.bodies: list[tuple[str, str, Any]] = []
        self.refuse_with: tuple[int, str] | None = None  # a status and a text, for every further request
        self._folder = folder

    def create(self, name: str, body: JSON) -> bool:
        assert name not in self.collections
        self.collections[name] = Collection(self._folder / name, body)
        return True

    def close(self) -> None:
        with self.lock:
            for collection in self.collections.values():
                collection.close()


def _on(act: Callable[[Collection, JSON], object]) -> Callable[[QdrantDouble, str, JSON], Any]:
    """A route that changes a collection."""

    def route(double: QdrantDouble, name: str, body: JSON) -> Any:
        act(double.collections[name], body)
        return DONE

    return route


# What is sent, what is answered, and who answers.
ROUTES: dict[tuple[str, str], tuple[Any, Any, Callable[[QdrantDouble, str, JSON], Any]]] = {
    ("GET", ""): (None, models.CollectionInfo, lambda double, name, _: double.collections[name].info()),
    ("GET", "/exists"): (
        None,
        models.CollectionExistence,
        lambda double, name, _: {"exists": name in double.collections},
    ),
    ("PUT", ""): (models.CreateCollection, bool, QdrantDouble.create),
    ("PUT", "/index"): (models.CreateFieldIndex, models.UpdateResult, _on(Collection.index)),
    ("PUT", "/points"): (models.PointsList, models.UpdateResult, _on(Collection.upsert)),
    ("POST", "/points/delete"): (models.FilterSelector, models.UpdateResult, _on(Collection.delete)),
    ("POST", "/points/batch"): (
        models.UpdateOperations,
        list[models.UpdateResult],
        lambda double, name, body: [_on(Collection.update)(double, name, one) for one in body["operations"]],
    ),
    ("POST", "/points/query"): (
        models.QueryRequest,
        models.QueryResponse,
        lambda double, name, body: double.collections[name].query(body),
    ),
    ("POST", "/points/query/batch"): (
        models.QueryRequestBatch,
        list[models.QueryResponse],
        lambda double, name, body: [double.collections[name].query(search) for search in body["searches"]],
    ),
    ("POST", "/points/scroll"): (
        models.ScrollRequest,
        models.ScrollResult,
        lambda double, name, body: double.collections[name].scroll(body),
    ),
    ("POST", "/points/count"): (
        models.CountRequest,
        models.CountResult,
        lambda double, name, body: {"count": double.collections[name].count(body)},
    ),
}


@contextmanager
def serving(double: QdrantDouble) -> Generator[str]:
    """Serve ``double`` on a free port of loopback; yields its URL."""

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
            asked, answered, route = ROUTES[self.command, match[2]]
            double.bodies.append((self.command, path, json.loads(sent) if sent else None))
            body = asked.model_validate_json(sent).model_dump(mode="json", exclude_none=True) if asked else {}
            with double.lock:
                result = route(double, match[1], body)
            self.reply(200, {"result": TypeAdapter(answered).validate_python(result), "status": "ok", "time": 0.0})

        def reply(self, status: int, body: Any) -> None:
            data = TypeAdapter(Any).dump_json(body)
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
        double.close()
