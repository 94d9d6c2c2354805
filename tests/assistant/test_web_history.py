"""The chat's history on a database of our own making, with attachments in the blob store."""

from __future__ import annotations

import asyncio
import importlib
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.errors import NotFound
from assistant.web import chathome
from assistant.web.auth import Door
from tests.assistant.webparts import settings_for
from tests.fakes import png


@dataclass
class Room:
    """A history, two people in it, and Chainlit's modules, which may only be imported once a home is laid out."""

    history: Any
    blobs: FolderBlobStore
    chainlit: Any
    people: dict[str, str]

    def enter(self, user: str, thread: str) -> None:
        """Be ``user`` in ``thread``: what Chainlit's context says while a message is handled."""
        session = self.chainlit.session.HTTPSession(id=f"session-{thread}", client_type="webapp", thread_id=thread)
        session.user = self.chainlit.user.User(identifier=user)
        self.chainlit.context.context_var.set(self.chainlit.context.ChainlitContext(session))

    async def thread(self, user: str, thread: str, *said: str) -> None:
        self.enter(user, thread)
        await self.history.update_thread(thread, name=said[0] if said else None, user_id=self.people[user])
        for number, text in enumerate(said):
            await self.history.create_step(
                {
                    "id": f"{thread}-{number}",
                    "threadId": thread,
                    "name": user,
                    "type": "user_message",
                    "output": text,
                    "createdAt": f"2026-01-0{number + 1}T00:00:0{len(thread) % 10}Z",
                    "streaming": False,
                    "isError": False,
                    "metadata": {"location": "here"},
                }
            )

    async def attach(self, thread: str, element_id: str, path: Path, kind: str = "Image") -> None:
        element = getattr(self.chainlit.element, kind)(
            id=element_id, name=path.name, path=str(path), thread_id=thread, for_id=f"{thread}-0", mime="image/png"
        )
        await self.history.create_element(element)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    settings = settings_for(tmp_path / "home")
    chathome.prepare(settings, Door(settings, ""))
    modules = ("session", "user", "context", "element", "types")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what Chainlit imports, at its first import
        chainlit = type("Chainlit", (), {name: importlib.import_module(f"chainlit.{name}") for name in modules})
        from assistant.web.history import AttachmentStorage, ChatHistory

    url = f"sqlite:///{tmp_path / 'perito.db'}"
    catalogue, blobs = await asyncio.to_thread(SqlCatalogue.open, url), FolderBlobStore(tmp_path / "blobs")
    history = ChatHistory(url, AttachmentStorage(blobs, catalogue))
    people = {}
    for name in ("ana", "carl"):
        person = await history.create_user(chainlit.user.User(identifier=name))
        assert person is not None
        people[name] = person.id
    yield Room(history, blobs, chainlit, people)
    await history.close()
    catalogue.close()


async def threads(room: Room, user: str, search: str | None = None, first: int = 20, cursor: str | None = None) -> Any:
    types = room.chainlit.types
    filters = types.ThreadFilter(userId=room.people[user], search=search)
    return await room.history.list_threads(types.Pagination(first=first, cursor=cursor), filters)


async def test_a_person_finds_their_own_conversations_and_no_others(room: Room) -> None:
    await room.thread("ana", "t1", "The rent of 100% is due", "And the deposit?")
    await room.thread("ana", "t22", "Something else")
    await room.thread("carl", "t333", "The rent is mine")
    assert {thread["id"] for thread in (await threads(room, "ana")).data} == {"t1", "t22"}
    assert [thread["id"] for thread in (await threads(room, "ana", "DEPOSIT")).data] == ["t1"]
    assert [thread["id"] for thread in (await threads(room, "ana", "100%")).data] == ["t1"]
    assert (await threads(room, "ana", "1%0")).data == []
    assert (await threads(room, "ana", "mine")).data == []


async def test_conversations_come_page_by_page(room: Room) -> None:
    for number in range(5):
        await room.thread("ana", f"thread-{number}", f"Question {number}")
    seen: list[str] = []
    cursor = None
    for _ in range(3):
        page = await threads(room, "ana", first=2, cursor=cursor)
        seen += [thread["id"] for thread in page.data]
        cursor = page.pageInfo.endCursor
    assert sorted(seen) == [f"thread-{number}" for number in range(5)]
    assert not page.pageInfo.hasNextPage


async def test_files_without_words_do_not_blank_a_name(room: Room) -> None:
    await room.thread("ana", "t", "A name")
    await room.history.update_thread("t", name="")
    assert (await room.history.get_thread("t"))["name"] == "A name"


async def test_a_resumed_conversation_has_everything_in_its_type(room: Room) -> None:
    await room.thread("ana", "t", "Question")
    element = room.chainlit.element.CustomElement(
        id="card", name="Sources", props={"items": [{"number": 1}]}, thread_id="t", for_id="t-0"
    )
    await room.history.create_element(element)
    thread = await room.history.get_thread("t")
    assert thread["steps"][0]["metadata"] == {"location": "here"}
    assert thread["steps"][0]["isError"] is False
    (card,) = thread["elements"]
    assert (card["name"], card["props"]) == ("Sources", {"items": [{"number": 1}]})
    assert await room.history.get_thread("no-such-thread") is None


