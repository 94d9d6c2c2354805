"""The chat: Chainlit's events turned into uploads, questions and answers.

Handlers only translate. Reading goes on in the worker and is shown by the `Documents` element, which asks
the API itself, so no handler waits for it and nothing is lost when a page is reloaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chainlit as cl
import chainlit.data as chainlit_data
from chainlit.config import config
from chainlit.element import Element
from chainlit.server import app as chainlit_app
from fastapi import APIRouter, FastAPI

from assistant.core.domain import Access, Answer, DocumentStatus, Urgency
from assistant.core.errors import AccessDenied, EncryptedFile, NotFound, PeritoError, SignInNeeded, TooManyAttempts
from assistant.core.pictures import media_type
from assistant.core.ports import DocumentQuery, Upload
from assistant.web import chatpage
from assistant.web.auth import LOCAL_USER, Door
from assistant.web.chatfiles import file_routes
from assistant.web.conversation import remembered, source_props, with_links
from assistant.web.documents import collections_of, submit_all
from assistant.web.history import AttachmentStorage, ChatHistory
from assistant.web.services import Services
from assistant.web.texts import ENGLISH, SPANISH, Texts, explain, texts_for

log = logging.getLogger(__name__)

# A question sent together with documents waits for them, but not for ever: then it is answered from what is there.
PATIENCE_SECONDS = 90.0
HEAD = 12  # bytes that tell a picture
EVERY_COLLECTION = "*"  # not "": the page breaks on an empty choice
DOCUMENT_COMMANDS = frozenset({ENGLISH.documents_command, SPANISH.documents_command, "/documents", "/documentos"})


@dataclass(frozen=True, slots=True)
class Chat:
    """Chainlit's application, the routes of ours that stand before it, and what to close."""

    app: FastAPI
    router: APIRouter
    history: ChatHistory

    async def aclose(self) -> None:
        await self.history.close()


@dataclass(frozen=True, slots=True)
class Sent:
    """A file sent with a message, where it lies, and the id of its element."""

    id: str
    path: Path
    name: str
    is_picture: bool


def build_chat(services: Services, door: Door) -> Chat:
    """Chainlit over ``services``. Its callbacks are the process's: the last one built is the one that runs."""
    url = services.settings.catalogue.url or f"sqlite:///{services.settings.home / 'perito.db'}"
    history = ChatHistory(url, AttachmentStorage(services.blobs, services.catalogue))
    chainlit_data._data_layer, chainlit_data._data_layer_initialized = history, True  # pyright: ignore[reportPrivateUsage]
    chatpage.adapt(services.settings)
    Handlers(services, door, history).register()
    return Chat(chainlit_app, file_routes(services, history), history)


