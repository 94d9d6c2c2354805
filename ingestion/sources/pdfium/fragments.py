"""The objects that can still be found in a damaged PDF, wherever they lie, without its cross-reference table."""

from __future__ import annotations

import itertools
import mmap
import re
import zlib
from dataclasses import dataclass

from ingestion.sources.pdfium.syntax import Dictionary, inflate, read_dictionary

LARGEST_NUMBER = (1 << 22) - 1  # PDFium knows no larger object number
_MOST_OBJECTS = 500_000
_MOST_MARKS = 5_000_000  # places that look like an object's begin or end
_MOST_UNPACKED = 96_000_000  # bytes of all object streams together; they are held in memory
_LARGEST_HEAD = 8_000_000  # bytes of one dictionary
_MOST_READ = 256_000_000  # bytes of all dictionaries, each as often as it is read

_HEADER = re.compile(rb"(?<![0-9.])(\d{1,10})[\s\0]{1,8}\d{1,5}[\s\0]{0,8}\Z")
_STREAM = re.compile(rb">>[\s\0]*+stream(?:\r\n|\n|\r)?")
_LENGTH = re.compile(rb"/Length[\s\0]{0,20}(\d{1,12})(?![0-9])(?![\s\0]{1,20}\d{1,5}[\s\0]{1,20}R)")
_STREAM_KINDS = re.compile(rb"/(?:ObjStm|XRef)(?![A-Za-z])")


