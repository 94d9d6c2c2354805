"""What the OpenAPI description promises is what the API does: schemathesis tries it with made-up requests."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from tests.assistant.webparts import CONTRACT, HERE, PASSWORDS, Web, build_web, files, settings_for

EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    folder = tmp_path_factory.mktemp("openapi")
    minutes = itertools.count(step=61).__next__  # else the made-up passwords soon have to wait
    web = build_web(settings_for(folder / "home", users=True), folder, minutes)

    async def fill() -> None:
        async with web.client("bea") as client:
            reply = await client.post("/api/documents", files=files(("a.txt", CONTRACT.encode())))
            assert reply.status_code == 202

    asyncio.run(fill())
    return web


@pytest.fixture(scope="module")
def described(web: Web) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/api/openapi.json", web.app, headers={"Host": "127.0.0.1:8000"})


OPERATIONS = [
    (method, path)
    for path, methods in {
        "/api/ask": ["POST"],
        "/api/collections": ["GET"],
        "/api/documents": ["GET", "POST"],
        "/api/documents/{document_id}": ["GET", "DELETE"],
        "/api/documents/{document_id}/file": ["GET"],
        "/api/documents/{document_id}/pages/{number}": ["GET"],
        "/api/documents/{document_id}/pages/{number}/image": ["GET"],
        "/api/documents/{document_id}/progress": ["GET"],
        "/api/documents/{document_id}/rename": ["POST"],
        "/api/documents/{document_id}/reread": ["POST"],
        "/api/jobs": ["GET"],
        "/api/jobs/{document_id}": ["GET"],
        "/api/jobs/{document_id}/cancel": ["POST"],
        "/api/jobs/{document_id}/retry": ["POST"],
        "/api/pause": ["POST"],
        "/api/resume": ["POST"],
        "/api/usage": ["GET"],
        "/healthz": ["GET"],
        "/readyz": ["GET"],
    }.items()
    for method in methods
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_the_api_is_as_described(described: schemathesis.BaseSchema, method: str, path: str) -> None:
    operation = described[path][method]

    @EXAMPLES
    @given(case=st.one_of(operation.as_strategy(), operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)))
    def holds(case: Case) -> None:
        case.call_and_validate(base_url=HERE, auth=("bea", PASSWORDS["bea"]))

    holds()


def test_nothing_is_hidden_and_nothing_asks_for_a_password_where_there_is_none(web: Web, tmp_path: Path) -> None:
    paths = web.app.openapi()["paths"]
    assert {(method.upper(), path) for path in paths for method in paths[path]} == set(OPERATIONS)
    assert all(operation["security"] for path in paths if path.startswith("/api") for operation in paths[path].values())
    local = build_web(settings_for(tmp_path / "home"), tmp_path).app.openapi()
    assert "securitySchemes" not in local["components"]
