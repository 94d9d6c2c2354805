"""The content of a signed S/MIME message (CMS SignedData, RFC 5652), read without checking the signature."""

from __future__ import annotations

from dataclasses import dataclass

_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_OID, _OCTETS = 6, 4
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of BER: its tag's number, whether others lie in it, and where its content lies."""

    tag: int
    constructed: bool
    start: int
    end: int
    after: int


def signed_content(data: bytes) -> bytes | None:
    """What was signed; None where the bytes are something else, as an encrypted message."""
    try:
        info = _element(data, 0)
        kind, content = list(_children(data, info))[:2]
        if kind.tag != _OID or data[kind.start : kind.end] != _SIGNED_DATA:
            return None
        signed = next(iter(_children(data, content)))
        encapsulated = list(_children(data, signed))[2]
        octets = next(iter(_children(data, list(_children(data, encapsulated))[1])))
        return _octets(data, octets, 0)
    except (IndexError, ValueError, StopIteration):
        return None


def _element(data: bytes, place: int) -> _Element:
    tag, length = data[place], data[place + 1]
    start = place + 2
    if length == 0x80:  # its end is marked
        end = start
        while data[end : end + 2] != b"\0\0":
            end = _element(data, end).after
        return _Element(tag & 31, bool(tag & 32), start, end, end + 2)
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + length > len(data):
        raise ValueError("cut off")
    return _Element(tag & 31, bool(tag & 32), start, start + length, start + length)


def _children(data: bytes, element: _Element) -> list[_Element]:
    found: list[_Element] = []
    place = element.start
    while place < element.end:
        found.append(_element(data, place))
        place = found[-1].after
    return found


def _octets(data: bytes, element: _Element, depth: int) -> bytes:
    """A string that may come in pieces."""
    if element.tag != _OCTETS or depth > _DEEPEST:
        raise ValueError("no octet string")
    if not element.constructed:
        return data[element.start : element.end]
    return b"".join(_octets(data, piece, depth + 1) for piece in _children(data, element))
