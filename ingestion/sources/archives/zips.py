"""ZIP archives. One that is cut off has lost its table of contents: its files are then found one after the other."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from assistant.core.errors import UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.archives.entries import Entry, within_limits
from ingestion.sources.archives.listing import LOCKED, ArchiveSource
from ingestion.sources.unpacking import DAMAGED

BROKEN = (*DAMAGED, KeyError)
_MOST_ENTRIES = 200_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_UTF8, _LOCKED = 0x800, 0x1
_UNICODE_PATH = 0x7075
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MARK = b"PK\x03\x04"
_SIZE_FOLLOWS = 0x8
_PIECE = MEGABYTE


class ZipSource(ArchiveSource):
    """A ZIP archive. UnreadableFile, EncryptedFile, EmptyFile."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        problem = ""
        self._zip: zipfile.ZipFile | None = None
        try:
            self._zip = zipfile.ZipFile(path)
            entries = [_entry(self._zip, info) for info in self._zip.infolist()[:_MOST_ENTRIES] if not _is_folder(info)]
        except BROKEN as error:
            if isinstance(error, FileNotFoundError):
                raise
            entries = list(found_one_by_one(path, limits.unpacked_mb * MEGABYTE))
            problem = f"{name} is cut off or damaged: only what could still be found in it was read."
        if problem and not entries:
            raise UnreadableFile(f"{name} is a damaged ZIP archive: no file could be found in it")
        super().__init__(within_limits(entries, limits), name, "ZIP archive", "application/zip", problem, limits)

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()


def _is_folder(info: zipfile.ZipInfo) -> bool:
    return info.filename.endswith("/")  # is_dir() fails where the name is empty


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    obstacle, lost = "", True
    if stat.S_ISLNK(info.external_attr >> 16):
        obstacle, lost = "a link, which is not followed", False
    elif info.flag_bits & _LOCKED:
        obstacle = LOCKED
    elif info.compress_type not in _METHODS:
        obstacle = "packed in a way that is not read"
    return Entry(entry_name(info), info.file_size, info.compress_size, obstacle, lost, partial(_opened, archive, info))


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    try:
        return cast("BinaryIO", archive.open(info))
    except BROKEN as error:
        raise UnreadableFile(f"{entry_name(info)} cannot be unpacked ({error})") from None


def entry_name(info: zipfile.ZipInfo) -> str:
    """An entry's name. Without the mark for UTF-8 it may be that all the same, or an old code page: Windows packs in
    850 where Europe's letters matter, which differs from 437 in a few."""
    told = _unicode_path(info.extra)
    if told:
        return told
    if info.flag_bits & _UTF8 or info.orig_filename.isascii():
        return info.orig_filename
    return _name_of(info.orig_filename.encode("cp437", "replace"))


def _name_of(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        old, european = raw.decode("cp437"), raw.decode("cp850", "replace")
        return old if _letters(old) >= _letters(european) else european


def _letters(text: str) -> int:
    return sum(letter.isalpha() and letter < "\u0250" for letter in text)


def _unicode_path(extra: bytes) -> str:
    """The name in UTF-8 that some packers keep beside the other."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, place)
        if kind == _UNICODE_PATH and size > 5:
            return extra[place + 9 : place + 4 + size].decode("utf-8", "replace")
        place += 4 + size
    return ""


# -- without a table of contents ---------------------------------------------------------------


def found_one_by_one(path: Path, most: int) -> Iterator[Entry]:
    """The files that begin in what is left of an archive, unpacked into memory, ``most`` bytes in all; the last may
    be cut off."""
    with path.open("rb") as file:
        while most > 0:
            head = file.read(_LOCAL.size)
            if len(head) < _LOCAL.size or not head.startswith(_LOCAL_MARK):
                return
            _, _, flags, method, _, _, _, packed, size, name_size, extra_size = _LOCAL.unpack(head)
            raw, extra = file.read(name_size), file.read(extra_size)
            name = _unicode_path(extra) or (raw.decode("utf-8", "replace") if flags & _UTF8 else _name_of(raw))
            known = None if flags & _SIZE_FOLLOWS else packed
            if flags & _LOCKED or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or packed == 0xFFFFFFFF:
                if known is None:
                    return
                file.seek(known, io.SEEK_CUR)
                yield Entry(name, size, packed, LOCKED if flags & _LOCKED else "packed in a way that is not read")
                continue
            data = _stored(file, known) if method == zipfile.ZIP_STORED else _inflated(file, known, most)
            most -= len(data)
            if flags & _SIZE_FOLLOWS:
                _skip_sizes(file)
            if not name.endswith("/"):
                whole = Entry(name, len(data), open=partial(io.BytesIO, data))
                yield whole if data or not size else Entry(name, size, obstacle="cut off")


def _stored(file: BinaryIO, packed: int | None) -> bytes:
    return file.read(packed) if packed is not None else b""


def _inflated(file: BinaryIO, packed: int | None, most: int) -> bytes:
    """What can be inflated from here; the file stands behind it afterwards."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    start, pieces, size = file.tell(), [], 0
    left = packed if packed is not None else 1 << 62
    try:
        while left > 0 and not inflater.eof and size <= most:
            data = inflater.unconsumed_tail or file.read(min(_PIECE, left))
            if not data:
                break
            if not inflater.unconsumed_tail:
                left -= len(data)
            pieces.append(inflater.decompress(data, _PIECE))
            size += len(pieces[-1])
    except zlib.error:
        pass
    unused = len(inflater.unused_data)
    file.seek(start + packed if packed is not None else file.tell() - unused)
    return b"".join(pieces) if size <= most else b""


def _skip_sizes(file: BinaryIO) -> None:
    """Behind an entry whose sizes were not known before: a checksum and the sizes, with or without a mark."""
    place = file.tell()
    after = file.read(28)
    found = after.find(_LOCAL_MARK, 8)
    file.seek(place + (found if found >= 0 else len(after)))
