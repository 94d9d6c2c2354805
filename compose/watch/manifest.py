"""`--dry-run`: what `perito watch` or `perito ingest` would do now, and what that would take. Nothing is changed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assistant.core.domain import collection_name
from assistant.core.errors import TooLarge, TransientError
from assistant.core.ports import EVERY_DOCUMENT
from assistant.core.settings import Settings
from assistant.core.shapes import DocumentShape
from compose.backends import open_backend
from compose.estimates import Estimate, Estimator, History, open_estimator
from compose.watch.acting import plain_name
from compose.watch.folder import printable
from compose.watch.loop import Options, Parts, Told, Watch, open_watch
from compose.watch.plan import Plan, Put, make_plan
from compose.watch.survey import MEGABYTE, Survey

NOTHING = Estimate()
Action = Literal["add", "change", "known", "rename", "remove", "wait", "refuse"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the folder. ``size`` in bytes; ``said``: a former name, or why."""

    action: Action
    path: str
    size: int = 0
    estimate: Estimate = NOTHING
    said: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "path": printable(self.path),
            "size": self.size,
            **estimate_dict(self.estimate),
        } | {"said": self.said or self.estimate.refused or " ".join(self.estimate.notes)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What would change, by path within each action."""

    folder: Path
    collection: str
    entries: tuple[Entry, ...]

    @property
    def total(self) -> Estimate:
        return sum((entry.estimate for entry in self.entries), NOTHING)

    @property
    def counts(self) -> dict[str, int]:
        """Of entries, by action."""
        actions = [entry.action for entry in self.entries]
        return {action: actions.count(action) for action in dict.fromkeys(actions)}

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "collection": self.collection,
            "counts": self.counts,
            "total": estimate_dict(self.total),
            "changes": [entry.as_dict() for entry in self.entries],
        }


def estimate_dict(estimate: Estimate) -> dict[str, Any]:
    """For JSON; null is what cannot be known."""
    return {
        "pages": estimate.pages,
        "readers": {"text": 0, "ocr": 0, "vlm": 0} | estimate.readers,
        "seconds": None if estimate.seconds is None else round(estimate.seconds, 2),
        "visual_tokens": estimate.visual_tokens,
        "price": None if estimate.price is None else round(estimate.price, 6),
    }


async def make_manifest(
    settings: Settings, folder: Path, collection: str, options: Options, tell: Callable[[Told], None]
) -> Manifest:
    """TransientError where the folder is away; else what ``open_watch`` raises."""
    watch = Watch(settings, folder, collection, options, tell)
    async with open_watch(settings, folder, collection, options, threading.Event()) as parts:
        survey = await watch.rested(parts)
        if survey.away:
            raise TransientError(survey.away)
        plan = make_plan(survey, parts.memory.files(), parts.memory.documents(), parts.terms)
        entries = [*_unread(parts, plan, survey), *await _read(settings, parts, plan, collection_name(collection))]
        return Manifest(parts.watched.root, collection_name(collection), tuple(entries))


def _unread(parts: Parts, plan: Plan, survey: Survey) -> list[Entry]:
    """What changes without a page being read, and what is left for later."""
    documents = parts.memory.documents()
    removed = [Entry("remove", path, said=documents[one.document].name) for one in plan.removes for path in one.paths]
    renamed = [
        Entry("rename", one.path, one.found.sign.size, said=f"{documents[one.document].name} → {plain_name(one.path)}")
        for one in plan.renames
    ]
    waiting = [
        Entry("wait", path, sign.size, said="It is still being written.") for path, sign in survey.restless.items()
    ]
    return [*removed, *renamed, *sorted(waiting, key=lambda entry: entry.path)]


async def _read(settings: Settings, parts: Parts, plan: Plan, collection: str) -> list[Entry]:
    """What would be brought in."""
    async with open_backend(settings, reads=False) as backend:
        held = await backend.documents(collection, EVERY_DOCUMENT)
        history = History.of(held, await backend.usage(None))
    async with open_estimator(settings, history) as estimator:
        return await _estimated(parts, plan, held, estimator)


async def files_manifest(settings: Settings, files: Sequence[Path], collection: str) -> Manifest:
    """What `perito ingest` would do with ``files``. NotFound or PeritoError where one cannot be read."""
    from compose.reading import fingerprint

    collection = collection_name(collection)
    entries: list[Entry] = []
    async with open_backend(settings, reads=False) as backend:
        held = await backend.documents(collection, EVERY_DOCUMENT)
        history = History.of(held, await backend.usage(None))
    names = {document.sha256: document.name for document in held}
    async with open_estimator(settings, history) as estimator:
        for file in files:
            sha256 = await asyncio.to_thread(fingerprint, file)
            size = (await asyncio.to_thread(file.stat)).st_size
            if sha256 in names:
                entries.append(Entry("known", str(file), size, said=f"The collection holds it as {names[sha256]}."))
                continue
            names[sha256] = file.name
            estimate = await estimator.of(file, file.name)
            entries.append(Entry("refuse" if estimate.refused else "add", str(file), size, estimate))
    return Manifest(Path(os.path.commonpath([file.absolute().parent for file in files])), collection, tuple(entries))


async def _estimated(parts: Parts, plan: Plan, held: list[DocumentShape], estimator: Estimator) -> list[Entry]:
    names = {document.sha256: document.name for document in held}
    entries: list[Entry] = []
    for put in plan.puts:
        size = put.found.sign.size
        if put.found.sha256 in names:
            said = f"The collection holds it as {names[put.found.sha256]}."
            entries.append(Entry("known", put.path, size, said=said))
            continue
        names[put.found.sha256] = plain_name(put.path)
        estimate = await _estimate(parts, put, estimator)
        action: Action = "refuse" if estimate.refused else "change" if put.replaces else "add"
        entries.append(Entry(action, put.path, size, estimate))
        await asyncio.sleep(0)
    return entries


async def _estimate(parts: Parts, put: Put, estimator: Estimator) -> Estimate:
    most = parts.watched.upload_mb
    if not put.found.sha256:
        size = put.found.sign.size // MEGABYTE
        return Estimate(refused=str(TooLarge(f"It has {size} MB; the limit is {most} MB")))
    return await estimator.of(parts.watched.root / put.path, plain_name(put.path))
