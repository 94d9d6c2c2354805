"""How the library's pages are made: templates in the person's language, errors as pages, a strict policy."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Coroutine
from importlib.resources import files
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from assistant.core.errors import BadRequest, PeritoError, SignInNeeded
from assistant.web.answers import InternalError, status_of
from assistant.web.library import numbers
from assistant.web.library.texts import Language, preferred
from assistant.web.texts import explain

log = logging.getLogger(__name__)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'self'",
    )
)
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "Vary": "Accept-Language, Cookie"}
HTMX = "hx-request"


@functools.cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("assistant.web.library"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def language_of(request: Request) -> Language:
    return preferred(request.headers.get("accept-language", ""))


def render(template: str, language: Language, **values: Any) -> str:
    """``templates/template`` in ``language``: there, ``t`` says a text, ``number`` and ``size`` write what they get."""

    def number(value: float, digits: int = 0) -> str:
        return numbers.number(value, language.code, digits)

    def size(count: int) -> str:
        return numbers.size(count, language.code)

    said = {"t": language, "language": language.code, "number": number, "size": size, "moment": numbers.moment}
    said |= {"told": language.told, "tongue": language.tongue}
    return _templates().get_template(template).render(**said, **values)


def page(template: str, language: Language, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as a response."""
    return HTMLResponse(render(template, language, **values), status, HEADERS)


class PageRoute(APIRoute):
    """A route whose errors are for a person: a page, or a notice where a part of a page was asked for. Who is not
    signed in is led to where one signs in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except SignInNeeded:
                return _to_sign_in(request)
            except PeritoError as error:
                return problem(request, error)
            except (RequestValidationError, HTTPException):
                return problem(request, BadRequest("The request is not valid", "Open the page again"))
            except Exception:  # a defect of ours, in words for people all the same
                log.exception("%s %s failed", request.method, request.url.path)
                return problem(request, InternalError(language_of(request)("server_error")))

        return handle


def _to_sign_in(request: Request) -> Response:
    if HTMX in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    return RedirectResponse("/login", 303)


def problem(request: Request, error: PeritoError) -> Response:
    """``error`` as a page, or as a notice inside one."""
    language = language_of(request)
    template = "notice.html" if HTMX in request.headers else "problem.html"
    said = explain(error, language.chat)
    headers = (
        {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML", "HX-Reselect": "unset"} if HTMX in request.headers else {}
    )
    response = page(template, language, status_of(error), said=said, tone="bad")
    response.headers.update(headers)
    return response


@functools.cache
def theme() -> str:
    """The chat's colours as a style sheet: both are one product."""
    given = json.loads((files("assistant.web") / "ui" / "public" / "theme.json").read_text("utf-8"))["variables"]
    light, dark = (" ".join(f"{name}: {value};" for name, value in given[kind].items()) for kind in ("light", "dark"))
    return (
        f":root {{ {light} color-scheme: light; }}\n:root.dark {{ {dark} color-scheme: dark; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not(.light) {{ {dark} color-scheme: dark; }} }}\n"
    )
