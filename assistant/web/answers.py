"""How errors become HTTP: one shape, one status for each kind, whatever raised them."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from assistant.core.errors import (
    AccessDenied,
    BadInput,
    BadRequest,
    DiskFull,
    EmptyFile,
    NotFound,
    PeritoError,
    SignInNeeded,
    TooLarge,
    TooManyAttempts,
    TransientError,
    UnsupportedFile,
)
from assistant.core.settings import sentence_of
from assistant.core.shapes import ErrorShape
from assistant.web.gate import error_response

log = logging.getLogger(__name__)

# The first that fits counts, so a class stands before its base.
STATUSES: tuple[tuple[type[PeritoError], HTTPStatus], ...] = (
    (EmptyFile, HTTPStatus.BAD_REQUEST),
    (BadRequest, HTTPStatus.BAD_REQUEST),
    (UnsupportedFile, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (BadInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (SignInNeeded, HTTPStatus.UNAUTHORIZED),
    (AccessDenied, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (TooManyAttempts, HTTPStatus.TOO_MANY_REQUESTS),
    (DiskFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (TransientError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class InternalError(PeritoError):
    """A defect of ours; the log has the details."""


def status_of(error: PeritoError) -> int:
    return next((int(status) for kind, status in STATUSES if isinstance(error, kind)), 500)


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route, for OpenAPI."""
    return {status: {"model": ErrorShape, "description": HTTPStatus(status).phrase} for status in statuses}


def add_handlers(app: FastAPI) -> None:
    """Let every error of ``app`` leave in the one shape."""
    app.add_exception_handler(PeritoError, _perito_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _defect)


async def _perito_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PeritoError)
    status = status_of(error)
    # A page of ours that meets the end of its session must not make the browser ask for a password by itself.
    scheme = "Session" if "sec-fetch-mode" in request.headers else 'Basic realm="Perito", charset="UTF-8"'
    headers = {"WWW-Authenticate": scheme} if status == 401 else None
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return error_response(error, status, headers)


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {sentence_of(e)}" for e in error.errors()[:5])
    return error_response(BadRequest(f"The request is not valid: {problems}", "See /api/openapi.json"), 422)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem: PeritoError = NotFound(f"There is nothing at {request.url.path}", "See /api/openapi.json")
    else:
        problem = BadRequest(f"{request.method} {request.url.path}: {error.detail}", "See /api/openapi.json")
    return error_response(problem, error.status_code, dict(error.headers or {}))


async def _defect(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(
        InternalError("Something went wrong inside Perito", "Its log says what; please report it"), 500
    )
