"""Files found in a document (what hangs on a mail, what lies in an archive) become documents of their own.

Each is accepted as if someone had handed it in, and knows its parent. A part that cannot be read never fails its
parent: the parent says which it was and why. Taking the same again finds everything there already.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Access, Document
from assistant.core.errors import BadInput
from assistant.core.ports import Upload
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.openfiles import OpenFile
from ingestion.sources.enclosed import Enclosure

Accept = Callable[[Upload], Awaitable[None]]

JOINT = " › "  # between the name of a parent and the path within
LONGEST_NAME = 200
_MOST_NAMED = 10
T = TypeVar("T")
EVERYTHING = Access("worker", None)


@dataclass
class Taking:
    """What became of a document's parts. ``left_out`` in sentences; ``lost``: someone may miss something."""

    taken: int = 0
    left_out: list[str] = field(default_factory=list[str])
    lost: bool = False

    @property
    def told(self) -> str:
        """What was left out, for the parent's error; "" where nothing was."""
        named = self.left_out[:_MOST_NAMED]
        more = len(self.left_out) - len(named)
        return " ".join([*named, *([f"And {more} more of its files were left out."] if more else [])])


class Parts:
    """Takes parts out of open files, within ``limits.parts``, ``limits.part_depth`` and ``limits.unpacked_mb``,
    which count for the whole that was handed in, with everything in everything in it."""

    def __init__(self, catalogue: SqlCatalogue, blobs: FolderBlobStore, limits: LimitSettings) -> None:
        self._catalogue = catalogue
        self._blobs = blobs
        self._limits = limits
        self._counting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take(self, parent: Document, file: OpenFile, accept: Accept) -> Taking:
        """Hand every part of ``file`` to ``accept``, one after the other, as an upload of the parent's collection.
        What ``accept`` refuses is told; TransientError goes through, to be tried again from the beginning."""
        enclosures = (await asyncio.wrap_future(file.about)).enclosures
        wanted = [index for index, each in enumerate(enclosures) if not each.left_out]
        taking = Taking()
        if not wanted:
            return taking
        above = await asyncio.to_thread(self._catalogue.ancestors, parent.id)
        depth = len(above)
        if depth >= self._limits.part_depth:
            taking.lost = True
            taking.left_out.append(
                f"Not opened: {len(wanted)} files in it, which lie deeper than {depth} archives or mails within each "
                "other."
            )
            return taking
        eldest = above[-1] if above else parent.id
        async with self._counting.setdefault(eldest, asyncio.Lock()):  # what lies in one file is counted together
            room = await asyncio.to_thread(self._room, parent, eldest)
            for index in wanted:
                if not room.takes(enclosures[index].size):
                    taking.lost = True
                    taking.left_out.append(room.told(len(wanted) - taking.taken - len(taking.left_out), self._limits))
                    break
                await self._take_one(parent, file, index, enclosures[index], accept, taking)
        return taking

    def _room(self, parent: Document, eldest: str) -> Room:
        """What may still be taken out of ``parent``, which was handed in within ``eldest``."""
        count, size = self._catalogue.family(eldest)
        mine = self._catalogue.parts(parent.id, EVERYTHING)  # taken before a crash, or when it was read before
        files = self._limits.parts - count + len(mine)
        return Room(files, self._limits.unpacked_mb * MEGABYTE - size + sum(each.size for each in mine))

    async def _take_one(
        self, parent: Document, file: OpenFile, index: int, about: Enclosure, accept: Accept, taking: Taking
    ) -> None:
        name = part_name(parent.name, about.path)
        try:
            async with _in_threads(self._blobs.aside()) as copy:
                await asyncio.wrap_future(file.extract(index, copy, self._limits.upload_mb * MEGABYTE))
                await asyncio.to_thread(copy.flush)
                await accept(Upload(Path(copy.name), name, parent.collection, parent=parent.id))
                taking.taken += 1
        except BadInput as error:
            taking.left_out.append(not_read(about.path, name, error.message))


@dataclass
class Room:
    """How many files, and how many bytes, may still be taken."""

    files: int
    size: int

    def takes(self, size: int) -> bool:
        """Whether a file has room; then it has it."""
        if self.files < 1 or size > self.size:
            return False
        self.files, self.size = self.files - 1, self.size - size
        return True

    def told(self, count: int, limits: LimitSettings) -> str:
        """Why the last ``count`` were not taken."""
        limit = f"{limits.parts} files" if self.files < 1 else f"{limits.unpacked_mb} MB unpacked"
        return f"Left out: the last {count} of its files, since more than {limit} are not taken out of one file."


def part_name(parent: str, path: str) -> str:
    """What a part is called: its parent, then its path. One that would be too long is cut in the middle, with a mark
    that tells it from others cut the same way."""
    steps = [step for step in re.split(r"[/\\]", path) if step]
    name = JOINT.join([parent, *steps])
    if len(name) <= LONGEST_NAME:
        return name
    mark = f"…{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}…"
    end = min(120, LONGEST_NAME - len(mark) - 20)
    return name[: LONGEST_NAME - len(mark) - end] + mark + name[-end:]


def not_read(path: str, name: str, message: str) -> str:
    """That a part was not read, and why, in one sentence: ``message`` about ``name``, said of its path within. In two
    where the message does not name the file."""
    said = message.replace(name, path)
    if said.startswith(f"{path} "):
        return f"Not read: {said}."
    return f"Not read: {said[:1].lower()}{said[1:]}." if name in message else f"Not read: {path}. {said}."


@asynccontextmanager
async def _in_threads(manager: AbstractContextManager[T]) -> AsyncGenerator[T]:
    """A context whose beginning and end touch the disk."""
    held = await asyncio.to_thread(manager.__enter__)
    try:
        yield held
    except BaseException as error:
        if not await asyncio.to_thread(manager.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)
