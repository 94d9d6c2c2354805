"""Files of the chat: uploads streamed to disk instead of through memory, attachments after a resume.

The upload route stands before Chainlit's own of the same path and answers in its form.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import Annotated, Any

from chainlit.session import WebsocketSession
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import FileResponse, JSONResponse, Response

from assistant.core.domain import Access
from assistant.core.errors import EmptyFile, NotFound, PeritoError
from assistant.core.ports import DocumentQuery
from assistant.web.answers import status_of
from assistant.web.dependencies import PRIVATE, access_of
from assistant.web.history import Attachment, ChatHistory
from assistant.web.services import Services
from assistant.web.texts import explain, texts_for
from assistant.web.uploads import ReceivedFile, received_form

SHOWN = ("image/png", "image/jpeg", "image/webp")


def file_routes(services: Services, history: ChatHistory) -> APIRouter:
    """The chat's own routes for files."""
    router = APIRouter(include_in_schema=False)

    @router.post("/project/file")
    async def upload(
        request: Request, who: Annotated[Access, Depends(access_of)], session_id: Annotated[str, Query(max_length=100)]
    ) -> Response:
        texts = texts_for(request.headers.get("accept-language", "").split(",")[0])
        try:
            session = _session(session_id, who)
            folder, limit = services.settings.home / "uploads", services.settings.limits.upload_mb
            async with received_form(request, folder, limit) as form:
                kept = await asyncio.to_thread(_keep, form.files, session)
        except PeritoError as error:
            return JSONResponse({"detail": explain(error, texts)}, status_of(error))
        session.files[kept["id"]] = kept
        return JSONResponse({"id": kept["id"]})

    @router.get("/api/attachments/{element_id}")
    async def attachment(element_id: str, who: Annotated[Access, Depends(access_of)]) -> FileResponse:
        found = await history.attachment(element_id, who.user)
        path = await asyncio.to_thread(_path, found, services, history, who)
        if found.media_type in SHOWN:
            return FileResponse(path, media_type=found.media_type, headers=PRIVATE)
        return FileResponse(path, media_type="application/octet-stream", filename=found.name, headers=PRIVATE)

    return router


def _session(session_id: str, who: Access) -> Any:
    session: Any = WebsocketSession.get_by_id(session_id)
    if session is None or session.user is None or session.user.identifier != who.user:
        raise NotFound("This conversation is not open any more", "Reload the page and send the file again")
    return session


def _keep(files: list[ReceivedFile], session: Any) -> dict[str, Any]:
    """Move an upload into the session's folder, where Chainlit looks for it and clears it away."""
    if not files or not files[0].size:
        raise EmptyFile(f"{files[0].name if files else 'The upload'} is empty")
    file, key = files[0], str(uuid.uuid4())
    folder = Path(session.files_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / key
    shutil.move(file.path, path)
    media_type = file.media_type or "application/octet-stream"
    return {"id": key, "path": path, "name": file.name, "type": media_type, "size": file.size}


def _path(found: Attachment, services: Services, history: ChatHistory, who: Access) -> Path:
    """Where an attachment's bytes lie: beside the chat, or, for what became a document, with that document."""
    try:
        return history.attachments.local_path(found.sha256)
    except NotFound:
        for document in services.catalogue.documents(who, DocumentQuery(sha256=found.sha256, limit=1)):
            return services.blobs.path(services.catalogue.blob(document.id, who))
    raise NotFound(f"{found.name} was not kept", "It was not accepted as a document, or has been deleted")
