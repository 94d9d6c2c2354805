"""What every route of the API asks for: the running parts, and who calls."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from assistant.core.domain import COLLECTION_CHARACTERS, Access
from assistant.web.answers import declared
from assistant.web.services import Services

SIGNED_IN = (401, 403, 429)
PRIVATE = {"Cache-Control": "private, max-age=3600", "Vary": "Cookie, Authorization"}
# Told to machines, but judged by the kernel, whose sentence for people is the same everywhere.
NAME: dict[str, Any] = {"minLength": 1, "maxLength": COLLECTION_CHARACTERS, "pattern": r"[^\W_]"}


def services_of(request: Request) -> Services:
    return request.app.state.services


async def access_of(request: Request) -> Access:
    """Who asks. SignInNeeded, TooManyAttempts."""
    return await request.app.state.door.access(request.headers.get("authorization", ""), request.cookies)


Parts = Annotated[Services, Depends(services_of)]
Who = Annotated[Access, Depends(access_of)]


def signed_in_router() -> APIRouter:
    """A router whose routes are for people who are signed in."""
    return APIRouter(responses=declared(*SIGNED_IN, 422, 500, 503))
