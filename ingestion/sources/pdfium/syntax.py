"""Just enough of PDF's syntax to take a damaged file apart: dictionaries, references, deflated streams.

Everything here is one pass over its bytes, whatever they hold. Syntax: ISO 32000-1, 7.2 and 7.3.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Possessive quantifiers: what was matched is never given back, so no input makes the search slow.
_GAP = rb"(?:[\s\0]++|%[^\r\n]*+)*+"
_TOKEN = re.compile(_GAP + rb"(<<|>>|[\[\](]|/[^\s\0()<>\[\]{}/%]*+|<[^<>]*+>|[^\s\0()<>\[\]{}/%]++|.)", re.DOTALL)
_REFERENCE = re.compile(rb"(?<![^\s\0\[\]<>()/])(\d{1,10})[\s\0]{1,20}(\d{1,5})[\s\0]{1,20}R(?![A-Za-z0-9])")
_REST_OF_REFERENCE = re.compile(rb"[\s\0]{1,20}\d{1,5}[\s\0]{1,20}R(?![A-Za-z0-9])")
_STRING_MARK = re.compile(rb"[()\\]")
_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The outermost entries of a dictionary, raw, and where it ends."""

    entries: dict[bytes, bytes]
    end: int

    def name(self, key: bytes) -> bytes:
        """A name without its slash; empty when there is none."""
        return self.entries.get(key, b"").strip().removeprefix(b"/")

    def integer(self, key: bytes) -> int | None:
        raw = self.entries.get(key, b"").strip()
        return int(raw) if raw.isdigit() and len(raw) < 12 else None

    def references(self, key: bytes) -> list[int]:
        return references(self.entries.get(key, b""))


def read_dictionary(data: bytes) -> Dictionary | None:
    """The dictionary at the start of ``data``; None when there is none, or it does not end."""
    opening = _TOKEN.match(data)
    if opening is None or opening[1] != b"<<":
        return None
    entries: dict[bytes, bytes] = {}
    position = opening.end()
    while (token := _TOKEN.match(data, position)) is not None:
        position = token.end()
        if token[1] == b">>":
            return Dictionary(entries, position)
        if not token[1].startswith(b"/"):
            continue  # not a key: what stands between the entries of a damaged dictionary is passed over
        following = _TOKEN.match(data, position)
        if following is not None and following[1] != b">>":
            end = _value_end(data, following)
            entries[token[1][1:]] = data[position:end]
            position = end
    return None


def _value_end(data: bytes, first: re.Match[bytes]) -> int:
    """Where the value that begins with this token ends; the end of the data when it does not."""
    if first[1].isdigit():
        rest = _REST_OF_REFERENCE.match(data, first.end())
        return rest.end() if rest else first.end()
    depth, token = 0, first
    while True:
        position = token.end()
        if token[1] == b"(":
            position = _string_end(data, position)
        depth += (token[1] in (b"<<", b"[")) - (token[1] in (b">>", b"]"))
        if depth <= 0:
            return position
        following = _TOKEN.match(data, position)
        if following is None:
            return len(data)
        token = following


def _string_end(data: bytes, position: int) -> int:
    depth = 1
    while (mark := _STRING_MARK.search(data, position)) is not None:
        position = mark.end() + (mark[0] == b"\\")
        depth += (mark[0] == b"(") - (mark[0] == b")")
        if depth == 0:
            return position
    return len(data)


def references(raw: bytes) -> list[int]:
    """The object numbers that a value refers to, in order."""
    return [int(found[1]) for found in _REFERENCE.finditer(raw)]


def inflate(data: memoryview, most: int) -> Iterator[bytes]:
    """A deflated stream in pieces, ``most`` bytes at the most. Where it is damaged it ends with a
    ``zlib.error``, after all that came before; where it was cut off it just ends."""
    decoder = zlib.decompressobj()
    position = 0
    while most > 0 and not decoder.eof:
        waiting = decoder.unconsumed_tail
        if not waiting:
            if position >= len(data):
                return
            waiting = bytes(data[position : position + 4096])
            position += len(waiting)
        before = decoder.copy()
        try:
            piece = decoder.decompress(waiting, min(most, _STEP))
        except zlib.error:
            yield from _bytewise(before, waiting, min(most, _STEP))
            raise
        most -= len(piece)
        if piece:
            yield piece


def _bytewise(decoder: Any, data: bytes, most: int) -> Iterator[bytes]:
    """What comes before the damage: a call that fails gives nothing, so the last one has to be small."""
    for value in data:
        try:
            piece = decoder.decompress(bytes((value,)), most)
        except zlib.error:
            return
        most -= len(piece)
        if piece:
            yield piece
        if most <= 0:
            return
