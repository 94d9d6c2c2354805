"""A conversation's whole life in Chainlit's own SQLAlchemy data layer, on a database that our migrations made.

Run as ``python chainlit_layer.py FOLDER URL…`` by ``test_migrations_chat.py``, in a process of its own: Chainlit
lays out files where it is first imported, once a process. An assertion that fails ends it with a traceback.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
os.environ["CHAINLIT_APP_ROOT"] = str(FOLDER)

from chainlit.context import ChainlitContext, context_var  # noqa: E402
from chainlit.data.sql_alchemy import SQLAlchemyDataLayer  # noqa: E402
from chainlit.data.storage_clients.base import BaseStorageClient  # noqa: E402
from chainlit.element import CustomElement, Pdf, Text  # noqa: E402
from chainlit.session import HTTPSession  # noqa: E402
from chainlit.types import Feedback, Pagination, ThreadFilter  # noqa: E402
from chainlit.user import User  # noqa: E402
from sqlalchemy import text  # noqa: E402

from assistant.core.database import Database, chat_connection, open_database  # noqa: E402

CHAT_TABLES = ("users", "threads", "steps", "elements", "feedbacks")


class Failures(logging.Handler):
    """The data layer logs a failed statement and goes on; here that is a failure."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


class FolderStorage(BaseStorageClient):
    """Chainlit's storage port over a folder."""

    async def upload_file(
        self,
        object_key: str,
        data: bytes | str,
        mime: str = "application/octet-stream",
        overwrite: bool = True,
        content_disposition: str | None = None,
    ) -> dict[str, Any]:
        self.file(object_key).write_bytes(data if isinstance(data, bytes) else data.encode())
        return {"object_key": object_key, "url": f"/files/{object_key}"}

    async def delete_file(self, object_key: str) -> bool:
        self.file(object_key).unlink()
        return True

    async def get_read_url(self, object_key: str) -> str:
        return f"/files/{object_key}"

    async def close(self) -> None:
        pass

    def file(self, object_key: str) -> Path:
        return FOLDER / object_key.replace("/", "_")


def message(number: int, **more: Any) -> Any:
    """A step as ``Message.to_dict`` makes it."""
    return {
        "id": f"m{number}",
        "threadId": "t1",
        "parentId": None,
        "createdAt": f"2026-11-29T10:0{number}:00.000Z",
        "command": None,
        "start": f"2026-11-29T10:0{number}:00.000Z",
        "end": f"2026-11-29T10:0{number}:00.000Z",
        "output": f"¿Cuándo vence el contrato? ({number})",
        "name": "Ana",
        "type": "user_message",
        "language": None,
        "streaming": False,
        "isError": False,
        "waitForAnswer": False,
        "metadata": {"collection": "default"},
        "tags": None,
    } | more


async def keep_and_find_a_conversation(layer: SQLAlchemyDataLayer) -> None:
    user = await layer.create_user(User(identifier="ana", metadata={"role": "local"}))
    assert user.metadata == {"role": "local"}
    again = await layer.create_user(User(identifier="ana", metadata={"role": "lawyer"}))
    assert (again.id, again.metadata) == (user.id, {"role": "lawyer"})
    await layer.update_thread("t1", name="Contrato", user_id=user.id, metadata={"page": 3}, tags=["español", "2026"])
    await layer.create_step(message(1))
    await layer.create_step(message(2, type="tool", tags=["search"], generation={"model": "m"}))
    await layer.update_step(message(2, output="El 3 de mayo", type="assistant_message", metadata={"favorite": True}))
    await layer.create_step(
        {
            "id": "s3",
            "threadId": "t1",
            "parentId": "m2",
            "name": "read",
            "type": "run",
            "streaming": False,
            "metadata": {"icon": "eye"},
            "tags": [],
            "input": "page 1",
            "isError": False,
            "output": "",
            "createdAt": "2026-11-29T10:03:00.000Z",
            "start": None,
            "end": None,
            "language": "json",
            "defaultOpen": True,
            "autoCollapse": False,
            "showInput": True,
            "generation": None,
        }
    )
    await layer.upsert_feedback(Feedback(forId="m2", threadId="t1", value=0, comment="No"))
    feedback = await layer.upsert_feedback(Feedback(forId="m2", threadId="t1", value=1, id="f1", comment="Sí"))
    assert feedback == "f1"

    listed = await layer.list_threads(Pagination(first=10), ThreadFilter(userId=user.id, search="el 3 de mayo"))
    assert [thread["id"] for thread in listed.data] == ["t1"]
    thread = await layer.get_thread("t1")
    assert thread["name"] == "Contrato"
    assert thread["userIdentifier"] == "ana"
    assert json.loads(thread["metadata"]) == {"page": 3}
    assert [step["id"] for step in thread["steps"]][:1] == ["m1"]
    step = await layer.get_step("s3")
    assert (step["input"], step["showInput"], step["parentId"]) == ("page 1", "true", "m2")
    assert json.loads(step["metadata"]) == {"icon": "eye"}
    assert [step["id"] for step in await layer.get_favorite_steps(user.id)] == ["m2"]
    assert await layer.get_thread_author("t1") == "ana"


