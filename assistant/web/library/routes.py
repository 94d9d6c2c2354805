"""The library's pages: the list, a document, and the files they are made to look and work with."""

from __future__ import annotations

import asyncio
import io
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from assistant.core.domain import DocumentStatus
from assistant.core.errors import NotFound
from assistant.core.ports import Order
from assistant.web.dependencies import PRIVATE, Parts, Who
from assistant.web.documents import DocumentId, PageNumber
from assistant.web.library import changes, live, sending
from assistant.web.library.pages import PageRoute, language_of, page, theme
from assistant.web.library.rows import COLUMNS, FURTHER_ORDERS, SIZES, Wish, listing, row_of
from assistant.web.library.sheets import reading_in_words, receipt_in_words, sheet

THUMB_WIDTH = 180
THUMB_QUALITY = 70

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/library", response_class=HTMLResponse)
async def show_list(
    request: Request,
    parts: Parts,
    who: Who,
    name: Annotated[str, Query(max_length=300)] = "",
    collection: Annotated[str, Query(max_length=100)] = "",
    status: str = "",
    order: str = "",
    direction: str = "",
    page_number: Annotated[int, Query(alias="page", ge=1, le=1_000_000)] = 1,
    size: int = SIZES[1],
) -> Response:
    wish = Wish(
        name=name.strip(),
        collection=collection,
        status=next((one for one in DocumentStatus if one.value == status), None),
        order=next((one for one in Order if one.value == order), Order.CREATED),
        ascending=direction == "up",
        page=page_number,
        size=size if size in SIZES else SIZES[1],
    )
    found = await asyncio.to_thread(listing, parts, who, wish)
    language = language_of(request)
    return page(
        "list.html",
        language,
        listing=found,
        wish=found.wish,
        columns=COLUMNS,
        orders=(*COLUMNS, *FURTHER_ORDERS),
        sizes=SIZES,
        statuses=list(DocumentStatus),
        anywhere=who.collections is None,
        user=who.user if parts.settings.auth.users else "",
        upload_mb=parts.settings.limits.upload_mb,
    )


@router.get("/library/documents/{document_id}", response_class=HTMLResponse)
async def show_document(
    request: Request,
    parts: Parts,
    who: Who,
    document_id: DocumentId,
    number: Annotated[int, Query(alias="page", ge=1, le=1_000_000)] = 1,
) -> Response:
    found = await asyncio.to_thread(sheet, parts, who, document_id, number)
    language = language_of(request)
    collections = await asyncio.to_thread(changes.targets, parts, who)
    read = found.page
    return page(
        "document.html",
        language,
        sheet=found,
        row=row_of(found.document, {}),
        receipt=receipt_in_words(read, language) if read else "",
        readings=[reading_in_words(one, language) for one in read.readings] if read else [],
        collections=collections,
        anywhere=who.collections is None,
        user=who.user if parts.settings.auth.users else "",
    )


@router.get("/library/documents/{document_id}/pages/{number}/small")
async def small_picture(parts: Parts, who: Who, document_id: DocumentId, number: PageNumber) -> Response:
    """A page as a small picture, for the strip."""

    def small() -> bytes:
        return shrunk(parts.page_images.page_image(document_id, number, who))

    return Response(await asyncio.to_thread(small), media_type="image/jpeg", headers=PRIVATE)


def shrunk(jpeg: bytes) -> bytes:
    """A JPEG, narrower; decoded at a fraction of its size, which takes milliseconds."""
    from PIL import Image

    picture = Image.open(io.BytesIO(jpeg))
    picture.draft("RGB", (THUMB_WIDTH, THUMB_WIDTH))
    picture.thumbnail((THUMB_WIDTH, THUMB_WIDTH * 4))
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=THUMB_QUALITY)
    return out.getvalue()


@router.get("/library/theme.css")
async def theme_style() -> Response:
    return Response(theme(), media_type="text/css", headers={"Cache-Control": "no-cache"})


_static = StaticFiles(packages=[("assistant.web.library", "static")])


@router.get("/library/static/{file}")
async def static_file(request: Request, file: str) -> Response:
    """Scripts and styles; nobody has to be signed in for them."""
    try:
        response = await _static.get_response(file, request.scope)
    except HTTPException:
        return Response(status_code=404)
    response.headers["Cache-Control"] = "no-cache"  # asked for again, and answered "not changed"
    return response


router.include_router(changes.router)
router.include_router(live.router)
router.include_router(sending.router)


@router.get("/library/{rest:path}", response_class=HTMLResponse)  # the last: what no other route is for
async def nothing_here(request: Request, _: Who, rest: str) -> Response:
    if not rest:
        return RedirectResponse(f"/library?{request.url.query}".rstrip("?"))
    raise NotFound("There is no such page in the library", "Open /library")
