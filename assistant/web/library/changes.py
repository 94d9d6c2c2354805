"""What a person changes in the library: documents deleted, read again or moved, blocks corrected."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request, Response

from assistant.core.domain import Access, Correction, collection_name
from assistant.core.errors import BadRequest, PeritoError
from assistant.web.dependencies import Parts, Who
from assistant.web.documents import DocumentId, PageNumber, collections_of
from assistant.web.library.pages import PageRoute, language_of, page
from assistant.web.library.sheets import Piece, sheet
from assistant.web.library.texts import Language
from assistant.web.services import Services
from assistant.web.texts import explain

MOST_AT_ONCE = 1000
LONGEST_TEXT = 100_000
CHANGED = {"HX-Trigger": "library-changed"}
DONE = {"delete": "deleted", "reread": "requeued", "move": "moved"}

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Action = Literal["delete", "reread", "move"]
Ids = Annotated[list[str], Form(max_length=MOST_AT_ONCE)]
BlockNumber = Annotated[int, Form(ge=0, le=1_000_000)]


@router.post("/library/change")
async def change_documents(
    request: Request,
    parts: Parts,
    who: Who,
    action: Annotated[Action, Form()],
    ids: Ids = [],  # noqa: B006 - FastAPI copies it
    collection: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Do ``action`` to each document; one that cannot be changed does not hold up the others."""
    language = language_of(request)
    if not ids:
        return page("notice.html", language, said=language("none_selected"), tone="unsure")
    target = collection_name(collection) if action == "move" else ""
    done, problems = 0, dict[str, None]()
    for document_id in dict.fromkeys(ids):
        try:
            await _change(parts, who, action, document_id, target)
            done += 1
        except PeritoError as error:
            problems[explain(error, language.chat)] = None  # said once, however many it befell
    said = [language(DONE[action], n=done, collection=target)] if done or not problems else []
    response = page("notice.html", language, said=" ".join([*said, *problems]), tone="bad" if problems else "sure")
    response.headers.update(CHANGED)
    return response


async def _change(parts: Services, who: Access, action: Action, document_id: str, target: str) -> None:
    match action:
        case "delete":
            await parts.ingestion.delete(document_id, who)
        case "reread":
            await parts.ingestion.reread(document_id, who)
        case "move":
            await parts.ingestion.move(document_id, target, who)


def targets(parts: Services, who: Access) -> list[str]:
    """The collections a document may be put into: those that are there and seen. Blocks."""
    return [one.name for one in collections_of(parts, who)] or ["default"]


@router.post("/library/documents/{document_id}/pages/{number}/corrections")
async def correct_block(
    request: Request,
    parts: Parts,
    who: Who,
    document_id: DocumentId,
    number: PageNumber,
    block: BlockNumber,
    digest: Annotated[str, Form(max_length=64)],
    how: Annotated[Literal["save", "mark"], Form()],
    text: Annotated[str, Form(max_length=LONGEST_TEXT)] = "",
) -> Response:
    """Store what really stands in a block, or that it was misread; the block as it is now comes back."""
    language = language_of(request)
    piece = await _piece(parts, who, document_id, number, block, digest, language)
    said = text.replace("\r\n", "\n").strip() if how == "save" else None
    original = piece.said.original if piece.said else piece.block.text
    bbox = piece.said.bbox if piece.said else piece.block.bbox
    document = await parts.ingestion.correct(document_id, Correction(number, bbox, said, original), who)
    read_again = document.has_looks and parts.settings.vlm.configured
    outcome = "saved" if how == "save" else "marked_vlm" if read_again else "marked"
    return await _block(parts, who, document_id, number, block, language, outcome)


@router.post("/library/documents/{document_id}/pages/{number}/corrections/{correction_id}/withdraw")
async def withdraw_correction(
    request: Request,
    parts: Parts,
    who: Who,
    document_id: DocumentId,
    number: PageNumber,
    correction_id: int,
    block: BlockNumber = 0,
) -> Response:
    language = language_of(request)
    await parts.ingestion.withdraw_correction(document_id, correction_id, who)
    return await _block(parts, who, document_id, number, block, language, "undone")


async def _piece(
    parts: Services, who: Access, document_id: str, number: int, block: int, digest: str, language: Language
) -> Piece:
    """The block that was looked at. BadRequest where the page has another in its place by now."""
    found = await asyncio.to_thread(sheet, parts, who, document_id, number)
    if block < len(found.pieces) and found.pieces[block].digest == digest:
        return found.pieces[block]
    raise BadRequest(language("changed_meanwhile"), language("open_again"))


async def _block(
    parts: Services, who: Access, document_id: str, number: int, block: int, language: Language, outcome: str
) -> Response:
    found = await asyncio.to_thread(sheet, parts, who, document_id, number)
    if block >= len(found.pieces):
        raise BadRequest(language("changed_meanwhile"), language("open_again"))
    return page("block.html", language, sheet=found, piece=found.pieces[block], outcome=language(outcome))
