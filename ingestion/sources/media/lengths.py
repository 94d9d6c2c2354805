"""How long a recording is, as its file says. Only headers are read, a few hundred kilobytes at most."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_HEADER = 256_000  # bytes in which a header has to stand
_TAIL = 128_000
_MOST_BOXES = 10_000
_LONGEST = 7 * 24 * 3600.0  # seconds; what says more is not believed
_MP3_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_MP3_KBITS = {
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1, layer III
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


def length_of(path: Path, media_type: str) -> float | None:
    """Its length in seconds; None where the file does not say it, or says nonsense."""
    measure = _MEASURES.get(media_type)
    if measure is None:
        return None
    try:
        with path.open("rb") as file:
            length = measure(file, path.stat().st_size)
    except (struct.error, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    return length if length is not None and math.isfinite(length) and 0 < length <= _LONGEST else None


def _wav(file: BinaryIO, size: int) -> float | None:
    """Bytes of sound by bytes a second."""
    file.seek(12)
    rate = 0
    for _ in range(_MOST_BOXES):
        head = file.read(8)
        if len(head) < 8:
            return None
        name, length, begin = head[:4], struct.unpack("<I", head[4:])[0], file.tell()
        if name == b"fmt ":
            rate = struct.unpack("<I", file.read(12)[8:])[0]
        elif name == b"data":
            left = size - begin
            return min(length or left, left) / rate  # what was written in one go may not know its length
        file.seek(begin + length + length % 2)
    return None


def _flac(file: BinaryIO, _: int) -> float | None:
    file.seek(8)
    packed = int.from_bytes(file.read(34)[10:18], "big")  # rate: 20 bits, channels: 3, bits: 5, samples: 36
    return (packed & ((1 << 36) - 1)) / (packed >> 44)


def _ogg(file: BinaryIO, size: int) -> float | None:
    """The last page's position, in samples of the first page's rate."""
    head = file.read(4096)
    if (place := head.find(b"OpusHead")) >= 0:
        rate, skipped = 48_000, struct.unpack_from("<H", head, place + 10)[0]
    elif (place := head.find(b"\x01vorbis")) >= 0:
        rate, skipped = struct.unpack_from("<I", head, place + 12)[0], 0
    else:
        return None
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    last = tail.rfind(b"OggS")
    return (struct.unpack_from("<q", tail, last + 6)[0] - skipped) / rate if last >= 0 else None


def _mp4(file: BinaryIO, size: int) -> float | None:
    for name, begin, end in _boxes(file, 0, size):
        if name == b"moov":
            for inner, start, _ in _boxes(file, begin, end):
                if inner == b"mvhd":
                    return _movie_header(file, start)
    return None


def _movie_header(file: BinaryIO, start: int) -> float:
    file.seek(start)
    head = file.read(32)
    scale, length = struct.unpack_from(">IQ" if head[0] == 1 else ">II", head, 20 if head[0] == 1 else 12)
    return length / scale


def _boxes(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Names, beginnings and ends of what the boxes between two places hold."""
    for _ in range(_MOST_BOXES):
        file.seek(begin)
        head = file.read(16)
        if begin >= end or len(head) < 8:
            return
        length, skipped = struct.unpack(">I", head[:4])[0], 8
        if length == 1:
            length, skipped = struct.unpack(">Q", head[8:16])[0], 16
        length = length or end - begin
        if length < skipped:
            return
        yield head[4:8], begin + skipped, min(end, begin + length)
        begin += length


def _mp3(file: BinaryIO, size: int) -> float | None:
    """Frames where the first one counts them (Xing, Info, VBRI), else the bytes at the first one's rate."""
    head = file.read(10)
    begin = 0
    if head[:3] == b"ID3":
        begin = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
    file.seek(begin)
    data = file.read(_HEADER)
    place = next((at for at in range(len(data) - 4) if _is_frame(data, at)), None)
    if place is None:
        return None
    version, code = data[place + 1] >> 3 & 3, data[place + 2]
    rate = _MP3_RATES[version][code >> 2 & 3]
    samples = 1152 if version == 3 else 576
    frame = data[place : place + 200]
    for mark, at in ((b"Xing", 8), (b"Info", 8), (b"VBRI", 14)):
        found = frame.find(mark)
        if found >= 0 and (mark == b"VBRI" or frame[found + 7] & 1):
            return struct.unpack_from(">I", frame, found + at)[0] * samples / rate
    kbits = _MP3_KBITS[version == 3][(code >> 4) - 1]
    return (size - begin - place) * 8 / (kbits * 1000)


def _is_frame(data: bytes, at: int) -> bool:
    """Whether a frame of layer III begins here."""
    if data[at] != 0xFF or data[at + 1] & 0xE6 != 0xE2 or data[at + 1] >> 3 & 3 == 1:
        return False
    return data[at + 2] >> 4 not in (0, 15) and data[at + 2] >> 2 & 3 != 3


def _matroska(file: BinaryIO, _: int) -> float | None:
    """Segment, Info: TimestampScale (nanoseconds) and Duration (in those)."""
    data = file.read(_HEADER)
    info = data.find(b"\x15\x49\xa9\x66")
    if info < 0:
        return None
    scale, length = 1_000_000, None
    at, end = _element_size(data, info + 4)
    end = min(len(data), at + end)
    while at < end:
        name, at = _element_name(data, at)
        begin, size = _element_size(data, at)
        value = data[begin : begin + size]
        if name == 0x2AD7B1:
            scale = int.from_bytes(value, "big")
        elif name == 0x4489:
            length = struct.unpack(">f" if size == 4 else ">d", value)[0]
        at = begin + size
    return None if length is None else length * scale / 1e9


def _element_name(data: bytes, at: int) -> tuple[int, int]:
    width = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + width], "big"), at + width


def _element_size(data: bytes, at: int) -> tuple[int, int]:
    """Where an element's value begins, and its length."""
    width = 9 - data[at].bit_length()
    size = int.from_bytes(data[at : at + width], "big") & ((1 << 7 * width) - 1)
    return at + width, size


_MEASURES: dict[str, Callable[[BinaryIO, int], float | None]] = {
    "audio/wav": _wav,
    "audio/flac": _flac,
    "audio/ogg": _ogg,
    "audio/mpeg": _mp3,
    "audio/mp4": _mp4,
    "video/mp4": _mp4,
    "video/quicktime": _mp4,
    "video/webm": _matroska,
    "video/x-matroska": _matroska,
}