class Handlers:
    """What happens when a person does something in the chat."""

    def __init__(self, services: Services, door: Door, history: ChatHistory) -> None:
        self._services = services
        self._door = door
        self._history = history

    def register(self) -> None:
        config.code.password_auth_callback = config.code.header_auth_callback = None
        if self._door.has_users:
            cl.password_auth_callback(self.sign_in)
        else:
            cl.header_auth_callback(self.let_in)
        cl.set_starters(self.starters)
        cl.on_chat_start(self.on_start)
        cl.on_chat_resume(self.on_resume)
        cl.on_message(self.on_message)
        cl.on_settings_update(self.on_settings)
        cl.action_callback("unlock")(self.unlock)
        cl.action_callback("add_pictures")(self.add_pictures)
        chatpage.replace_stop()

    # -- signing in ---------------------------------------------------------------------------

    async def sign_in(self, username: str, password: str) -> cl.User | None:
        try:
            return self._user((await self._door.sign_in(username, password)).user)
        except (SignInNeeded, TooManyAttempts) as error:
            log.warning("Sign-in refused: %s", error)
            return None

    async def let_in(self, headers: Any) -> cl.User | None:  # noqa: ARG002 - the gate has looked at them
        return self._user(LOCAL_USER)

    def _user(self, name: str) -> cl.User:
        return cl.User(identifier=name, display_name=name, metadata={"key": self._door.session_key(name)})

    # -- the conversation begins or goes on ----------------------------------------------------

    async def starters(self, user: Any, language: str | None) -> list[cl.Starter]:  # noqa: ARG002 - same for all
        texts = texts_for(language)
        return [
            cl.Starter(label=texts.starter_documents, message=texts.starter_documents, icon="/public/documents.svg"),
            cl.Starter(label=texts.starter_help, message=texts.starter_help, icon="/public/help.svg"),
        ]

    async def on_start(self) -> None:
        await self._furnish()

    async def on_resume(self, thread: Any) -> None:  # noqa: ARG002 - Chainlit shows it
        await self._furnish()

    async def on_settings(self, settings: dict[str, Any]) -> None:
        chosen = settings.get("collection")
        cl.user_session.set("collection", "" if chosen == EVERY_COLLECTION else chosen or "")

    async def _furnish(self) -> None:
        """Offer the command that lists documents and, where there are several collections, the choice of one."""
        texts = spoken()
        command = {"id": texts.documents_command, "description": texts.documents_hint, "icon": "files", "button": True}
        await cl.context.emitter.set_commands([command])  # pyright: ignore[reportArgumentType]
        with suppress(PeritoError):
            found = await asyncio.to_thread(collections_of, self._services, self._access())
            names = [one.name for one in found]
            if len(names) > 1:
                items = {texts.every_collection: EVERY_COLLECTION} | {name: name for name in names}
                choice = cl.input_widget.Select(
                    id="collection", label=texts.collection, items=items, initial_value=EVERY_COLLECTION
                )
                await cl.ChatSettings([choice]).send()

    def _access(self) -> Access:
        user = cl.user_session.get("user")
        if user is None:
            raise SignInNeeded("Nobody is signed in")
        return self._door.access_of(user.identifier)

    # -- messages -----------------------------------------------------------------------------

    async def on_message(self, message: cl.Message) -> None:
        texts = spoken()
        try:
            await self._handle(message, texts)
        except PeritoError as error:
            await cl.ErrorMessage(explain(error, texts)).send()
        except Exception:
            log.exception("A message could not be handled")
            await cl.ErrorMessage(texts.defect).send()

    async def _handle(self, message: cl.Message, texts: Texts) -> None:
        access, question = self._access(), message.content.strip()
        if message.command in DOCUMENT_COMMANDS or question.lower() in ("/documents", "/documentos"):
            await self._list_documents(access, texts)
            return
        if question in (ENGLISH.starter_documents, SPANISH.starter_documents):
            await self._list_documents(access, texts)
            return
        if question in (ENGLISH.starter_help, SPANISH.starter_help):
            await cl.Message(texts.help).send()
            return
        sent = await asyncio.to_thread(_sent_files, message.elements)
        pictures = [file for file in sent if file.is_picture] if question else []
        documents = [file for file in sent if file not in pictures]
        if documents:
            await self._add(documents, access, texts)
            await _name_thread(self._history, message, documents)
        if question:
            await self._answer(question, pictures, access, texts, waits=bool(documents))

    async def _list_documents(self, access: Access, texts: Texts) -> None:
        found = await asyncio.to_thread(self._services.catalogue.collections, access)
        count = sum(collection.documents for collection in found)
        said = texts.documents_count.format(count=count) if count else texts.documents_none
        card = cl.CustomElement(name="Documents", props={"all": True}, display="inline")
        await cl.Message(said, elements=[card] if count else []).send()

    # -- adding documents ----------------------------------------------------------------------

    async def _add(self, files: Sequence[Sent], access: Access, texts: Texts) -> None:
        """Submit files and show how they are read."""
        collection = self._target(access)
        uploads = [Upload(file.path, file.name, collection, urgency=Urgency.PERSON) for file in files]
        outcomes = await submit_all(self._services, uploads, access)
        accepted = [outcome for outcome in outcomes if not isinstance(outcome, PeritoError)]
        said = [texts.already_there.format(name=one.document.name) for one in accepted if one.duplicate]
        fresh = [one.document for one in accepted if not one.duplicate]
        if len(fresh) == 1:
            said.append(texts.reading_one.format(name=fresh[0].name))
        elif fresh:
            said.append(texts.reading_many.format(count=len(fresh)))
        names = {one.document.id: one.document.name for one in accepted}  # a file that was sent twice is one document
        props = {
            "ids": list(names),
            "names": names,
            "rejected": [
                _rejected(file, outcome, texts)
                for file, outcome in zip(files, outcomes, strict=True)
                if isinstance(outcome, PeritoError)
            ],
        }
        cl.user_session.set("latest", props["ids"])
        card = cl.CustomElement(name="Documents", props=props, display="inline")
        await cl.Message("\n\n".join(said) or texts.none_accepted, elements=[card]).send()

    def _target(self, access: Access) -> str:
        """The collection that files go to: the chosen one, the default, or the first the person may use."""
        chosen = cl.user_session.get("collection") or ""
        if chosen and access.allows(chosen):
            return chosen
        if access.allows("default"):
            return "default"
        if not access.collections:
            raise AccessDenied("You have no collection to add documents to")
        return min(access.collections)

    async def unlock(self, action: cl.Action) -> dict[str, str]:
        """Try a rejected file again with its password; answers to the element that asked."""
        texts = spoken()
        file = cl.context.session.files.get(str(action.payload.get("file", "")))
        if file is None or not await asyncio.to_thread(Path(file["path"]).is_file):
            return {"error": texts.files_gone}
        try:
            access = self._access()
            password = str(action.payload.get("password", ""))
            upload = Upload(Path(file["path"]), file["name"], self._target(access), password, urgency=Urgency.PERSON)
            submission = await self._services.ingestion.submit(upload, access)
        except PeritoError as error:
            return {"error": explain(error, texts)}
        return {"id": submission.document.id, "name": submission.document.name}

    async def add_pictures(self, action: cl.Action) -> dict[str, str]:
        """Keep pictures that a question was asked about as documents."""
        texts = spoken()
        try:
            access = self._access()
            files = [await self._attached(str(key), access) for key in action.payload.get("pictures", ())]
            await self._add(files, access, texts)
        except PeritoError as error:
            return {"error": explain(error, texts)}
        return {}

    async def _attached(self, element_id: str, access: Access) -> Sent:
        found = await self._history.attachment(element_id, access.user)
        path = await asyncio.to_thread(self._history.attachments.local_path, found.sha256)
        return Sent(element_id, path, found.name, is_picture=True)

    # -- answering ----------------------------------------------------------------------------

    async def _answer(self, question: str, pictures: list[Sent], access: Access, texts: Texts, *, waits: bool) -> None:
        looked_into = access.narrowed(cl.user_session.get("collection") or None)
        if waits:
            await self._wait_for_reading(access)
        images = [await asyncio.to_thread(_picture_bytes, picture) for picture in pictures]
        reply = cl.Message("")
        asked = self._services.assistant.answer(question, looked_into, history=_history(), images=images)
        try:
            answer = await _streamed(asked, reply)
        except asyncio.CancelledError:
            await _end_stopped(reply, texts)
            raise
        except BaseException:
            await _withdraw(reply)
            raise
        ids = [picture.id for picture in pictures]
        reply.content = with_links(answer.text, answer, ids)
        if (waits or answer.refused) and await asyncio.to_thread(self._is_reading, looked_into):
            reply.content += f"\n\n*{texts_for(answer.language).still_reading}*"
        if answer.citations or ids:
            props = source_props(answer, ids)
            reply.elements.append(cl.CustomElement(name="Sources", props=props, display="inline"))  # pyright: ignore[reportArgumentType]
        await reply.send()

    async def _wait_for_reading(self, access: Access) -> None:
        """Wait until the documents just sent are read, or patience ends."""
        with suppress(TimeoutError, NotFound):  # not found: deleted meanwhile
            async with asyncio.timeout(PATIENCE_SECONDS):
                for document_id in cl.user_session.get("latest") or ():
                    async for _ in self._services.ingestion.progress(document_id, access):
                        pass

    def _is_reading(self, access: Access) -> bool:
        unfinished = DocumentQuery(frozenset(status for status in DocumentStatus if not status.is_final), limit=1)
        return bool(self._services.catalogue.documents(access, unfinished))


