"""The gate in front of everything: what no route should ever see is turned away here.

Without users, the ``Host`` header must name this machine (or a web page could rebind its name to 127.0.0.1
and read everything). Requests that change something, and web sockets, must come from our own pages. A
session that has ended is taken off the request, so that Chainlit's routes refuse it too. The local user's
session begins with the first page, without a detour over the sign-in form. Responses get the headers that
keep a browser from loading anything from elsewhere.
"""

from __future__ import annotations

import http.cookies
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assistant.core.errors import AccessDenied, NotFound, PeritoError, SignInNeeded, TooLarge
from assistant.core.settings import MEGABYTE
from assistant.core.shapes import ErrorDetail, ErrorShape, dump
from assistant.web.auth import LOCAL_USER, Door, is_loopback

REFUSALS = {"not_found": 404, "too_large": 413}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Chainlit serves these whether or not they are switched on; Perito has no use for any of them.
CLOSED_PATHS = (
    *("/project/share/", "/project/thread/share", "/share/", "/mcp", "/copilot/", "/auth/oauth/", "/auth/jwt"),
    *("/docs", "/redoc", "/openapi.json"),  # of Chainlit's own API, with scripts from the network
)
BODY_MEGABYTES = 32  # a question with a long conversation before it; bodies are read before anybody is asked who he is
LOCAL_SESSION_SECONDS = 14 * 24 * 3600
POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "style-src 'self' 'unsafe-inline'",
        # Chainlit compiles its custom elements in the browser, hence eval; scripts come from us alone.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "connect-src 'self' ws: wss:",
        "font-src 'self' data:",
        "frame-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
SAFETY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}


def error_response(error: PeritoError, status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    """Any error in the one shape all interfaces share."""
    shape = ErrorShape(error=ErrorDetail(code=error.code, message=error.message, advice=error.advice))
    return JSONResponse(dump(shape), status, headers)


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, door: Door, origins: tuple[str, ...] = (), upload_mb: int = 500) -> None:
        self._app = app
        self._door = door
        # By path, where it is not BODY_MEGABYTES. The API's own uploads are measured file by file on their way.
        self._most = {"/api/documents": float("inf"), "/project/file": upload_mb * MEGABYTE + MEGABYTE}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            living = self._without_dead_session(scope)
            bounded = _bounded(receive, self._most_of(scope["path"]))
            await self._app(living, bounded, _guarded(scope, send, self._local_session(living)))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})
        else:
            await error_response(refusal, REFUSALS.get(refusal.code, 403))(scope, receive, _guarded(scope, send))

    def _refusal(self, scope: Scope, headers: Headers) -> PeritoError | None:
        host = headers.get("host", "")
        if not self._door.has_users and not is_loopback(_name_of(host)):
            return AccessDenied(
                f"Perito is open to this machine only, and {_name_of(host) or 'a nameless host'} is not its name",
                "Use http://127.0.0.1 or http://localhost, or configure auth.users",
            )
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if changes and not self._is_own_page(headers, host):
            return AccessDenied(
                "The request comes from another web page", "Use Perito's own page, or name the page in server.origins"
            )
        if scope["path"].startswith(CLOSED_PATHS) or "\0" in scope["path"]:  # which no file's name may hold
            return NotFound(f"There is nothing at {scope['path']}")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self._most_of(scope["path"]):
            return _too_large(self._most_of(scope["path"]))
        return None

    def _most_of(self, path: str) -> float:
        """Bytes of a body that are taken in at ``path``."""
        return self._most.get(path, BODY_MEGABYTES * MEGABYTE)

    def _is_own_page(self, headers: Headers, host: str) -> bool:
        origin = headers.get("origin")
        if origin is None:  # no browser, or one that would say "cross-site" where it matters
            return headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if origin.lower().rstrip("/") in self._origins:
            return True
        parts = urlsplit(origin)
        return bool(parts.netloc) and _with_port(parts.netloc, parts.scheme) == _with_port(host, parts.scheme)

    def _local_session(self, scope: Scope) -> str:
        """The cookie that lets the local user in, where the request brings none; "" otherwise."""
        if self._door.has_users or self._door.cookie in Headers(scope=scope).get("cookie", ""):
            return ""
        token = self._door.open_session(LOCAL_USER, LOCAL_SESSION_SECONDS)
        return f"{self._door.cookie}={token}; HttpOnly; Max-Age={LOCAL_SESSION_SECONDS}; Path=/; SameSite=lax"

    def _without_dead_session(self, scope: Scope) -> Scope:
        """The scope, less a session cookie or session token that is not valid any more."""
        headers = [
            (name, _living_cookies(value, self._door) if name == b"cookie" else value)
            for name, value in scope["headers"]
            if not (name == b"authorization" and self._is_dead_token(value.decode("latin-1"), scope["path"]))
        ]
        return {**scope, "headers": [(name, value) for name, value in headers if value or name != b"cookie"]}

    def _is_dead_token(self, authorization: str, path: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or path.startswith("/api"):  # the API judges tokens itself
            return False
        return not _is_living(token.strip(), self._door)


def _bounded(receive: Receive, most: float) -> Receive:
    """``receive`` for bodies that do not say how long they are. TooLarge."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > most:
                raise _too_large(most)
        return message

    return bounded


def _too_large(most: float) -> TooLarge:
    return TooLarge(
        f"The request is larger than {most / MEGABYTE:.0f} MB, the most accepted there", "Send less at once"
    )


def _is_living(token: str, door: Door) -> bool:
    try:
        door.access_of(door.session_name(token))
    except SignInNeeded:
        return False
    return True


def _living_cookies(header: bytes, door: Door) -> bytes:
    if door.cookie.encode() not in header:
        return header
    kept = [
        part
        for part in header.decode("latin-1").split(";")
        if not part.strip().startswith(door.cookie) or _is_living(_cookie_value(part), door)
    ]
    return ";".join(kept).strip().encode("latin-1")


def _cookie_value(part: str) -> str:
    return http.cookies.SimpleCookie().value_decode(part.partition("=")[2].strip())[0]


def _name_of(host: str) -> str:
    """The host without its port; ``[::1]:8000`` gives ``[::1]``. What is no host at all comes back whole."""
    parts = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?", host)
    return parts[1] if parts else host


def _with_port(netloc: str, scheme: str) -> str:
    name = _name_of(netloc)
    port = netloc[len(name) :].lstrip(":") or ("443" if scheme == "https" else "80")
    return f"{name.lower()}:{port}"


def _guarded(scope: Scope, send: Send, session: str = "") -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SAFETY_HEADERS.items():
                headers.setdefault(name, value)
            if session and headers.get("content-type", "").startswith("text/html"):
                headers.append("set-cookie", session)
            if scope.get("scheme") == "https":
                message["headers"] = [_secure(header) for header in message["headers"]]
        await send(message)

    return guarded


def _secure(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    name, value = header
    if name.lower() == b"set-cookie" and b"secure" not in value.lower():
        return name, value + b"; Secure"
    return header
