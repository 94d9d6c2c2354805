"""The web application: gate, API and chat put together."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import Match, Mount
from starlette.types import Scope

from assistant.web import answers, asking, chathome, documents, health, jobs
from assistant.web.auth import Door
from assistant.web.gate import Gate
from assistant.web.library import routes as library
from assistant.web.services import Services
from assistant.web.uploads import clear_uploads

__all__ = ["Services", "create_api", "create_app"]

DESCRIPTION = "Documents in, cited answers out. Boxes are fractions of the page, origin at the top left."


class ChatMount(Mount):
    """Chainlit answers every path; what begins with /api is ours even where it is not found."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope.get("path", "").startswith("/api"):
            return Match.NONE, {}
        return super().matches(scope)


def create_app(services: Services) -> FastAPI:
    """API and chat over ``services``. Chainlit keeps its state in its modules: one chat a process."""
    app = create_api(services)
    chathome.prepare(services.settings, app.state.door)  # before Chainlit is imported
    from assistant.web.chat import build_chat  # late: it takes seconds

    chat = build_chat(services, app.state.door)
    app.state.closers.append(chat.aclose)
    app.include_router(chat.router)
    app.router.routes.append(ChatMount("/", app=chat.app))
    return app


def create_api(services: Services, clock: Callable[[], float] = time.monotonic) -> FastAPI:
    """The HTTP API alone; ``clock`` times what sign-in does after wrong passwords."""
    door = Door(services.settings, services.local_token, clock)
    app = FastAPI(
        title="Perito",
        version=version("perito"),
        description=DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load their scripts from the network
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.services = services
    app.state.door = door
    app.state.closers = []
    for routes in (health, documents, jobs, asking, library):
        app.include_router(routes.router)
    answers.add_handlers(app)
    _declare_sign_in(app, door)
    settings = services.settings
    app.add_middleware(Gate, door=door, origins=tuple(settings.server.origins), upload_mb=settings.limits.upload_mb)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    await asyncio.to_thread(clear_uploads, app.state.services.settings.home / "uploads")
    try:
        yield
    finally:
        for close in app.state.closers:
            await close()


def _declare_sign_in(app: FastAPI, door: Door) -> None:
    """Say in OpenAPI how to sign in, where anybody has to."""
    if not door.has_users:
        return
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        schemes = {
            "basic": {"type": "http", "scheme": "basic"},
            "session": {"type": "apiKey", "in": "cookie", "name": door.cookie},
        }
        schema.setdefault("components", {})["securitySchemes"] = schemes
        for path, methods in schema["paths"].items():
            for operation in methods.values() if path.startswith("/api") else ():
                operation["security"] = [{name: []} for name in schemes]
        return schema

    app.openapi = openapi
