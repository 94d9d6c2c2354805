"""Compound files as [MS-CFB] describes them, and Outlook messages in them: enough to write what Outlook would."""

from __future__ import annotations

import struct
from collections.abc import Mapping

Tree = Mapping[str, "bytes | Tree"]
END, FREE, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF
SECTOR, SMALL = 512, 64


def compound(tree: Tree) -> bytes:
    """A file of version 3 whose streams all lie in the mini stream."""
    entries: list[bytes] = [b""]
    small, chain = bytearray(), []

    def add(name: str, kind: int, child: int, right: int, start: int, size: int, place: int | None = None) -> int:
        raw = (name + "\0").encode("utf-16-le")
        head = raw.ljust(64, b"\0") + struct.pack("<HBBIII", len(raw), kind, 1, NONE, right, child)
        entry = head + bytes(16 + 4 + 8 + 8) + struct.pack("<IQ", start, size)
        if place is None:
            entries.append(entry)
            return len(entries) - 1
        entries[place] = entry
        return place

    def children(level: Tree) -> int:
        following = NONE
        for name, value in sorted(level.items(), reverse=True):
            if isinstance(value, bytes):
                start = len(small) // SMALL if value else END
                count = -(-len(value) // SMALL)
                chain.extend([*range(start + 1, start + count), END] if value else [])
                small.extend(value.ljust(count * SMALL, b"\0"))
                following = add(name, 2, NONE, following, start, len(value))
            else:
                inner = children(value)
                following = add(name, 1, inner, following, 0, 0)
        return following

    first = children(tree)
    add("Root Entry", 5, first, NONE, 0, len(small), 0)
    pieces = [
        b"".join(entries).ljust(-(-len(entries) // 4) * SECTOR, b"\0"),
        b"".join(struct.pack("<I", each) for each in chain).ljust(-(-len(chain) * 4 // SECTOR) * SECTOR, b"\xff"),
        bytes(small).ljust(-(-len(small) // SECTOR) * SECTOR, b"\0"),
    ]
    counts = [len(piece) // SECTOR for piece in pieces]
    starts = [sum(counts[:index]) for index in range(3)]
    table: list[int] = []
    for start, count in zip(starts, counts, strict=True):
        table += [*range(start + 1, start + count), END] if count else []
    tables = 1
    while (len(table) + tables) * 4 > tables * SECTOR:
        tables += 1
    at = len(table)
    table += [0xFFFFFFFD] * tables
    fat = b"".join(struct.pack("<I", each) for each in table).ljust(tables * SECTOR, b"\xff")
    root = entries[0][:116] + struct.pack("<IQ", starts[2], len(small))
    pieces[0] = root + pieces[0][128:]
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack(
        "<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, tables, starts[0], 0, 4096, starts[1], counts[1], END, 0
    )
    header += b"".join(struct.pack("<I", at + index) for index in range(tables))
    return header.ljust(SECTOR, b"\xff") + b"".join(pieces) + fat


def properties(head: int, numbers: Mapping[int, int]) -> bytes:
    """A stream of fixed properties: 32-bit numbers, and times where they are larger."""
    entries = [
        struct.pack("<HHIQ", 0x0040 if value >> 32 else 0x0003, prop, 6, value) for prop, value in numbers.items()
    ]
    return bytes(head) + b"".join(entries)


def storage(
    head: int, texts: Mapping[int, str], numbers: Mapping[int, int] | None = None, **more: bytes | Tree
) -> Tree:
    """A message (``head`` 32, within another 24), a recipient or an attachment (8)."""
    streams: dict[str, bytes | Tree] = {"__properties_version1.0": properties(head, numbers or {})}
    streams |= {f"__substg1.0_{prop:04X}001F": text.encode("utf-16-le") for prop, text in texts.items()}
    return streams | {f"__{name}": value for name, value in more.items()}
