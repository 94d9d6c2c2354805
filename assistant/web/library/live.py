"""What changes in the library by itself, as server-sent events.

A page names the documents it shows; it is told when one of them changes, goes, or when the sums change. The catalogue
is looked at, not the worker: whichever process reads, and however many documents wait, a look costs two short queries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from assistant.core.domain import Access, Document, Tally
from assistant.core.ports import DocumentQuery
from assistant.core.shapes import Shape
from assistant.web.dependencies import Parts, Who
from assistant.web.events import event_stream
from assistant.web.library.pages import PageRoute, language_of, render
from assistant.web.library.rows import Row, rows_of
from assistant.web.library.texts import Language
from assistant.web.services import Services

BUSY_SECONDS = 0.7
IDLE_SECONDS = 3.0
MOST_FOLLOWED = 400
OPEN_SECONDS = 600.0  # then the page asks again, and whether it still may is judged anew

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class DocumentEvent(Shape):
    """A document that changed: its row, its line among the files being added, and whether it has ended."""

    id: str
    row: str
    line: str
    final: bool
    heard: str  # to be said aloud when it has ended


class GoneEvent(Shape):
    id: str


class SumsEvent(Shape):
    """The line of sums; ``count`` tells whether documents came or went."""

    line: str
    count: int


@dataclass(slots=True)
class _Seen:
    """What a page knows."""

    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    sums: Tally | None = None


@router.get("/library/live")
async def follow(
    request: Request, parts: Parts, who: Who, ids: Annotated[str, Query(max_length=40_000)] = ""
) -> StreamingResponse:
    """Events `document`, `gone` and `sums` about the documents ``ids``, separated by commas; first all of them."""
    wanted = frozenset(ids.split(",")[:MOST_FOLLOWED]) - {""}
    return event_stream(_events(parts, who, wanted, language_of(request)))


async def _events(
    parts: Services, who: Access, wanted: frozenset[str], language: Language
) -> AsyncIterator[tuple[str, BaseModel]]:
    seen = _Seen()
    end = time.monotonic() + OPEN_SECONDS
    while time.monotonic() < end:
        changed, gone, sums = await asyncio.to_thread(_look, parts, who, wanted, seen)
        for row in changed:
            yield "document", document_event(row, language)
        for document_id in gone:
            yield "gone", GoneEvent(id=document_id)
        if sums is not None:
            yield "sums", SumsEvent(line=render("sums.html", language, tally=sums).strip(), count=sums.total)
        busy = seen.sums is not None and seen.sums.unfinished > 0
        await asyncio.sleep(BUSY_SECONDS if busy else IDLE_SECONDS)


def _look(
    parts: Services, who: Access, wanted: frozenset[str], seen: _Seen
) -> tuple[tuple[Row, ...], list[str], Tally | None]:
    """Rows that changed, ids that are gone, and the sums where they changed; ``seen`` is brought up to date."""
    found = parts.catalogue.documents(who, DocumentQuery(ids=wanted)) if wanted else []
    changed = [document for document in found if seen.documents.get(document.id) != document]
    first = not seen.documents
    gone = [one for one in (wanted if first else seen.documents) if one not in {document.id for document in found}]
    seen.documents = {document.id: document for document in found}
    sums = parts.catalogue.tally(who)
    changed_sums = None if sums == seen.sums else sums
    seen.sums = sums
    return rows_of(parts, who, changed), gone, changed_sums


def document_event(row: Row, language: Language) -> DocumentEvent:
    """``row`` as it goes to the page."""
    return DocumentEvent(
        id=row.document.id,
        row=render("row.html", language, row=row).strip(),
        line=render("line.html", language, row=row).strip(),
        final=not row.reading,
        heard=row.heard(language),
    )
