"""TAR archives, plain or packed as a whole (gzip, bzip2, xz), and single files packed that way."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from assistant.core.errors import TooLarge, UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.archives.entries import Entry, within_limits
from ingestion.sources.archives.listing import ArchiveSource

_BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError, KeyError)
_MOST_ENTRIES = 200_000
_PIECE = MEGABYTE
_BLOCK = 512
_ENDINGS = {"gzip": (".gz", ".tgz"), "bzip2": (".bz2", ".tbz2", ".tbz"), "xz": (".xz", ".txz")}
_MEDIA = {"": "application/x-tar", "gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


class Full(Exception):
    """More was unpacked than the limit allows."""


class Bounded:
    """A file that ends the reading behind ``most`` bytes. tarfile asks for these methods."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most

    def read(self, size: int = -1) -> bytes:
        if self._file.tell() + max(size, 0) > self._most:
            raise Full
        return self._file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0 and place > self._most:
            raise Full
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def is_tar(head: bytes) -> bool:
    """Whether a block is the header of a TAR archive, by its checksum."""
    try:
        told = int(head[148:156].strip(b"\0 ") or b"0", 8)
    except ValueError:
        return False
    block = head[:148] + b" " * 8 + head[156:_BLOCK]
    return len(block) == _BLOCK and head[0] != 0 and told == sum(block)


def unpacked(path: Path, packing: str) -> BinaryIO:
    """The file without what packs it as a whole: "", "gzip", "bzip2" or "xz"."""
    openers = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    return cast("BinaryIO", openers[packing](path, "rb")) if packing else path.open("rb")


def open_packed(path: Path, name: str, packing: str, limits: LimitSettings) -> ArchiveSource:
    """A TAR archive, or the one file that is packed. UnreadableFile, EmptyFile, TooLarge."""
    with Forgiving(unpacked(path, packing)) as file:
        head = file.read(_BLOCK)
    return TarSource(path, name, packing, limits) if is_tar(head) else _single(path, name, packing, limits)


class TarSource(ArchiveSource):
    """A TAR archive."""

    def __init__(self, path: Path, name: str, packing: str, limits: LimitSettings) -> None:
        file = Bounded(unpacked(path, packing), limits.unpacked_mb * MEGABYTE + _PIECE)
        self._tar = tarfile.open(fileobj=cast("BinaryIO", file), mode="r:", errors="surrogateescape")  # noqa: SIM115
        self._file = file
        entries, problem = [], ""
        try:
            entries += self._entries()
        except Full:
            problem = f"Only the first {limits.unpacked_mb} MB of {name} were looked at."
        except _BROKEN as error:
            problem = f"{name} is cut off or damaged ({error}): only what stands before that was read."
        kind = f"TAR archive ({packing})" if packing else "TAR archive"
        try:
            super().__init__(within_limits(entries, limits), name, kind, _MEDIA[packing], problem, limits)
        except BaseException:
            self.close()
            raise

    def _entries(self) -> Iterator[Entry]:
        for count, member in enumerate(self._tar):
            if count >= _MOST_ENTRIES:
                raise Full
            if member.isdir():
                continue
            name = _name_of(member.name.encode("utf-8", "surrogateescape"))
            if member.isreg():
                yield Entry(name, member.size, open=partial(self._opened, member))
            else:
                what = "a link, which is not followed" if member.issym() or member.islnk() else "a device, no file"
                yield Entry(name, 0, obstacle=what, lost=False)

    def _opened(self, member: tarfile.TarInfo) -> BinaryIO:
        try:
            stream = self._tar.extractfile(member)
        except (Full, *_BROKEN) as error:
            raise UnreadableFile(f"{member.name} cannot be unpacked ({error})") from None
        if stream is None:
            raise UnreadableFile(f"{member.name} is no file")
        return cast("BinaryIO", stream)

    def close(self) -> None:
        self._tar.close()
        self._file.close()


def _name_of(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _single(path: Path, name: str, packing: str, limits: LimitSettings) -> ArchiveSource:
    """The one file in it; its size is only known when it is unpacked."""
    size, problem = _measured(path, name, packing, limits), ""
    if size < 0:
        size, problem = -size - 1, f"{name} is cut off or damaged: only what stands before that was read."
    if size == 0 and problem:
        raise UnreadableFile(f"{name} is damaged: nothing in it can be unpacked")
    stem = next((name[: -len(e)] for e in _ENDINGS[packing] if name.lower().endswith(e)), "") or f"{name}.unpacked"
    entry = Entry(stem, size, path.stat().st_size, open=partial(_forgiving, path, packing))
    return ArchiveSource(
        within_limits([entry], limits), name, f"File packed with {packing}", _MEDIA[packing], problem, limits
    )


def _forgiving(path: Path, packing: str) -> BinaryIO:
    return cast("BinaryIO", Forgiving(unpacked(path, packing)))


class Forgiving:
    """A packed file that ends where it is broken."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.broke = False

    def read(self, size: int = -1) -> bytes:
        pieces: list[bytes] = []
        left = size if size >= 0 else 1 << 62
        try:
            while left > 0 and (piece := cast("io.BufferedIOBase", self._file).read1(min(left, _PIECE))):
                pieces.append(piece)
                left -= len(piece)
        except _BROKEN:
            self.broke = True
        return b"".join(pieces)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Forgiving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _measured(path: Path, name: str, packing: str, limits: LimitSettings) -> int:
    """Bytes unpacked; below zero (``-size - 1``) where it breaks off there. TooLarge."""
    size = 0
    most = min(limits.upload_mb, limits.unpacked_mb) * MEGABYTE
    with Forgiving(unpacked(path, packing)) as file:
        while data := file.read(_PIECE):
            size += len(data)
            if size > most:
                raise TooLarge(f"{name} unpacks to more than {most // MEGABYTE} MB, which is the limit")
        return -size - 1 if file.broke else size
