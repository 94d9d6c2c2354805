"""Doing what a plan asks for, through whatever runs over this home, and remembering it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import unicodedata
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from assistant.core.errors import BadInput, BadRequest, DiskFull, NotFound, StoreBusy
from assistant.core.ports import DocumentQuery
from assistant.core.settings import MEGABYTE, LimitSettings
from assistant.core.shapes import DocumentShape, RejectedShape
from compose.backends import FILES_AT_ONCE, Backend
from compose.watch.memory import KnownDocument, KnownFile, Memory
from compose.watch.plan import Plan, Put, Remove, Rename
from compose.watch.survey import PIECE, Watched, opened, sign_of, too_large
from ingestion.parts import JOINT, LONGEST_NAME, part_name

Deed = Literal["added", "changed", "known", "renamed", "removed", "refused"]
MOST_NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a file: ``deed``, the document's id ("" where there is none), what was said."""

    deed: Deed
    path: str
    document: str = ""
    name: str = ""
    said: str = ""


class Changed(Exception):
    """The file is no longer what the plan speaks of."""


class Actor:
    """Of one watch, for one event loop. ``tell`` hears of everything done; ``entered`` of each document to be read."""

    def __init__(
        self,
        watched: Watched,
        collection: str,
        memory: Memory,
        limits: LimitSettings,
        terms: str,
        tell: Callable[[Done], None],
    ) -> None:
        self._watched = watched
        self._collection = collection
        self._memory = memory
        self._limits = limits
        self._terms = terms
        self._tell = tell
        self._aside = watched.home / f"watch-{memory.watch}"
        self._names: dict[str, str] = {}  # of documents, to what they are called; "" for other watches' own
        self.later = False  # something has to wait until it was read

    def tidy(self) -> None:
        """Remove the copies a killed process left behind. Blocks."""
        shutil.rmtree(self._aside, ignore_errors=True)  # what stays is removed at the next start

    async def note(self, plan: Plan) -> None:
        """What is known after a look that changes nothing in the collection."""
        files = self._memory.files()
        touched = {path: replace(files[path], sign=found.sign) for path, found in plan.touched.items()}
        if touched:
            await asyncio.to_thread(self._memory.keep_files, touched)
        if plan.forgotten:
            await asyncio.to_thread(self._memory.forget, plan.forgotten)

    async def act(self, backend: Backend, plan: Plan) -> AsyncGenerator[str]:
        """Do it; the ids of documents to be read, as they are entered. TransientError leaves the rest undone."""
        self.later = False
        await self._learn_names()
        for remove in plan.removes:
            await self._remove(backend, remove)
        await self._rename_all(backend, plan.renames)
        waiting = deque(plan.puts)
        running: set[asyncio.Task[str]] = set()
        try:
            while running or waiting:
                while waiting and len(running) < FILES_AT_ONCE:
                    running.add(asyncio.create_task(self._put(backend, waiting.popleft())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                failed = [error for task in done if (error := task.exception())]
                for task in done:
                    if not task.exception() and (document_id := task.result()):
                        yield document_id
                if failed:
                    raise failed[0]
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _learn_names(self) -> None:
        documents = self._memory.documents()
        elsewhere = await asyncio.to_thread(self._memory.names_elsewhere)
        self._names = {name: "" for name in elsewhere} | {one.name: one.id for one in documents.values()}

    # -- bringing in --------------------------------------------------------------------------

    async def _put(self, backend: Backend, put: Put) -> str:
        """Bring a file in; the id of its document, "" where there is none."""
        if not put.found.sha256:
            return await self._refuse(put, too_large(put.found.sign.size, self._limits.upload_mb))
        try:
            name = self._name_for(put.path, self._memory.document(put.replaces))
            async with self._copied(put) as copy:
                since = await asyncio.to_thread(self._memory.intend, put.found.sha256)
                outcome = await backend.submit(copy, name, self._collection)
        except Changed:  # the next look finds it as it is then
            return ""
        except BadInput as error:
            return await self._refuse(put, str(error))
        if isinstance(outcome, RejectedShape):
            return await self._refuse(put, outcome.error)
        return await self._took(backend, put, outcome, since)

    async def _took(self, backend: Backend, put: Put, outcome: DocumentShape, since: float) -> str:
        known = self._memory.document(outcome.id)
        ours = not outcome.duplicate or (outcome.created is not None and outcome.created.timestamp() >= since)
        document = known or KnownDocument(outcome.id, outcome.name, put.path, put.found.sha256, ours)
        file = KnownFile(put.found.sign, put.found.sha256, outcome.id, terms=self._terms)
        await asyncio.to_thread(self._memory.took, put.path, file, document)
        self._names[document.name] = document.id
        deed: Deed = "known" if outcome.duplicate else "changed" if put.replaces else "added"
        self._tell(Done(deed, put.path, outcome.id, outcome.name))
        if put.replaces not in ("", outcome.id) and outcome.duplicate:  # no version of its own drops the former
            await self._remove(backend, Remove(put.replaces, ()))
        return outcome.id

    async def _refuse(self, put: Put, said: str) -> str:
        """Remember that it cannot be read; what it said before stays."""
        file = KnownFile(put.found.sign, put.found.sha256, put.replaces, refused=said, terms=self._terms)
        await asyncio.to_thread(self._memory.keep_files, {put.path: file})
        self._tell(Done("refused", put.path, said=said))
        return ""

    @contextlib.asynccontextmanager
    async def _copied(self, put: Put) -> AsyncGenerator[Path]:
        """A copy that nobody writes to any more. Changed where it is not what was looked at; DiskFull."""
        copy = self._aside / f"{put.found.sha256[:32]}-{abs(hash(put.path)):x}"
        try:
            await asyncio.to_thread(self._copy, put, copy)
            yield copy
        finally:
            with contextlib.suppress(OSError):  # what stays is removed by ``tidy``
                await asyncio.to_thread(copy.unlink)

    def _copy(self, put: Put, copy: Path) -> None:
        self._require_room(put)
        try:
            with opened(self._watched.root, put.path) as file, copy.open("wb") as target:
                if sign_of(file) != put.found.sign:
                    raise Changed
                shutil.copyfileobj(file, target, PIECE)
                if sign_of(file) != put.found.sign:
                    raise Changed
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"There is no room left on the disk for {put.path}") from None
            raise Changed from None

    def _require_room(self, put: Put) -> None:
        try:
            self._aside.mkdir(mode=0o700, exist_ok=True)
            free = shutil.disk_usage(self._aside).free
        except OSError as error:
            raise StoreBusy(f"{self._aside} cannot be made: {error.strerror}", "Check Perito's home") from None
        if free < put.found.sign.size + self._limits.free_disk_mb * MEGABYTE:
            raise DiskFull(f"There is no room left on the disk for {put.path}")

    # -- renaming and removing ----------------------------------------------------------------

    async def _rename_all(self, backend: Backend, renames: Iterable[Rename]) -> None:
        """Those first whose new name is free. Where they wait for each other's, one steps aside until it is."""
        waiting, aside, passed = deque(renames), list[Rename](), 0
        while waiting:
            rename = waiting.popleft()
            wanted = plain_name(rename.path)
            is_free = self._names.get(wanted, rename.document) == rename.document
            if not is_free and passed <= len(waiting):
                passed += 1
                waiting.append(rename)
                continue
            passed = 0
            await self._rename(backend, rename, wanted if is_free else self._free_name(rename.path, rename.document))
            aside += [] if is_free else [rename]
        for rename in aside:
            if self._names.get(wanted := plain_name(rename.path)) is None:
                await self._rename(backend, rename, wanted, patient=True)

    async def _rename(self, backend: Backend, rename: Rename, name: str, *, patient: bool = False) -> None:
        document = self._memory.document(rename.document)
        assert document is not None  # only those that are known are renamed, and this round forgets none of them
        called = document.name
        if document.brought and called != name:
            renamed = await self._renamed(backend, rename, document, name, patient)
            if renamed is None:
                self.later = True
                return
            called = renamed
        if self._names.get(document.name) == document.id:
            del self._names[document.name]
        self._names[called] = document.id
        before = self._memory.file(rename.path)
        file = KnownFile(rename.found.sign, rename.found.sha256, document.id, terms=self._terms)
        file = replace(file, refused=before.refused) if before and before.document == document.id else file
        renewed = replace(document, name=called, path=rename.path)
        await asyncio.to_thread(self._memory.moved, rename.path, file, rename.gone, renewed)
        self._tell(Done("renamed", rename.path, document.id, called, rename.former))

    async def _renamed(
        self, backend: Backend, rename: Rename, document: KnownDocument, name: str, patient: bool
    ) -> str | None:
        """What it is called now; None where it has to wait until it was read. One that was deleted stays so, and one
        for which no name is free keeps its own."""
        number = 1
        while number < MOST_NUMBERS:
            wanted = name if number == 1 else numbered(name, number)
            try:
                return (await backend.rename(rename.document, wanted)).name
            except NotFound:
                return wanted
            except BadRequest:
                if await self._is_read(backend, rename.document):
                    number += 1
                elif patient:
                    await backend.follow(rename.document, lambda _: None)
                else:
                    return None
        return document.name

    async def _is_read(self, backend: Backend, document_id: str) -> bool:
        found = await backend.documents(None, DocumentQuery(ids=frozenset({document_id})))
        return not found or found[0].status in ("complete", "partial", "failed")

    async def _remove(self, backend: Backend, remove: Remove) -> None:
        """Remove a document that this watch brought in, and its older versions that are still there."""
        document, going_too = self._memory.document(remove.document), frozenset(remove.paths)
        if document is None or self._memory.holders(document.id) - going_too:
            return
        versions = self._memory.versions(document.path)
        older = [one for one in versions if not self._memory.holders(one.id) - going_too]
        going = [document] if not remove.paths else older
        for one in {each.id: each for each in [document, *going] if each.brought}.values():
            await self._delete(backend, one)
        await asyncio.to_thread(self._memory.forget, remove.paths, [one.id for one in [document, *going]])
        if self._names.get(document.name) == document.id:
            del self._names[document.name]
        for path in remove.paths or (document.path,):
            self._tell(Done("removed", path, document.id, document.name))

    async def _delete(self, backend: Backend, document: KnownDocument) -> None:
        """Unless it was deleted or moved to another collection by somebody, or another watch still stands on it."""
        if await asyncio.to_thread(self._memory.held_elsewhere, document.id):
            await asyncio.to_thread(self._memory.hand_over, document.id)
            return
        query = DocumentQuery(ids=frozenset({document.id}))
        if await backend.documents(self._collection, query):
            with contextlib.suppress(NotFound):
                await backend.delete(document.id)

    async def was_read(self, document: DocumentShape) -> None:
        """A document came to its end. Once it is whole, the worker has dropped the versions it replaced."""
        if document.status != "complete":
            return
        mine = self._memory.document(document.id)
        if mine is None:
            return
        others = [one.id for one in self._memory.versions(mine.path) if one.id != mine.id]
        if gone := [one for one in others if not self._memory.holders(one)]:
            await asyncio.to_thread(self._memory.forget, (), gone)

    # -- names --------------------------------------------------------------------------------

    def _name_for(self, path: str, replaced: KnownDocument | None) -> str:
        """What the file's document is called: as its former version, which it replaces by that, else after its path."""
        wanted = plain_name(path)
        usual = (wanted, plain_name(path.rpartition("/")[2]))
        if replaced is not None and (replaced.brought or replaced.name in usual):
            return replaced.name
        name = self._free_name(path, "")
        self._names[name] = ""
        return name

    def _free_name(self, path: str, document_id: str) -> str:
        """After its path; where another watch's document is called so, with the watched folder's name before it; at
        last with a number."""
        wanted = plain_name(path)
        longer = plain_name(f"{self._watched.root.name}/{path}")
        for name in (wanted, longer, *(numbered(wanted, number) for number in range(2, MOST_NUMBERS))):
            if self._names.get(name, document_id or None) == (document_id or None):
                return name
        raise BadRequest(f"No name is free for {path}", "Watch it with another collection")


def plain_name(path: str) -> str:
    """A path as the name of a document, as the library names dropped folders: its parts joined by " › "."""
    shown = unicodedata.normalize("NFC", os.fsencode(path).decode("utf-8", "replace"))
    steps = ["".join(filter(str.isprintable, step)).replace("\\", "∖").strip() or "file" for step in shown.split("/")]
    return part_name(steps[0], "/".join(steps[1:]))


def numbered(name: str, number: int) -> str:
    """``name`` with a number before its ending."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem and JOINT not in ending else (name, "")
    mark = f" ({number})"
    return stem[: LONGEST_NAME - len(ending) - len(mark)] + mark + ending
