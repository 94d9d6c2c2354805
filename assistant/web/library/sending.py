"""Files on their way in, in pieces: known by their content, so a broken upload goes on and a known file is not sent.

    GET  /library/sending/{sha256}          known already? else: how many bytes are here
    PUT  /library/sending/{sha256}?offset=  the bytes from there on
    POST /library/sending/{sha256}          all are here: take the file in

A part lies in the home under its sender and its hash until it was taken in, or for a day. What a broken request
brought is kept. Whether the bytes are those of the hash is judged when all are here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import shutil
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi import Path as InPath
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from assistant.core.domain import Access, Urgency, collection_name
from assistant.core.errors import (
    AccessDenied,
    BadRequest,
    DiskFull,
    EncryptedFile,
    PeritoError,
    StoreBusy,
    TransientError,
)
from assistant.core.ports import DocumentQuery, Upload
from assistant.core.settings import MEGABYTE
from assistant.core.shapes import dump
from assistant.web.answers import status_of
from assistant.web.dependencies import Parts, Who
from assistant.web.library.live import document_event
from assistant.web.library.pages import language_of
from assistant.web.library.rows import rows_of
from assistant.web.services import Services
from assistant.web.texts import explain
from assistant.web.uploads import too_large

PIECE_MEGABYTES = 8  # what the page sends at once; the gate lets 32 through
KEPT_SECONDS = 24 * 3600.0

router = APIRouter(include_in_schema=False)

Sha256 = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$")]
CollectionText = Annotated[str, Query(min_length=1, max_length=100)]
Bytes = Annotated[int, Query(ge=0)]


@router.get("/library/sending/{sha256}")
async def look(
    request: Request, parts: Parts, who: Who, sha256: Sha256, collection: CollectionText, size: Bytes, name: str = ""
) -> Response:
    try:
        return JSONResponse(await asyncio.to_thread(_look, parts, who, sha256, collection, size, name))
    except PeritoError as error:
        return _refused(request, error)


def _look(
    parts: Services, who: Access, sha256: str, collection: str, size: int, name: str
) -> dict[str, str | int | None]:
    seen = who.narrowed(_allowed(who, collection))
    if size > parts.settings.limits.upload_mb * MEGABYTE:
        raise too_large(name or "The file", parts.settings.limits.upload_mb * MEGABYTE)
    same = parts.catalogue.documents(seen, DocumentQuery(sha256=sha256, limit=1))
    here = _part(parts, who, sha256)
    _sweep(here.parent)
    if same and same[0].status.value in ("complete", "queued", "reading"):
        return {"known": same[0].id, "received": size}
    received = here.stat().st_size if here.exists() else 0
    _require_room(parts, size - received)
    return {"known": None, "received": received}


@router.put("/library/sending/{sha256}")
async def receive(request: Request, parts: Parts, who: Who, sha256: Sha256, offset: Bytes) -> Response:
    """Append the body. Answers how many bytes are here: also with 409, where ``offset`` is not their end."""
    try:
        async with _opened(_part(parts, who, sha256)) as part:
            received, fits = await _append(request, part, offset, parts.settings.limits.upload_mb * MEGABYTE)
    except PeritoError as error:
        return _refused(request, error)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return _refused(request, DiskFull("There is no room left on the disk for the upload"))
    return JSONResponse({"received": received}, 200 if fits else 409)


async def _append(request: Request, part: BinaryIO, offset: int, limit: int) -> tuple[int, bool]:
    """How many bytes are here now, and whether ``offset`` was the end of those that were."""
    end = await asyncio.to_thread(part.seek, 0, 2)
    if end != offset:
        return end, False
    with contextlib.suppress(ClientDisconnect):  # what came is kept, and told when it is asked for
        async for piece in request.stream():
            end += len(piece)
            if end > limit:
                raise too_large("The file", limit)
            await asyncio.to_thread(part.write, piece)
    await asyncio.to_thread(part.flush)
    return end, True


@router.post("/library/sending/{sha256}")
async def finish(
    request: Request,
    parts: Parts,
    who: Who,
    sha256: Sha256,
    name: Annotated[str, Form(max_length=1000)],
    collection: Annotated[str, Form(min_length=1, max_length=100)],
    password: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Take the file in. It stays at hand where it needs a password, or may be taken in later."""
    part = _part(parts, who, sha256)
    try:
        await asyncio.to_thread(_check, part, sha256)
        upload = Upload(part, name, _allowed(who, collection), password, urgency=Urgency.PERSON)
        submission = await parts.ingestion.submit(upload, who)
    except PeritoError as error:
        if not isinstance(error, EncryptedFile | TransientError | AccessDenied):
            await asyncio.to_thread(part.unlink, missing_ok=True)
        return _refused(request, error)
    await asyncio.to_thread(part.unlink, missing_ok=True)
    (row,) = await asyncio.to_thread(rows_of, parts, who, [submission.document])
    event = document_event(row, language_of(request))
    return JSONResponse({"document": dump(event), "known": submission.duplicate})


def _check(part: Path, sha256: str) -> None:
    """BadRequest unless the part is the whole file."""
    if not part.exists():
        raise BadRequest("The file is no longer at hand", "Send it again")
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise BadRequest("The file changed on its way, or while it was read", "Send it again")


def _allowed(who: Access, collection: str) -> str:
    collection = collection_name(collection)
    who.require(collection)
    return collection


def _part(parts: Services, who: Access, sha256: str) -> Path:
    """Where the bytes gather: nobody goes on with what somebody else began."""
    sender = hashlib.sha256(who.user.encode("utf-8", "replace")).hexdigest()[:16]
    return parts.settings.home / "sending" / f"{sender}-{sha256}"


@contextlib.asynccontextmanager
async def _opened(part: Path) -> AsyncGenerator[BinaryIO]:
    """The part, for this request alone. StoreBusy while another writes to it."""

    def opened() -> BinaryIO:
        part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = part.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise StoreBusy("The file is being sent from another page", "Try again in a moment") from None
        return file

    file = await asyncio.to_thread(opened)
    try:
        yield file
    finally:
        await asyncio.shield(asyncio.to_thread(file.close))


def _sweep(folder: Path) -> None:
    """Let go of what nobody went on with for a day."""
    oldest = time.time() - KEPT_SECONDS
    for part in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if part.stat().st_mtime < oldest:
                part.unlink()


def _require_room(parts: Services, size: int) -> None:
    free = shutil.disk_usage(parts.settings.home).free
    if free - size < parts.settings.limits.free_disk_mb * MEGABYTE:
        raise DiskFull("There is no room left on the disk for the upload")


def _refused(request: Request, error: PeritoError) -> Response:
    """``error`` in the person's language, as the page's script shows it."""
    said = {"code": error.code, "said": explain(error, language_of(request).chat)}
    return JSONResponse({"error": {**said, "passing": isinstance(error, TransientError)}}, status_of(error))