async def test_a_thread_that_is_not_there_is_nobodys(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    await room.thread("ana", "t", "Question")
    acl = importlib.import_module("chainlit.data.acl")
    monkeypatch.setattr(acl, "get_data_layer", lambda: room.history)
    assert await acl.is_thread_author("ana", "t")
    for user, thread, status in (("carl", "t", 401), ("carl", "no-such-thread", 404)):
        with pytest.raises(HTTPException) as refused:
            await acl.is_thread_author(user, thread)
        assert refused.value.status_code == status


async def test_a_picture_is_kept_with_its_bytes_and_only_for_its_owner(room: Room, tmp_path: Path) -> None:
    picture = tmp_path / "receipt.png"
    picture.write_bytes(png())
    await room.thread("ana", "t", "What is this?")
    await room.attach("t", "e1", picture)
    (element,) = (await room.history.get_thread("t"))["elements"]
    assert (element["url"], element["chainlitKey"]) == ("/api/attachments/e1", None)
    found = await room.history.attachment("e1", "ana")
    assert (found.name, found.media_type) == ("receipt.png", "image/png")
    assert room.history.attachments.local_path(found.sha256).read_bytes() == png()
    for user, element_id in (("carl", "e1"), ("ana", "e2")):
        with pytest.raises(NotFound):
            await room.history.attachment(element_id, user)


async def test_a_picture_let_go_of_before_its_row_stood_is_put_again(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lets go of unclaimed files may come between the bytes and the row that stands on them."""
    picture = tmp_path / "receipt.png"
    picture.write_bytes(png())
    await room.thread("ana", "t", "What is this?")
    write = room.history._write_element

    async def swept_then_written(row: dict[str, Any]) -> None:
        sha256 = row["objectKey"].rpartition("/")[2]
        assert await asyncio.to_thread(room.history.attachments._catalogue.release_blob, sha256, room.blobs.delete)
        await write(row)

    monkeypatch.setattr(room.history, "_write_element", swept_then_written)
    await room.attach("t", "e1", picture)
    found = await room.history.attachment("e1", "ana")
    assert room.history.attachments.local_path(found.sha256).read_bytes() == png()


async def test_a_document_leaves_its_name_in_the_chat_and_its_bytes_where_documents_lie(
    room: Room, tmp_path: Path
) -> None:
    document = tmp_path / "contract.pdf"
    document.write_bytes(b"%PDF-1.7 made up")
    await room.thread("ana", "t", "Read this")
    await room.attach("t", "e1", document, "File")
    found = await room.history.attachment("e1", "ana")
    assert found.name == "contract.pdf"
    with pytest.raises(NotFound):
        room.history.attachments.local_path(found.sha256)
    assert list(room.blobs.keys()) == []


async def test_a_picture_goes_with_its_last_conversation(room: Room, tmp_path: Path) -> None:
    picture = tmp_path / "receipt.png"
    picture.write_bytes(png())
    for thread in ("t1", "t2"):
        await room.thread("ana", thread, "What is this?")
        await room.attach(thread, f"{thread}-picture", picture)
    assert len(list(room.blobs.keys())) == 1
    await room.history.delete_thread("t1")
    assert len(list(room.blobs.keys())) == 1  # the other still shows it
    await room.history.delete_thread("t2")
    assert list(room.blobs.keys()) == []
    assert (await threads(room, "ana")).data == []


async def test_nobody_changes_or_removes_anothers_element(room: Room, tmp_path: Path) -> None:
    picture = tmp_path / "receipt.png"
    picture.write_bytes(png())
    await room.thread("ana", "hers", "What is this?")
    await room.attach("hers", "e1", picture)
    await room.thread("carl", "his", "Hello")
    await room.history.delete_element("e1", "his")
    taken_over = room.chainlit.element.CustomElement(id="e1", name="X", props={}, thread_id="his", for_id="his-0")
    await room.history.create_element(taken_over)
    assert (await room.history.attachment("e1", "ana")).name == "receipt.png"
    await room.history.delete_element("e1", "hers")
    with pytest.raises(NotFound):
        await room.history.attachment("e1", "ana")
    assert list(room.blobs.keys()) == []


async def test_the_storage_client_does_what_chainlit_asks_of_one(room: Room) -> None:
    storage = room.history.attachments
    kept = await storage.upload_file("e9", "text ñ", "text/plain")
    assert kept["url"] == await storage.get_read_url(kept["object_key"]) == "/api/attachments/e9"
    sha256 = kept["object_key"].rpartition("/")[2]
    assert storage.local_path(sha256).read_text("utf-8") == "text ñ"
    assert await storage.delete_file(kept["object_key"])
    with pytest.raises(NotFound):
        storage.local_path(sha256)
