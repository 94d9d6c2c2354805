"""Files within a file: what hangs on a mail, what lies in an archive. Each becomes a document of its own.

Their names are only names: nothing is ever written to a path that a file gives.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, runtime_checkable

LONGEST_PATH = 400  # letters


@dataclass(frozen=True, slots=True)
class Enclosure:
    """``path`` is what it is called inside; ``size`` in bytes, as the file claims. ``left_out`` says why it does not
    become a document; "" where it does. ``lost``: something that someone may miss is left out with it."""

    path: str
    size: int
    left_out: str = ""
    lost: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.replace("\\", "/").rstrip("/").rpartition("/")[2] or self.path


@dataclass(frozen=True, slots=True)
class Enclosed:
    """An enclosure with its bytes. ``open`` may raise UnreadableFile, and so may reading what it gives."""

    about: Enclosure
    open: Callable[[], BinaryIO] = field(repr=False)


@runtime_checkable
class Container(Protocol):
    """A source with files within."""

    enclosed: Sequence[Enclosed]


def held(data: bytes) -> Callable[[], BinaryIO]:
    """Opens bytes that are there already."""
    return lambda: io.BytesIO(data)


def plain_path(name: str) -> str:
    """A name as it can be shown: one line, nothing unseen, no root and no way up."""
    shown = "".join(letter for letter in name.replace("\\", "/") if letter.isprintable())
    steps = [step.strip() for step in shown.split("/") if step.strip() not in ("", ".", "..")]
    return "/".join(steps)[-LONGEST_PATH:] or "file"


def told_apart(paths: Sequence[str]) -> list[str]:
    """The paths, with a number before the ending of those that are called like one before."""
    taken: set[str] = set()
    told: list[str] = []
    for path in paths:
        folder, slash, name = path.rpartition("/")
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (name, "")
        called, number = path, 2
        while called in taken:
            called, number = f"{folder}{slash}{stem} ({number}){ending}", number + 1
        taken.add(called)
        told.append(called)
    return told


def shown_size(size: int) -> str:
    """A size in bytes for people."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1_000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
