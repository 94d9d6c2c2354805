"""The HTTP API's documents: files in, pages and their pictures out. Routes translate; the work is done elsewhere.

The JSON shapes are those of the command line (``assistant/core/shapes.py``). Everything passes the same
Access as the chat. Catalogue, index and page images are synchronous, so they are called in threads.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, StreamingResponse

from assistant.core.domain import Access, Collection, Document, DocumentStatus, Urgency, collection_name
from assistant.core.errors import AccessDenied, BadRequest, PeritoError, TransientError
from assistant.core.ports import DocumentQuery, Submission, Upload
from assistant.core.shapes import (
    DocumentDetailShape,
    DocumentShape,
    IngestShape,
    PageShape,
    PageSummaryShape,
    ProgressShape,
    RejectedShape,
    Shape,
)
from assistant.web import boxes as boxes_in_url
from assistant.web.answers import declared
from assistant.web.dependencies import NAME, PRIVATE, Parts, Who, signed_in_router
from assistant.web.events import event_stream
from assistant.web.services import Services
from assistant.web.uploads import Form, received_form

DocumentId = Annotated[str, InPath(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The document's id.")]
PageNumber = Annotated[int, InPath(ge=1, le=1_000_000, description="Page number, from 1.")]
CollectionName = Annotated[str | None, Query(description="Only in this collection.", json_schema_extra=NAME)]
Status = Annotated[
    Literal["queued", "reading", "complete", "partial", "failed"] | None, Query(description="Only with this status.")
]
BoxesText = Annotated[
    str | None,
    Query(pattern=boxes_in_url.PATTERN, max_length=20_000, description="x0,y0,x1,y1;… in fractions of the page."),
]


class CollectionShape(Shape):
    name: str
    documents: int
    pages: int


class CollectionsShape(Shape):
    """GET /api/collections: those that the person may see and that hold something."""

    collections: list[CollectionShape]


MOST_PASSWORD = 1000
router = signed_in_router()

MULTIPART: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
                        "collection": {"type": "string", "default": "default", **NAME},
                        "password": {
                            "type": "string",
                            "maxLength": MOST_PASSWORD,
                            "description": "Of an encrypted PDF.",
                        },
                    },
                }
            }
        },
    }
}


@router.post(
    "/api/documents",
    status_code=202,
    openapi_extra=MULTIPART,
    responses={
        200: {"model": IngestShape, "description": "Read to the end"},
        207: {"model": IngestShape, "description": "At least one file was not accepted; its entry says why"},
        **declared(400, 413, 507),
    },
    summary="Add documents",
)
async def add_documents(
    request: Request,
    response: Response,
    parts: Parts,
    who: Who,
    wait: Annotated[bool, Query(description="Answer when the documents have been read to their end.")] = False,
    bulk: Annotated[bool, Query(include_in_schema=False)] = False,  # `perito ingest`: after what others wait for
) -> IngestShape:
    """Files are stored and queued when this answers. One that cannot be read does not hold up the others."""
    folder = parts.settings.home / "uploads"
    async with received_form(request, folder, parts.settings.limits.upload_mb) as form:
        uploads = _uploads(form, Urgency.BULK if bulk else Urgency.PROGRAM)
        outcomes = await submit_all(parts, uploads, who)
    for outcome in outcomes:
        if isinstance(outcome, TransientError | AccessDenied):
            raise outcome  # not about the file
    if wait:
        response.status_code = 200
        outcomes = [await _awaited(parts, outcome, who) for outcome in outcomes]
    if any(isinstance(outcome, PeritoError) for outcome in outcomes):
        response.status_code = 207
    return IngestShape(documents=[_shaped(up.name, out) for up, out in zip(uploads, outcomes, strict=True)])


def _uploads(form: Form, urgency: Urgency) -> list[Upload]:
    if not form.files:
        raise BadRequest("The form holds no file", "Send at least one file in the field `files`")
    collection = collection_name(form.fields.get("collection", "default"))
    password = form.fields.get("password", "")
    if len(password) > MOST_PASSWORD:
        raise BadRequest("The password is too long", f"Give at most {MOST_PASSWORD:,} characters")
    return [Upload(file.path, file.name, collection, password, urgency=urgency) for file in form.files]


async def submit_all(parts: Services, uploads: Sequence[Upload], who: Access) -> list[Submission | PeritoError]:
    """Submit each; an error stands in the place of what was not accepted."""
    outcomes: list[Submission | PeritoError] = []
    for upload in uploads:
        try:
            outcomes.append(await parts.ingestion.submit(upload, who))
        except PeritoError as error:
            outcomes.append(error)
    return outcomes


async def _awaited(parts: Services, outcome: Submission | PeritoError, who: Access) -> Submission | PeritoError:
    if isinstance(outcome, PeritoError):
        return outcome
    document = outcome.document
    async for step in parts.ingestion.progress(document.id, who):
        document = step.document
    return Submission(document, outcome.duplicate)


def _shaped(name: str, outcome: Submission | PeritoError) -> DocumentShape | RejectedShape:
    if isinstance(outcome, PeritoError):
        return RejectedShape.of(name, outcome)
    return DocumentShape.of(outcome.document, outcome.duplicate)


@router.get("/api/documents", summary="List documents", responses=declared(400))
async def list_documents(
    parts: Parts,
    who: Who,
    collection: CollectionName = None,
    status: Status = None,
    name: Annotated[str, Query(max_length=300, description="Only where the name contains this.")] = "",
    ids: Annotated[str | None, Query(max_length=10_000, description="Only these, separated by commas.")] = None,
    with_parts: Annotated[bool, Query(description="With ids: also what was found in those.")] = False,
    id_begins: Annotated[str, Query(max_length=64, description="Only where the id begins so.")] = "",
    limit: Annotated[int, Query(ge=1, le=100_000, description="At most so many.")] = 100_000,
    offset: Annotated[int, Query(ge=0, le=1_000_000_000, description="Without so many of the newest.")] = 0,
) -> IngestShape:
    """Newest first."""
    query = DocumentQuery(
        statuses=frozenset({DocumentStatus(status)} if status else ()),
        name=name,
        ids=frozenset(ids.split(",")) if ids is not None else None,
        with_parts=with_parts,
        id_begins=id_begins,
        limit=limit,
        offset=offset,
    )
    found = await asyncio.to_thread(parts.catalogue.documents, who.narrowed(collection), query)
    return IngestShape(documents=[DocumentShape.of(document) for document in found])


@router.get("/api/documents/{document_id}", summary="One document and how its pages were read", responses=declared(404))
async def show_document(parts: Parts, who: Who, document_id: DocumentId) -> DocumentDetailShape:
    def look() -> DocumentDetailShape:
        document = parts.catalogue.document(document_id, who)
        pages = [PageSummaryShape.of(page) for page in parts.catalogue.pages(document_id, who)]
        return DocumentDetailShape(document=DocumentShape.of(document), pages=pages)

    return await asyncio.to_thread(look)


STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


@router.get(
    "/api/documents/{document_id}/progress",
    summary="Follow a document while it is read",
    response_class=StreamingResponse,
    responses={**STREAM, **declared(404)},
)
async def follow_document(parts: Parts, who: Who, document_id: DocumentId) -> StreamingResponse:
    """Events named `progress`, the last one final; `error` when following fails."""
    await asyncio.to_thread(parts.catalogue.document, document_id, who)

    async def events() -> AsyncIterator[tuple[str, BaseModel]]:
        async for step in parts.ingestion.progress(document_id, who):
            page = PageSummaryShape.of(step.page) if step.page else None
            yield "progress", ProgressShape(document=DocumentShape.of(step.document), page=page)

    return event_stream(events())


@router.post(
    "/api/documents/{document_id}/reread",
    status_code=202,
    summary="Read a document again",
    responses=declared(404, 507),
)
async def reread_document(parts: Parts, who: Who, document_id: DocumentId) -> DocumentShape:
    return DocumentShape.of(await parts.ingestion.reread(document_id, who))


class NameShape(Shape):
    """What a document is to be called."""

    name: str = Field(min_length=1, max_length=300)


@router.post(
    "/api/documents/{document_id}/rename",
    summary="Give a document another name",
    responses=declared(400, 404),
)
async def rename_document(parts: Parts, who: Who, document_id: DocumentId, called: NameShape) -> DocumentShape:
    """No page is read again. Refused where the collection already holds a document of that name."""
    return DocumentShape.of(await parts.ingestion.rename(document_id, called.name, who))


@router.delete(
    "/api/documents/{document_id}",
    status_code=204,
    summary="Delete a document and everything made from it",
    responses=declared(404),
)
async def delete_document(parts: Parts, who: Who, document_id: DocumentId) -> None:
    await parts.ingestion.delete(document_id, who)


@router.get(
    "/api/documents/{document_id}/file",
    summary="The file as it was given; a locked PDF without its lock",
    response_class=FileResponse,
    responses={
        200: {
            "description": "The file",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **declared(404),
    },
)
async def download_document(parts: Parts, who: Who, document_id: DocumentId) -> FileResponse:
    def find() -> tuple[Document, str]:
        key = parts.catalogue.blob(document_id, who)
        return parts.catalogue.document(document_id, who), str(parts.blobs.path(key))

    document, path = await asyncio.to_thread(find)
    # Never shown in place: an HTML file someone uploaded must not run as a page of ours.
    return FileResponse(path, media_type="application/octet-stream", filename=document.name, headers=PRIVATE)


@router.get(
    "/api/documents/{document_id}/pages/{number}",
    summary="One page: its blocks and its receipt",
    responses=declared(404),
)
async def show_page(parts: Parts, who: Who, document_id: DocumentId, number: PageNumber) -> PageShape:
    return PageShape.of(await asyncio.to_thread(parts.catalogue.page, document_id, number, who))


@router.get(
    "/api/documents/{document_id}/pages/{number}/image",
    summary="A page as a picture, with boxes drawn on it",
    response_class=Response,
    responses={
        200: {
            "description": "The upright page",
            "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}},
        },
        304: {"description": "Not changed"},
        **declared(400, 404),
    },
)
async def page_image(
    parts: Parts,
    who: Who,
    document_id: DocumentId,
    number: PageNumber,
    boxes: BoxesText = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    drawn = boxes_in_url.read_boxes(boxes) if boxes else ()
    image = await asyncio.to_thread(parts.page_images.page_image, document_id, number, who, drawn)
    headers = {**PRIVATE, "ETag": f'"{hashlib.sha256(image).hexdigest()[:32]}"'}
    if if_none_match and headers["ETag"] in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(image, media_type="image/jpeg", headers=headers)


@router.get("/api/collections", summary="Collections that hold documents")
async def list_collections(parts: Parts, who: Who) -> CollectionsShape:
    found = await asyncio.to_thread(collections_of, parts, who)
    shapes = [CollectionShape(name=one.name, documents=one.documents, pages=one.pages) for one in found]
    return CollectionsShape(collections=shapes)


def collections_of(parts: Services, who: Access) -> list[Collection]:
    """The collections that hold documents, and those that are named as the person's and are still empty."""
    held = {one.name: one for one in parts.catalogue.collections(who)}
    return [held.get(name, Collection(name, 0, 0)) for name in sorted({*held, *(who.collections or ())})]