async def keep_attachments_with_their_props(layer: SQLAlchemyDataLayer) -> None:
    user = await layer.create_user(User(identifier="ana"))
    await layer.update_thread("t1", user_id=user.id)
    await layer.create_step(message(1))
    pdf = Pdf(thread_id="t1", id="e1", name="contrato.pdf", content=b"%PDF-1.7", for_id="m1", page=2, display="side")
    await layer.create_element(pdf)
    await layer.create_element(pdf)  # an update
    props = {"boxes": [[0.1, 0.2, 0.3, 0.4]], "reader": "ocr"}
    await layer.create_element(CustomElement(thread_id="t1", id="e2", name="Citation", props=props, for_id="m1"))
    found = await layer.get_element("t1", "e2")
    assert found["props"] == props
    thread = await layer.get_thread("t1")
    elements = {element["id"]: element for element in thread["elements"]}
    assert elements["e1"]["page"] == 2
    assert elements["e1"]["url"] == f"/files/{user.id}/e1/contrato.pdf"
    await layer.delete_element("e1", "t1")
    assert await layer.get_element("t1", "e1") is None


async def delete_a_conversation_to_the_last_row(layer: SQLAlchemyDataLayer, database: Database) -> None:
    user = await layer.create_user(User(identifier="ana"))
    await layer.update_thread("t1", user_id=user.id)
    await layer.create_step(message(1))
    await layer.create_step(message(2))
    await layer.create_element(Text(thread_id="t1", id="e1", name="note", content="hola", for_id="m1"))
    await layer.upsert_feedback(Feedback(forId="m1", threadId="t1", value=1))
    await layer.delete_step("m2")
    await layer.delete_thread("t1")
    with database.reading() as connection:
        left = {table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() for table in CHAT_TABLES}
    assert left == {"users": 1, "threads": 0, "steps": 0, "elements": 0, "feedbacks": 0}


async def find_nothing_where_there_is_nothing(layer: SQLAlchemyDataLayer) -> None:
    assert await layer.get_thread("nowhere") is None
    assert await layer.get_user("nobody") is None
    assert await layer.get_step("none") is None


async def live(url: str) -> None:
    context_var.set(ChainlitContext(HTTPSession(id="s1", client_type="webapp", thread_id="t1", user=None)))
    database = open_database(url)
    conninfo, arguments = chat_connection(url)
    layer = SQLAlchemyDataLayer(conninfo, connect_args=arguments, storage_provider=FolderStorage())
    await find_nothing_where_there_is_nothing(layer)
    await keep_and_find_a_conversation(layer)
    await keep_attachments_with_their_props(layer)
    await delete_a_conversation_to_the_last_row(layer, database)
    await layer.close()
    database.close()
    sys.stdout.write(f"lived {database.url.get_backend_name()}\n")


if __name__ == "__main__":
    logging.getLogger().handlers[:] = [Failures(logging.WARNING)]
    logging.getLogger("chainlit").handlers[:] = []
    for database_url in sys.argv[2:]:
        asyncio.run(live(database_url))