def spoken() -> Texts:
    """The texts of the language that the browser of the running session asks for."""
    return texts_for(getattr(cl.context.session, "language", None))


def _sent_files(elements: Sequence[Element]) -> list[Sent]:
    files: list[Sent] = []
    for element in elements:
        path = Path(element.path or "")
        if element.path and path.is_file():
            with path.open("rb") as stream:
                files.append(Sent(element.id, path, element.name, bool(media_type(stream.read(HEAD)))))
    return files


def _picture_bytes(picture: Sent) -> bytes:
    return picture.path.read_bytes()


def _rejected(file: Sent, error: PeritoError, texts: Texts) -> dict[str, Any]:
    """A file that was not accepted; one that wants a password can be tried again with it."""
    again = file.id if isinstance(error, EncryptedFile) else None
    return {"key": file.id, "name": file.name, "error": explain(error, texts), "file": again}


def _history() -> list[Any]:
    """What was said before the message that is being answered."""
    roles = {"user_message": "user", "assistant_message": "assistant"}
    said = [(roles[one.type], one.content) for one in cl.chat_context.get() if one.type in roles]
    return remembered(said[:-1])


async def _streamed(pieces: Any, reply: cl.Message) -> Answer:
    """Send pieces as they come; the Answer ends them."""
    answer: Answer | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, Answer):
                answer = piece
            else:
                await reply.stream_token(piece)
    if answer is None:
        raise RuntimeError("the assistant ended without an answer")
    return answer


async def _end_stopped(reply: cl.Message, texts: Texts) -> None:
    reply.content = f"{reply.content}\n\n*{texts.stopped}*".strip()
    await reply.send()


async def _withdraw(reply: cl.Message) -> None:
    """Take back an answer that broke off in the middle; an error message follows."""
    if reply.content:
        await reply.remove()


async def _name_thread(history: ChatHistory, message: cl.Message, files: Sequence[Sent]) -> None:
    """A conversation that begins with files alone is called after them."""
    first = len(cl.chat_context.get()) <= 2  # the message and what was just said about it
    if message.content.strip() or not first:
        return
    name = ", ".join(file.name for file in files)[:120]
    thread_id = cl.context.session.thread_id
    await history.update_thread(thread_id, name=name)
    await cl.context.emitter.emit("first_interaction", {"interaction": name, "thread_id": thread_id})
