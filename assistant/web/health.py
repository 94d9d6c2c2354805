"""Whether the process lives, and whether it can take documents and questions: for whoever watches over it."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any, Literal

from fastapi import APIRouter, Response

from assistant.core.domain import Access
from assistant.core.errors import DiskFull, PeritoError
from assistant.core.settings import MEGABYTE
from assistant.core.shapes import Shape
from assistant.web.dependencies import Parts
from assistant.web.services import Services

router = APIRouter()


class CheckShape(Shape):
    name: str
    ready: bool
    detail: str


class ReadyShape(Shape):
    """GET /readyz."""

    ready: bool
    checks: list[CheckShape]


class HealthShape(Shape):
    status: Literal["ok"] = "ok"


@router.get("/healthz", summary="Whether the process lives")
async def healthz() -> HealthShape:
    return HealthShape()


@router.get(
    "/readyz",
    summary="Whether Perito can take documents and questions",
    responses={503: {"model": ReadyShape, "description": "Not ready; `checks` says what is missing"}},
)
async def readyz(parts: Parts, response: Response) -> ReadyShape:
    checks = [
        await _check("catalogue", parts.catalogue.documents, Access("readyz")),
        await _check("index", parts.index.count, "readyz"),
        await _check("disk", _require_room, parts),
    ]
    ready = all(check.ready for check in checks)
    response.status_code = 200 if ready else 503
    response.headers["Cache-Control"] = "no-store"
    return ReadyShape(ready=ready, checks=checks)


async def _check(name: str, look: Any, *arguments: Any) -> CheckShape:
    try:
        await asyncio.to_thread(look, *arguments)
    except PeritoError as error:
        return CheckShape(name=name, ready=False, detail=str(error))
    except Exception as error:  # a probe reports whatever is wrong, it does not fail on it
        return CheckShape(name=name, ready=False, detail=f"{type(error).__name__}: {error}")
    return CheckShape(name=name, ready=True, detail="")


def _require_room(parts: Services) -> None:
    free = shutil.disk_usage(parts.settings.home).free // MEGABYTE
    if free < parts.settings.limits.free_disk_mb:
        raise DiskFull(f"Only {free} MB are free on the disk of {parts.settings.home}")
