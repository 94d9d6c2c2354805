"""`--dry-run`: what `perito watch` or `perito ingest` would do now, and what that would take. Nothing is changed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from assistant.core.domain import collection_name
from assistant.core.errors import TransientError
from assistant.core.ports import EVERY_DOCUMENT
from assistant.core.settings import Settings
from compose.backends import open_backend
from compose.estimates import Estimate, Estimator, History, open_estimator
from compose.watch.acting import plain_name
from compose.watch.folder import printable
from compose.watch.loop import Options, Parts, Told, Watch, open_watch
from compose.watch.plan import Plan, Put, make_plan
from compose.watch.survey import Survey, too_large

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
            "said": printable(self.said or self.estimate.refused or " ".join(self.estimate.notes)),
        }


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
            "folder": printable(str(self.folder)),
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
        items = [_item(parts, put) for put in plan.puts]
        entries = [*_unread(parts, plan, survey), *await _read(settings, items, collection_name(collection))]
        return Manifest(parts.watched.root, collection_name(collection), tuple(entries))


def _item(parts: Parts, put: Put) -> Item:
    file = parts.watched.root / put.path
    return Item(put.path, file, plain_name(put.path), put.found.sign.size, put.found.sha256, bool(put.replaces))


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


async def files_manifest(settings: Settings, files: Sequence[Path], collection: str, password: str = "") -> Manifest:
    """What `perito ingest` would do with ``files``. NotFound or PeritoError where one cannot be read."""
    from compose.reading import fingerprint

    collection = collection_name(collection)
    items: list[Item] = []
    for file in files:
        sha256 = await asyncio.to_thread(fingerprint, file)
        size = (await asyncio.to_thread(file.stat)).st_size
        items.append(Item(str(file), file, file.name, size, sha256, password=password))
    folder = Path(os.path.commonpath([file.absolute().parent for file in files]))
    return Manifest(folder, collection, tuple(await _read(settings, items, collection)))


@dataclass(frozen=True, slots=True)
class Item:
    """A file that would be brought in. ``sha256`` is "" for one that is not even read, being too large."""

    path: str
    file: Path
    name: str
    size: int
    sha256: str
    replaces: bool = False
    password: str = ""


async def _read(settings: Settings, items: Sequence[Item], collection: str) -> list[Entry]:
    """What would become of files that are brought in, in their order."""
    async with open_backend(settings, reads=False) as backend:
        held = await backend.documents(collection, EVERY_DOCUMENT)
        history = History.of(held, await backend.usage(None))
    known = {document.sha256: f"The collection holds it as {document.name}." for document in held}
    entries: list[Entry] = []
    async with open_estimator(settings, history) as estimator:
        for item in items:
            entry = await _entry(item, known, estimator, settings.limits.upload_mb)
            entries.append(entry)
            if entry.action != "refuse":
                known.setdefault(item.sha256, f"It is the same as {item.path}.")
    return entries


async def _entry(item: Item, known: Mapping[str, str], estimator: Estimator, most_mb: int) -> Entry:
    if not item.sha256:
        return Entry("refuse", item.path, item.size, Estimate(refused=too_large(item.size, most_mb)))
    if item.sha256 in known:
        return Entry("known", item.path, item.size, said=known[item.sha256])
    estimate = await estimator.of(item.file, item.name, item.password)
    action: Action = "refuse" if estimate.refused else "change" if item.replaces else "add"
    return Entry(action, item.path, item.size, estimate)
