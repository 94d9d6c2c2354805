"""Entries of an archive held against the limits: which become documents, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.enclosed import Enclosed, Enclosure, plain_path, told_apart
from ingestion.sources.unpacking import is_bomb

_LEFTOVERS = (".ds_store", "thumbs.db", "desktop.ini", ".directory")
_LEFTOVER_FOLDERS = ("__macosx/", "@eadir/", ".git/")


@dataclass(frozen=True, slots=True)
class Entry:
    """What an archive says of one of its files. ``packed``: its size within, 0 where that is not told. ``obstacle``:
    why it cannot be read, "" where it can; ``lost`` whether that loses a file (a link does not)."""

    path: str
    size: int
    packed: int = 0
    obstacle: str = ""
    lost: bool = True
    open: Callable[[], BinaryIO] | None = field(default=None, repr=False)


def within_limits(entries: Iterable[Entry], limits: LimitSettings) -> list[Enclosed]:
    """All entries, those that are left out with the reason. Nothing is unpacked here."""
    entries = list(entries)
    paths = told_apart([plain_path(entry.path) for entry in entries])
    named = [replace(entry, path=path) for entry, path in zip(entries, paths, strict=True)]
    return list(_counted(named, limits))


def _counted(entries: Sequence[Entry], limits: LimitSettings) -> Iterator[Enclosed]:
    taken, unpacked = 0, 0
    for entry in entries:
        reason, lost = _reason(entry, limits)
        if not reason and taken >= limits.parts:
            reason, lost = f"more than {limits.parts} files, which is the limit", True
        if not reason and unpacked + entry.size > limits.unpacked_mb * MEGABYTE:
            reason, lost = f"over the limit of {limits.unpacked_mb} MB unpacked", True
        if not reason:
            taken, unpacked = taken + 1, unpacked + entry.size
        yield Enclosed(Enclosure(entry.path, entry.size, reason, lost), entry.open or _nothing)


def _reason(entry: Entry, limits: LimitSettings) -> tuple[str, bool]:
    """Why an entry is left out by itself, and whether that loses something."""
    path = f"{entry.path.lower()}"
    if path.rpartition("/")[2] in _LEFTOVERS or any(folder in f"{path}/" for folder in _LEFTOVER_FOLDERS):
        return "left there by a program", False
    if entry.obstacle:
        return entry.obstacle, entry.lost
    if entry.size == 0:
        return "empty", False
    if entry.size > limits.upload_mb * MEGABYTE:
        return f"larger than {limits.upload_mb} MB", True
    if entry.packed and is_bomb(entry.size, entry.packed):
        return f"a decompression bomb: it grows to {entry.size // entry.packed} times its size", True
    return "", False


def _nothing() -> BinaryIO:
    raise ValueError("what is left out is not opened")


def losses(enclosed: Sequence[Enclosed]) -> str:
    """One sentence about what is lost; "" where nothing is."""
    reasons = Counter(each.about.left_out for each in enclosed if each.about.lost)
    if not reasons:
        return ""
    told = "; ".join(f"{count} {_files(count)} ({reason})" for reason, count in reasons.most_common(6))
    return f"Left out: {told}."


def _files(count: int) -> str:
    return "file" if count == 1 else "files"
