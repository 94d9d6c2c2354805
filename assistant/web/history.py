"""The chat's history on our database, its attachments in a blob store of ours.

Chainlit's SQLAlchemy data layer does the SQL for messages. What it does not do well is done here: it reads
all messages of all threads to list them, fetches an element's URL over HTTP to store it, hands custom
elements their properties as text after a resume, and would let one person remove another's element.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainlit.data.sql_alchemy import SQLAlchemyDataLayer
from chainlit.data.storage_clients.base import BaseStorageClient
from chainlit.data.utils import queue_until_user_message
from chainlit.types import PageInfo, PaginatedResponse

from assistant.core.database import chat_connection
from assistant.core.errors import NotFound
from assistant.core.ports import BlobStore, Catalogue

if TYPE_CHECKING:
    from chainlit.element import Element
    from chainlit.types import Pagination, ThreadDict, ThreadFilter


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that was sent with a message."""

    id: str
    name: str
    media_type: str
    sha256: str


class AttachmentStorage(BaseStorageClient):
    """Chainlit's storage client over the store that documents lie in. An object's key is ``<element id>/<sha256>``;
    the catalogue lets a blob go when neither a document nor a picture in a chat stands on it."""

    def __init__(self, blobs: BlobStore, catalogue: Catalogue) -> None:
        self._blobs = blobs
        self._catalogue = catalogue

    async def upload_file(
        self,
        object_key: str,
        data: bytes | str,
        mime: str = "application/octet-stream",  # noqa: ARG002 - kept with the element
        overwrite: bool = True,  # noqa: ARG002 - the same content is the same blob
        content_disposition: str | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        content = data.encode() if isinstance(data, str) else data
        key = f"{object_key}/{await asyncio.to_thread(self._blobs.put, content)}"
        return {"object_key": key, "url": await self.get_read_url(key)}

    async def upload_path(self, element_id: str, path: Path) -> str:
        """Store a local file without holding it in memory; returns its object key."""
        return f"{element_id}/{await asyncio.to_thread(self._put, path)}"

    def _put(self, path: Path) -> str:
        with path.open("rb") as file:
            return self._blobs.put(file)

    async def put_again_where_gone(self, object_key: str, path: Path) -> None:
        """Call it when the row stands: bytes that nothing stood on yet may have been let go of just before."""

        def put() -> None:
            if not self._blobs.exists(object_key.rpartition("/")[2]):
                self._put(path)

        await asyncio.to_thread(put)

    async def delete_file(self, object_key: str) -> bool:
        """Let the bytes go if nothing else stands on them; call it when the element's row is gone."""
        return await asyncio.to_thread(self._catalogue.release_blob, object_key.rpartition("/")[2], self._blobs.delete)

    async def get_read_url(self, object_key: str) -> str:
        return f"/api/attachments/{object_key.partition('/')[0]}"

    def local_path(self, sha256: str) -> Path:
        """A local file with the attachment's bytes. NotFound."""
        return self._blobs.path(sha256)

    async def close(self) -> None:
        """Nothing is held open."""


class ChatHistory(SQLAlchemyDataLayer):
    """Threads, messages and elements of the chat."""

    def __init__(self, url: str, storage: AttachmentStorage) -> None:
        address, arguments = chat_connection(url)
        super().__init__(address, connect_args=arguments, storage_provider=storage)
        self.attachments = storage

    async def rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of a SELECT; none where the database failed, which the log tells."""
        found = await self.execute_sql(query, parameters)
        return found if isinstance(found, list) else []

    # -- threads ------------------------------------------------------------------------------

    async def update_thread(
        self,
        thread_id: str,
        name: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        tags: list[str] | None = None,
    ) -> None:
        """As the base does it, but a message without words (files only) does not blank the name."""
        await super().update_thread(thread_id, (name or "").strip() or None, user_id, metadata, tags)

    async def get_thread_author(self, thread_id: str) -> str:
        """Who began a thread; "" where there is none, which Chainlit's routes answer with 404."""
        rows = await self.rows('SELECT "userIdentifier" FROM threads WHERE "id" = :id', id=thread_id)
        return (rows[0]["userIdentifier"] or "") if rows else ""

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """A person's threads, last used first, without their messages."""
        threads = await self._threads(filters.userId or "", (filters.search or "").strip())
        ids = [thread["id"] for thread in threads]
        start = ids.index(pagination.cursor) + 1 if pagination.cursor in ids else 0
        page = threads[start : start + pagination.first]
        ends = (page[0]["id"], page[-1]["id"]) if page else (None, None)
        more = len(threads) > start + len(page)
        return PaginatedResponse(pageInfo=PageInfo(hasNextPage=more, startCursor=ends[0], endCursor=ends[1]), data=page)

    async def _threads(self, user_id: str, search: str) -> list[Any]:
        matching = ""
        if search:
            matching = """AND (lower(t."name") LIKE :search ESCAPE '!' OR EXISTS (SELECT 1 FROM steps f
                WHERE f."threadId" = t."id" AND lower(f."output") LIKE :search ESCAPE '!'))"""
        rows = await self.rows(
            f"""SELECT t."id", t."createdAt", t."name", t."userId", t."userIdentifier", MAX(s."createdAt") AS used
            FROM threads t LEFT JOIN steps s ON s."threadId" = t."id"
            WHERE t."userId" = :user_id {matching}
            GROUP BY t."id", t."createdAt", t."name", t."userId", t."userIdentifier"
            ORDER BY used DESC, t."id" """,
            user_id=user_id,
            **({"search": f"%{_escape(search.lower())}%"} if search else {}),
        )
        return [{**row, "createdAt": row["used"] or row["createdAt"], "steps": [], "metadata": {}} for row in rows]

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        """One thread with its messages and elements, everything in the types the page expects."""
        thread: Any = await super().get_thread(thread_id)
        if thread is None:
            return None
        thread["metadata"] = _loaded(thread["metadata"])
        for step in thread["steps"]:
            step["metadata"], step["generation"] = _loaded(step["metadata"]), _loaded(step["generation"])
            step["isError"], step["streaming"] = bool(step["isError"]), bool(step["streaming"])
        for element in thread["elements"] or ():
            element["props"] = _loaded(element["props"])
        return thread

    async def delete_thread(self, thread_id: str) -> None:
        """The thread, its messages, and the attachments that no other message holds."""
        kept = await self.rows('SELECT "objectKey" FROM elements WHERE "threadId" = :id', id=thread_id)
        await self.execute_sql('UPDATE elements SET "objectKey" = NULL WHERE "threadId" = :id', {"id": thread_id})
        await super().delete_thread(thread_id)
        await self._forget_unused({row["objectKey"] for row in kept if row["objectKey"]})

    async def _forget_unused(self, object_keys: set[str]) -> None:
        for sha256 in {key.rpartition("/")[2] for key in object_keys}:
            await self.attachments.delete_file(sha256)

    # -- elements -----------------------------------------------------------------------------

    @queue_until_user_message()
    async def create_element(self, element: Element) -> None:
        """Keep an element. Pictures keep their bytes; other files lie in the catalogue once they are accepted,
        so only their name and hash are kept here, and deleting a document leaves no copy in a chat."""
        if not element.for_id or await self._is_anothers(element.id, element.thread_id):
            return
        row: dict[str, Any] = {key: value for key, value in element.to_dict().items() if value is not None}
        row["props"] = json.dumps(row.get("props") or {}, ensure_ascii=False)
        if element.path and element.type != "custom":
            row["objectKey"] = await self._keep(element, Path(element.path))
            row["url"] = await self.attachments.get_read_url(row["objectKey"])
            row.pop("chainlitKey", None)  # names a file of the session, which ends
        await self._write_element(row)
        if element.path and element.type == "image":
            await self.attachments.put_again_where_gone(row["objectKey"], Path(element.path))

    async def _keep(self, element: Element, path: Path) -> str:
        if element.type == "image":
            return await self.attachments.upload_path(element.id, path)
        return f"{element.id}/{await asyncio.to_thread(_sha256, path)}"

    async def _write_element(self, row: dict[str, Any]) -> None:
        columns = ", ".join(f'"{column}"' for column in row)
        values = ", ".join(f":{column}" for column in row)
        changes = ", ".join(f'"{column}" = :{column}' for column in row if column != "id")
        await self.execute_sql(
            f"INSERT INTO elements ({columns}) VALUES ({values}) ON CONFLICT (id) DO UPDATE SET {changes}", row
        )

    async def _is_anothers(self, element_id: str, thread_id: str | None) -> bool:
        """Whether the element stands in another thread: Chainlit's route takes both ids from the browser."""
        rows = await self.rows('SELECT "threadId" FROM elements WHERE "id" = :id', id=element_id)
        return bool(rows) and rows[0]["threadId"] != thread_id

    @queue_until_user_message()
    async def delete_element(self, element_id: str, thread_id: str | None = None) -> None:
        if await self._is_anothers(element_id, thread_id):
            return
        kept = await self.rows('SELECT "objectKey" FROM elements WHERE "id" = :id', id=element_id)
        await self.execute_sql('DELETE FROM elements WHERE "id" = :id', {"id": element_id})
        await self._forget_unused({row["objectKey"] for row in kept if row["objectKey"]})

    async def attachment(self, element_id: str, user: str) -> Attachment:
        """A file that ``user`` sent. NotFound, also for somebody else's."""
        rows = await self.rows(
            """SELECT e."name", e."mime", e."objectKey" FROM elements e JOIN threads t ON t."id" = e."threadId"
            WHERE e."id" = :id AND t."userIdentifier" = :user""",
            id=element_id,
            user=user,
        )
        if not rows or not rows[0]["objectKey"]:
            raise NotFound("There is no such attachment", "It may have been deleted with its conversation")
        sha256 = rows[0]["objectKey"].rpartition("/")[2]
        return Attachment(element_id, rows[0]["name"], rows[0]["mime"] or "application/octet-stream", sha256)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _loaded(value: Any) -> Any:
    """JSON that a database gives back as text."""
    return json.loads(value) if isinstance(value, str) and value else value or {}


def _escape(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
