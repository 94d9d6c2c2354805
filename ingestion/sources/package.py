"""A zip of XML parts, as Office Open XML and OpenDocument are: opened under limits, read part by part.

Nothing is unpacked to disk, no path of the archive is used as one, nothing outside the file is looked at, and
macros are parts like others that nobody asks for.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError

from assistant.core.errors import EncryptedFile, TooLarge, UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources import xmlparts
from ingestion.sources.unpacking import DAMAGED, is_bomb

_MOST_PARTS = 50_000
_LARGEST_TREE = 150_000_000  # bytes of XML held as a tree


@dataclass(frozen=True, slots=True)
class Relation:
    """What a part points to. ``outside``: a link out of the file, which is never followed."""

    kind: str  # the last word of its type: "image", "footnotes", …
    target: str
    outside: bool = False


class Package:
    """An open package. Thread-safe. ``problems`` gathers what could not be read of it, in words."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        self.name = name
        self.problems: list[str] = []
        try:
            self._zip = zipfile.ZipFile(path)
        except DAMAGED as error:
            raise UnreadableFile(f"{name} is damaged: it cannot be unpacked ({error})") from None
        try:
            self._entries = self._checked(limits)
        except BaseException:
            self._zip.close()
            raise

    def _checked(self, limits: LimitSettings) -> dict[str, zipfile.ZipInfo]:
        entries = self._zip.infolist()
        if len(entries) > _MOST_PARTS:
            raise TooLarge(f"{self.name} holds {len(entries)} parts; no document has so many")
        whole = sum(entry.file_size for entry in entries)
        if whole > limits.unpacked_mb * MEGABYTE:
            raise TooLarge(f"{self.name} unpacks to {whole / 1e6:.0f} MB; the limit is {limits.unpacked_mb} MB")
        for entry in entries:
            if is_bomb(entry.file_size, entry.compress_size):
                raise TooLarge(
                    f"{self.name} is a decompression bomb: {entry.filename[:80]} grows to "
                    f"{entry.file_size // max(1, entry.compress_size)} times its size",
                    "Do not open it; ask whoever sent it",
                )
        if any(entry.flag_bits & 1 for entry in entries):
            raise EncryptedFile(f"{self.name} is packed with a password", "Save a copy without one and send that")
        return {_key(entry.filename.replace("\\", "/")): entry for entry in entries}

    def close(self) -> None:
        self._zip.close()

    def __contains__(self, part: str) -> bool:
        return self._found(part) is not None

    def _found(self, part: str) -> zipfile.ZipInfo | None:
        return self._entries.get(_key(part))

    def size(self, part: str) -> int:
        """Bytes of a part unpacked; 0 when it is not there."""
        entry = self._found(part)
        return entry.file_size if entry else 0

    @contextmanager
    def _opened(self, part: str) -> Generator[BinaryIO]:
        entry = self._found(part)
        if entry is None:
            raise UnreadableFile(f"{self.name} is damaged: {part} is missing in it")
        try:
            with self._zip.open(entry) as stream:
                yield cast("BinaryIO", stream)
        except (*DAMAGED, ParseError) as error:
            if isinstance(error, xmlparts.ForbiddenXmlError):
                message = f"{self.name} is refused: {part} declares XML entities, which no office document does"
                raise UnreadableFile(message, "Do not open it; ask whoever sent it") from None
            raise UnreadableFile(f"{self.name} is damaged: {part} cannot be read ({error})") from None

    def data(self, part: str) -> bytes:
        """A part's bytes. UnreadableFile."""
        with self._opened(part) as stream:
            return stream.read()

    def tree(self, part: str) -> Element:
        """A part as a tree. UnreadableFile; TooLarge."""
        if self.size(part) > _LARGEST_TREE:
            raise TooLarge(f"{self.name} holds {self.size(part) / 1e6:.0f} MB of XML in {part}")
        with self._opened(part) as stream:
            return xmlparts.tree(stream)

    def tree_if_sound(self, part: str) -> Element | None:
        """As ``tree``; None when the part is not there or broken, which is noted: the rest can be read without."""
        if not part or part not in self:
            return None
        try:
            return self.tree(part)
        except (UnreadableFile, TooLarge) as error:
            if "is refused" in error.message:
                raise
            self.problems.append(error.message)
            return None

    def pieces(self, part: str, container: str | None = None, without: str = "", until: str = "") -> Iterator[Element]:
        """The children of an element of a part one at a time (``xmlparts.pieces``). UnreadableFile."""
        with self._opened(part) as stream:
            yield from xmlparts.pieces(stream, container, without, until)

    def pieces_within(self, part: str, container: str) -> Iterator[tuple[Element, Element]]:
        """The same of every such element, each child with its parent (``xmlparts.pieces_within``). UnreadableFile."""
        with self._opened(part) as stream:
            yield from xmlparts.pieces_within(stream, container)

    def relations(self, part: str) -> dict[str, Relation]:
        """What a part points to, by id; nothing where its list is missing or broken. "" is the package itself."""
        folder, base = posixpath.split(part)
        listed = self.tree_if_sound(posixpath.join(folder, "_rels", f"{base}.rels"))
        found: dict[str, Relation] = {}
        for each in listed if listed is not None else ():
            target, outside = each.get("Target", ""), each.get("TargetMode") == "External"
            if not outside:
                target = _joined(folder, unquote(target))
            found[each.get("Id", "")] = Relation(each.get("Type", "").rpartition("/")[2], target, outside)
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """The parts of one kind that a part points to."""
        return [
            each.target for each in self.relations(part).values() if each.kind == kind and not each.outside
        ]  # fmt: skip

    def main_part(self, usual: str) -> str:
        """The part the package is about, as its own list says, else the ``usual`` one."""
        told = [part for part in self.related("", "officeDocument") if part in self]
        return told[0] if told else usual


def _key(part: str) -> str:
    """A part's name as it is looked up: some programs differ in case between a part and what points to it."""
    return part.lstrip("/").casefold()


def _joined(folder: str, target: str) -> str:
    """A target, seen from its folder, as a part's name."""
    path = target if target.startswith("/") else posixpath.join("/", folder, target)
    return posixpath.normpath(path).lstrip("/")
