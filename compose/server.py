"""`perito serve`: the web application over everything in one process, and the note that lets commands find it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import psutil

from assistant.core.errors import Misconfigured
from assistant.core.settings import Settings
from compose.standalone import Perito, open_perito

if TYPE_CHECKING:
    from assistant.web.services import Services

log = logging.getLogger(__name__)

NOTE = "server.json"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """Where a server of this home listens. ``token`` is the local command line's pass."""

    pid: int
    started: float  # of the process: a pid alone may have been given to another program
    url: str
    token: str


async def serve(settings: Settings) -> None:
    """Run until stopped. Misconfigured when the address is taken or needs users that are not there."""
    import uvicorn

    from assistant.web.app import create_app
    from assistant.web.auth import check_binding

    check_binding(settings)
    with contextlib.closing(_bind(settings.server.host, settings.server.port)) as listener:
        token = secrets.token_urlsafe(32)
        async with open_perito(settings) as perito:
            app = create_app(_services(perito, token))
            config = uvicorn.Config(
                app, log_config=None, access_log=False, timeout_graceful_shutdown=5, server_header=False
            )

            class Server(uvicorn.Server):
                async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                    await super().startup(sockets)  # the application's own startup is complete before that
                    if self.started:
                        log.info("Perito is ready on http://%s:%d", _shown(settings.server.host), settings.server.port)

            server = Server(config)
            warming = asyncio.create_task(_warm(perito))
            with _noted(settings, token):
                _outlive_sigterm()
                await server.serve(sockets=[listener])
            await warming


def _outlive_sigterm() -> None:
    """At SIGTERM, Uvicorn ends in order and then raises it again, which would kill us before the stores are closed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _go_on)


def _go_on(_signum: int, _frame: FrameType | None) -> None: ...


async def _warm(perito: Perito) -> None:
    """Spare the first question the wait; what goes wrong here, the first question will tell."""
    try:
        await asyncio.to_thread(perito.assistant.weigher.warm)
    except Exception as error:  # e.g. an embedding endpoint that is not up yet
        log.warning("the first question will wait: %s", error)


def find_server(home: Path) -> RunningServer | None:
    """The server that runs over ``home``, if one does."""
    with contextlib.suppress(OSError, ValueError, TypeError, psutil.Error):
        server = RunningServer(**json.loads((home / NOTE).read_text("utf-8")))
        if abs(psutil.Process(server.pid).create_time() - server.started) < 2:
            return server
    return None


def _services(perito: Perito, token: str) -> Services:
    from assistant.web.services import Services

    return Services(
        settings=perito.settings,
        assistant=perito.assistant,
        ingestion=perito.worker,
        queue=perito.worker,
        catalogue=perito.catalogue,
        page_images=perito.page_images,
        blobs=perito.blobs,
        index=perito.index,
        local_token=token,
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        advice = "Stop what listens there, or choose another with --port"
        raise Misconfigured(f"Cannot listen on {host}:{port}: {error.strerror}", advice) from None
    return listener


@contextlib.contextmanager
def _noted(settings: Settings, token: str) -> Generator[None]:
    """Leave a note for the command line, readable by its owner only, while the server runs."""
    note = settings.home / NOTE
    me = psutil.Process(os.getpid())
    url = f"http://{_shown(settings.server.host)}:{settings.server.port}"
    text = json.dumps(asdict(RunningServer(me.pid, me.create_time(), url, token)))
    fresh = note.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    fresh.replace(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def run(settings: Settings) -> None:
    """``serve`` in a loop of its own; Ctrl-C ends it quietly."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(serve(settings))