class TooMuch(Exception):
    """The file holds more than a document ever does: a trap."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """An object: its dictionary or value, and its stream where it has one."""

    pack: int  # which unpacked object stream it lies in; -1: the file itself
    start: int
    end: int  # of the dictionary or the value
    stream: tuple[int, int] | None = None
    cut: bool = False  # it ends where the file ends


class Fragments:
    """The objects of a file by number, in the order in which they were last written."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.objects: dict[int, Fragment] = {}
        self.encrypted = False
        self.promised = 0  # pages by the hint that stands first in a file made for the web; 0: unknown
        self.root = 0  # the catalogue by the last trailer that is left; 0: unknown
        self.is_cut = b"%%EOF" not in data[-2048:]
        self._packs: list[bytes] = []
        self._room = _MOST_UNPACKED
        self._unread = _MOST_READ
        self._stream_end = -1  # the next "endstream" after the last place that was asked about
        self._scan()
        self._read_trailers()

    def head(self, number: int) -> bytes:
        """An object's dictionary or value; empty when it is lost. TooMuch."""
        fragment = self.objects.get(number)
        if fragment is None or fragment.end - fragment.start > _LARGEST_HEAD:
            return b""
        self._unread -= fragment.end - fragment.start
        if self._unread < 0:
            raise TooMuch
        return (self.data if fragment.pack < 0 else self._packs[fragment.pack])[fragment.start : fragment.end]

    def dictionary(self, number: int) -> Dictionary | None:
        return read_dictionary(self.head(number))

    def _scan(self) -> None:
        position, start, number = 0, -1, 0
        for _ in range(_MOST_MARKS):
            mark = self.data.find(b"obj", position)
            if mark < 0 or len(self.objects) >= _MOST_OBJECTS:
                break
            header = _HEADER.search(self.data[max(position, mark - 32) : mark])
            closes = self.data[max(position, mark - 3) : mark] == b"end"
            position = mark + 3
            if start >= 0 and (header or closes):
                border = mark - (3 if closes else len(header[0]) if header else 0)
                after = self._take(number, start, border, False)
                start = -1
                if after > mark:
                    position = after  # the mark lay inside a stream
                    continue
            if header:
                start, number = mark + 3, int(header[1])
        if start >= 0:
            self._take(number, start, len(self.data), True)

    def _take(self, number: int, start: int, border: int, last: bool) -> int:
        """Keep the object between ``start`` and ``border``; where to look on."""
        stream = _STREAM.search(self.data, start, border)
        if stream is None:
            if not last or read_dictionary(self.data[start : min(border, start + _LARGEST_HEAD)]):
                self._keep(number, Fragment(-1, start, border))
            return border
        head = self.data[start : min(stream.start() + 2, start + _LARGEST_HEAD)]
        end, cut = self._end_of_stream(head, stream.end(), border, last)
        fragment = Fragment(-1, start, stream.start() + 2, (stream.end(), end), cut)
        if not _STREAM_KINDS.search(head) or not self._is_structure(fragment, head):
            self._keep(number, fragment)
        return end

    def _end_of_stream(self, head: bytes, start: int, border: int, last: bool) -> tuple[int, bool]:
        length = _LENGTH.search(head)
        if length is not None:
            end = start + int(length[1])
            if self.data[end : end + 20].lstrip(b"\r\n \t\0").startswith(b"endstream"):
                return end, False
        if self._stream_end < start:
            self._stream_end = self.data.find(b"endstream", start)
            if self._stream_end < 0:
                self._stream_end = len(self.data)
        return (border, last) if self._stream_end >= border else (self._stream_end, False)

    def _keep(self, number: int, fragment: Fragment) -> None:
        """The last one counts, but not half of one against a whole one."""
        if not 0 < number <= LARGEST_NUMBER or (fragment.cut and number in self.objects):
            return
        self.objects.pop(number, None)
        self.objects[number] = fragment
        head = self.data[fragment.start : min(fragment.end, fragment.start + 4096)] if fragment.pack < 0 else b""
        if b"/Linearized" in head and fragment.start < 1024 and (hint := read_dictionary(head)):
            grown = len(self.data) > (hint.integer(b"L") or 0)  # by a later version, which the hint does not know
            self.promised = 0 if grown else hint.integer(b"N") or 0
        if b"/Filter" in head and b"/O" in head and (lock := read_dictionary(head)):
            self.encrypted |= {b"O", b"U", b"P"} <= lock.entries.keys() or lock.name(b"Filter") == b"Adobe.PubSec"

    def _is_structure(self, fragment: Fragment, head: bytes) -> bool:
        """Whether the stream only held the file together; what an object stream holds is taken out."""
        found = read_dictionary(head)
        if found is None:
            return False
        if found.name(b"Type") == b"XRef":
            self._read_trailer(found)
            return True
        if found.name(b"Type") == b"ObjStm":
            self._unpack(fragment, found)
            return True
        return False

    def _unpack(self, fragment: Fragment, found: Dictionary) -> None:
        first, count = found.integer(b"First") or 0, found.integer(b"N") or 0
        if fragment.stream is None or not 0 < first < _LARGEST_HEAD:
            return
        body, sound = self._body(fragment.stream, found)
        numbers = [int(number) for number in re.findall(rb"\d{1,10}", body[:first])[: 2 * count]]
        starts = numbers[1::2]
        borders = sorted({*starts, len(body) - first})
        ends = dict(itertools.pairwise(borders))
        whole = sound and not fragment.cut
        self._packs.append(body)
        for number, start in zip(numbers[::2], starts, strict=False):
            end = first + ends.get(start, len(body))
            if len(self.objects) < _MOST_OBJECTS and (end < len(body) or (whole and end == len(body))):
                self._keep(number, Fragment(len(self._packs) - 1, first + start, end))

    def _body(self, span: tuple[int, int], found: Dictionary) -> tuple[bytes, bool]:
        kind = found.entries.get(b"Filter", b"").strip(b"[] \t\r\n\0")
        if kind not in (b"", b"/FlateDecode", b"/Fl") or b"/Predictor" in found.entries.get(b"DecodeParms", b""):
            return b"", False
        if kind:
            body, sound = self.inflated(span, self._room)
        else:
            body, sound = self.data[span[0] : min(span[1], span[0] + self._room)], True
        self._room -= len(body)
        return body, sound

    def inflated(self, span: tuple[int, int], most: int) -> tuple[bytes, bool]:
        """The contents of a deflated stream, as far as they go, and whether they were sound that far."""
        pieces: list[bytes] = []
        with memoryview(self.data) as view, view[span[0] : span[1]] as part:
            try:
                pieces.extend(inflate(part, most))
            except zlib.error:
                return b"".join(pieces), False
        return b"".join(pieces), True

    def _read_trailers(self) -> None:
        position = 0
        for _ in range(1000):
            position = self.data.find(b"trailer", position) + 7
            if position < 7:
                return
            found = read_dictionary(self.data[position : position + 8192])
            if found is not None:
                self._read_trailer(found)

    def _read_trailer(self, found: Dictionary) -> None:
        self.encrypted |= b"Encrypt" in found.entries
        if root := found.references(b"Root"):
            self.root = root[0]
