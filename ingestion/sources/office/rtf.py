"""Rich Text (RTF) as sections. striprtf gives bare text; headings, tables, notes and pictures are wanted too."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from assistant.core.domain import BlockKind
from assistant.core.errors import TooLarge, UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.drawn import SectionSource
from ingestion.sources.inlays import inlay_of
from ingestion.sources.office.docxstyles import Marker, heading_level
from ingestion.sources.office.lists import item, joined_lists
from ingestion.sources.office.rtftables import RtfTable
from ingestion.sources.sections import Part, sections, table_part

_LARGEST = 300_000_000  # bytes
_DEEPEST = 5_000  # groups within each other
_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>[^a-zA-Z'])"
    rb"|(?P<open>\{)|(?P<close>\})|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
_SIGNS = {
    "line": "\n", "tab": "\t", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ",
    "qmspace": " ", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
_PLAIN_SIGNS = {b"~": "\u00a0", b"_": "\u2011", b"\\": "\\", b"{": "{", b"}": "}", b"\n": "\n", b"\r": "\n"}
_CODEPAGES = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_SKIPPED = frozenset(
    {"colortbl", "info", "nonshppict", "sn", "sv", "fldinst", "xe", "tc", "rxe", "bkmkstart", "bkmkend", "objdata"}
    | {"themedata", "datastore", "listtable", "listoverridetable", "revtbl", "rsidtbl", "filetbl", "ftnsep", "ftnsepc"}
    | {"ftncn", "aftnsep", "aftnsepc", "aftncn", "pntxtb", "pntxta", "private", "template", "latentstyles", "atnid"}
    | {
        "atnref",
        "atndate",
        "atntime",
        "atnparent",
        "annotationref",
        "upr",
        "objclass",
        "objname",
        "nonesttables",
        "blipuid",
        "picprop",
    }
)
_STARRED = frozenset({"shppict", "shpinst", "shptxt", "annotation", "atnauthor", "footnote", "pnseclvl"})
_HEADS = frozenset({"header", "headerl", "headerr", "headerf"})
_FEET = frozenset({"footer", "footerl", "footerr", "footerf"})
_PLACES = {"fonttbl": "fonttbl", "stylesheet": "stylesheet", "listtext": "marker", "pntext": "marker"} | {
    "atnauthor": "atnauthor",
    "pict": "pict",
}
_NAMED = ("marker", "atnauthor")  # places whose text is kept apart
_ASIDE = frozenset({"footnote", "annotation", "shptxt"}) | _HEADS | _FEET


class RtfSource(SectionSource):
    """A Rich Text document, read when it is opened."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        if path.stat().st_size > _LARGEST:
            raise TooLarge(f"{name} is a Rich Text file of more than {_LARGEST // MEGABYTE} MB")
        reader = _Reader(path.read_bytes(), name, limits)
        super().__init__(name, "application/rtf", sections(joined_lists(reader.parts())), limits)
        self.damage = f"{name} ends in the middle; what stands before was read." if reader.is_cut else ""


def rtf_parts(data: bytes, name: str, limits: LimitSettings) -> list[Part]:
    """The parts of Rich Text that lies within another file. UnreadableFile where it is none inside."""
    return list(joined_lists(_Reader(data, name, limits).parts()))


@dataclass(slots=True)
class _State:
    """What a group changes for itself."""

    place: str = ""  # the destination; "" is the text
    skipped: bool = False
    codepage: str = ""
    alternatives: int = 1  # characters that stand for one \u where Unicode is not known
    hidden: bool = False
    deleted: bool = False


@dataclass(slots=True)
class _Paragraph:
    style: int = 0
    level: int = -1
    in_table: bool = False
    marker: str = ""
    depth: int = 0  # of a list item


@dataclass(slots=True)
class _Aside:
    """A text beside the text: a note, a comment, a header, a text box."""

    place: str
    depth: int
    outer: list[str]
    paragraph: _Paragraph


@dataclass(slots=True)
class _Reader:
    data: bytes
    name: str
    limits: LimitSettings
    is_cut: bool = False
    _state: _State = field(default_factory=_State)
    _stack: list[_State] = field(default_factory=list[_State])
    _asides: list[_Aside] = field(default_factory=list[_Aside])
    _codepage: str = "cp1252"
    _fonts: dict[int, str] = field(default_factory=dict[int, str])
    _styles: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    _font: int = 0  # being described in the font table
    _style: tuple[int, int] = (0, -1)  # being described in the style sheet
    _pending: bytearray = field(default_factory=bytearray)  # bytes not decoded yet
    _to_skip: int = 0
    _text: list[str] = field(default_factory=list[str])
    _paragraph: _Paragraph = field(default_factory=_Paragraph)
    _table: RtfTable | None = None
    _notes: list[Part] = field(default_factory=list[Part])
    _after: list[Part] = field(default_factory=list[Part])
    _heads: dict[str, bool] = field(default_factory=dict[str, bool])  # each with whether it was given
    _feet: dict[str, bool] = field(default_factory=dict[str, bool])
    _made: list[Part] = field(default_factory=list[Part])
    _author: str = ""
    _note_count: int = 0
    _picture: bytearray | None = None
    _star: bool = False

    def parts(self) -> Iterator[Part]:
        """The document's parts in order. UnreadableFile where it is no Rich Text inside."""
        position = 0
        while position < len(self.data):
            match = _TOKEN.match(self.data, position)
            if match is None:
                position += 1
                continue
            position = match.end() + self._take(match)
            if self._made:
                yield from self._fresh_heads()
                yield from self._made
                self._made = []
        self.is_cut = bool(self._stack)
        self._flush()
        self._end_paragraph()
        self._end_table()
        yield from self._fresh_heads()
        yield from self._made
        yield from self._notes
        yield from (Part(BlockKind.FOOTER, text) for text in self._feet)

    def _fresh_heads(self) -> Iterator[Part]:
        """Running heads that were not given yet; they stand in the file before the text they are of."""
        for text in [text for text, given in self._heads.items() if not given]:
            self._heads[text] = True
            yield Part(BlockKind.HEADER, text)

    def _take(self, match: re.Match[bytes]) -> int:
        """One token; returns how many bytes of binary data follow it."""
        kind = match.lastgroup
        if kind == "number":
            kind = "word"
        if kind == "hex":
            self._bytes(bytes([int(match["hex"], 16)]))
        elif kind == "text":
            self._bytes(match["text"])
        elif kind == "word":
            word = match["word"].decode("ascii")
            amount = int(match["number"]) if match["number"] else None
            if word == "bin":
                length = max(0, amount or 0)
                if self._picture is not None:
                    self._picture += self.data[match.end() : match.end() + length].hex().encode()
                return length
            self._flush()
            self._word(word, amount)
        elif kind == "open":
            self._open()
        elif kind == "close":
            self._close()
        elif kind == "sign":
            self._sign(match["sign"])
        return 0

    # -- groups -----------------------------------------------------------------------------

    def _open(self) -> None:
        self._flush()
        if len(self._stack) > _DEEPEST:
            raise UnreadableFile(f"{self.name} nests more than {_DEEPEST} groups, which no document does")
        self._stack.append(self._state)
        self._state = replace(self._state)
        self._star = False

    def _close(self) -> None:
        self._flush()
        if not self._stack:
            return
        closing, self._state = self._state, self._stack.pop()
        self._to_skip = 0
        if self._asides and len(self._stack) < self._asides[-1].depth:
            self._end_aside()
        elif closing.place == "pict" != self._state.place:
            self._end_picture()
        elif closing.place == "marker" != self._state.place:
            self._paragraph.marker, self._text = "".join(self._text[-1:]).strip(), self._text[:-1]
        elif closing.place == "atnauthor" != self._state.place:
            self._author, self._text = "".join(self._text[-1:]).strip(), self._text[:-1]

    def _begin_aside(self, place: str) -> None:
        if place == "footnote":
            self._note_count += 1
            self._text.append(f"[^{self._note_count}]")
        self._asides.append(_Aside(place, len(self._stack), self._text, self._paragraph))
        self._text, self._paragraph = [], _Paragraph()
        self._state.place = ""

    def _end_aside(self) -> None:
        aside, text = self._asides.pop(), "".join(self._text).strip()
        self._text, self._paragraph = aside.outer, aside.paragraph
        if not text:
            return
        if aside.place == "footnote":
            self._notes.append(Part(BlockKind.PARAGRAPH, f"[^{self._note_count}]: {text}"))
        elif aside.place == "annotation":
            by = f" by {self._author}" if self._author else ""
            self._notes.append(Part(BlockKind.PARAGRAPH, f"[comment{by}: {text}]"))
            self._author = ""
        elif aside.place in _HEADS | _FEET:
            kept = self._heads if aside.place in _HEADS else self._feet
            if any(letter.isalpha() for letter in text):
                kept.setdefault(text, False)
        else:
            self._after.append(Part(BlockKind.PARAGRAPH, text))

    # -- words ------------------------------------------------------------------------------

    def _word(self, word: str, amount: int | None) -> None:
        star, self._star = self._star, False
        if star and word not in _STARRED:
            self._state.skipped = self._state.skipped or word not in ("listtext", "pntext")
        if word == "u":
            self._unicode(amount or 0)
        elif word in _SKIPPED:
            self._state.skipped = True
        elif word in _ASIDE:
            if not self._state.skipped:
                self._begin_aside(word)
        elif word in _PLACES:
            self._begin_place(word)
        elif self._state.place in ("fonttbl", "stylesheet"):
            self._describe(word, amount)
        elif not self._state.skipped:
            self._formatting(word, amount)

    def _begin_place(self, word: str) -> None:
        self._state.place = _PLACES[word]
        if word == "pict":
            self._picture = bytearray()
        elif self._state.place in _NAMED:
            self._text.append("")

    def _describe(self, word: str, amount: int | None) -> None:
        """Within the font table and the style sheet."""
        if word == "f" and self._state.place == "fonttbl":
            self._font = amount or 0
        elif word == "fcharset" and amount in _CODEPAGES:
            self._fonts[self._font] = _CODEPAGES[amount]
        elif word == "s":
            self._style = amount or 0, -1
        elif word == "outlinelevel":
            self._style = self._style[0], amount or 0

    def _formatting(self, word: str, amount: int | None) -> None:
        if word == "par":
            self._par()
        elif word in _SIGNS:
            if not self._is_unseen:
                self._say(_SIGNS[word])
        elif word in ("ansicpg", "mac", "uc", "f"):
            self._encoding(word, amount or 0)
        elif word == "v":
            self._state.hidden = amount != 0
        elif word == "deleted":
            self._state.deleted = amount != 0
        elif word == "plain":
            self._state.hidden = self._state.deleted = False
            self._state.codepage = ""
        elif self._state.place not in _NAMED:
            self._paragraph_word(word, amount)

    def _encoding(self, word: str, amount: int) -> None:
        if word == "uc":
            self._state.alternatives = max(0, amount)
        elif word == "f":
            self._state.codepage = self._fonts.get(amount, "")
        else:
            self._codepage = (
                f"cp{amount}" if word == "ansicpg" and amount else "mac_roman" if word == "mac" else "cp1252"
            )

    def _paragraph_word(self, word: str, amount: int | None) -> None:
        if word == "pard":
            self._paragraph = _Paragraph(marker=self._paragraph.marker)
        elif word == "s":
            self._paragraph.style = amount or 0
        elif word == "outlinelevel":
            self._paragraph.level = amount or 0
        elif word == "ilvl":
            self._paragraph.depth = min(9, max(0, amount or 0))
        elif word == "intbl":
            self._paragraph.in_table = True
        elif word in ("sect", "page"):
            self._par()
        elif not self._asides:
            self._table_word(word, amount)

    def _table_word(self, word: str, amount: int | None) -> None:
        if word == "trowd":
            self._table = self._table or RtfTable()
            self._table.begin_row()
        elif word == "cell":
            self._table = self._table or RtfTable()
            self._table.add("".join(self._text).strip())
            self._text = []
        elif word == "nestcell":
            self._text.append("; ")
        elif word == "nestrow":
            self._text.append("\n")
        elif word == "row" and self._table is not None:
            self._table.end_row()
        elif self._table is not None:
            self._table.describe(word, amount or 0)

    # -- text -------------------------------------------------------------------------------

    @property
    def _is_unseen(self) -> bool:
        return self._state.skipped or self._state.hidden or self._state.deleted

    def _say(self, text: str) -> None:
        if self._state.place in _NAMED and self._text:
            self._text[-1] += text
        else:
            self._text.append(text)

    def _bytes(self, data: bytes) -> None:
        if self._to_skip:
            left, self._to_skip = self._to_skip, max(0, self._to_skip - len(data))
            data = data[left:]
        if self._state.place == "pict":
            if self._picture is not None:
                self._picture += data
        elif not self._state.skipped:
            self._pending += data

    def _flush(self) -> None:
        """Decode what has come in: a letter may be of several bytes."""
        if not self._pending:
            return
        try:
            text = self._pending.decode(self._state.codepage or self._codepage, "replace")
        except LookupError:
            text = self._pending.decode("cp1252", "replace")
        self._pending.clear()
        if self._state.place == "stylesheet":
            self._styles[self._style[0]] = text.rstrip(";").strip(), self._style[1]
        elif self._state.place != "fonttbl" and not self._is_unseen:
            self._say(text)

    def _unicode(self, code: int) -> None:
        code += 65_536 if code < 0 else 0
        if not self._is_unseen and 0 < code < 0x110000:
            self._say(_joined_surrogate(self._text, code))
        self._to_skip = self._state.alternatives

    def _sign(self, sign: bytes) -> None:
        self._flush()
        if sign == b"*":
            self._star = True
        elif sign in (b"\n", b"\r") and not self._is_unseen:
            self._par()
        elif sign in _PLAIN_SIGNS and not self._is_unseen:
            self._say(_PLAIN_SIGNS[sign])

    # -- blocks -----------------------------------------------------------------------------

    def _par(self) -> None:
        if self._asides or self._paragraph.in_table:
            self._text.append("\n")
        else:
            self._end_paragraph()

    def _end_paragraph(self) -> None:
        text = "".join(self._text).strip()
        self._text = []
        marker, self._paragraph.marker = self._paragraph.marker, ""
        if text:
            self._end_table()
            self._made.append(self._part(text, marker))
        self._made += self._after
        self._after = []
        if text and (len(self._notes) > 5 or self._made[-1].kind is BlockKind.HEADING):
            self._made[-1:-1], self._notes = self._notes, []

    def _part(self, text: str, marker: str) -> Part:
        name, level = self._styles.get(self._paragraph.style, ("", -1))
        told = self._paragraph.level if self._paragraph.level >= 0 else level
        found = told + 1 if 0 <= told < 9 else heading_level(name)
        if found:
            title = f"{marker} {text}" if any(letter.isalnum() for letter in marker) else text
            return Part(BlockKind.HEADING, " ".join(title.split()), level=min(6, found))
        if marker:
            is_number = len(marker) > 1 and any(letter.isalnum() for letter in marker)  # "o" is a bullet of a font
            return Part(BlockKind.LIST, item(Marker(marker if is_number else "-", self._paragraph.depth), text))
        return Part(BlockKind.PARAGRAPH, text)

    def _end_table(self) -> None:
        table, self._table = self._table, None
        made = table.made() if table is not None else None
        if made is not None and not made.is_empty:
            self._made.append(table_part(made))

    def _end_picture(self) -> None:
        held, self._picture = self._picture, None
        digits = re.sub(rb"[^0-9a-fA-F]", b"", bytes(held or b""))
        try:
            data = binascii.unhexlify(digits[: len(digits) // 2 * 2])
        except binascii.Error:
            return
        load: Callable[[], bytes] = partial(bytes, data)
        inlay = inlay_of(load, self.limits)
        if inlay is not None and not self._asides:
            self._after.append(Part(BlockKind.FIGURE, "", inlay=inlay))


def _joined_surrogate(before: list[str], code: int) -> str:
    """A character; the second half of a pair is joined with the first, which is taken back."""
    last = ord(before[-1][-1]) if before and before[-1] else 0
    if 0xDC00 <= code < 0xE000 and 0xD800 <= last < 0xDC00:
        before[-1] = before[-1][:-1]
        return chr(0x10000 + ((last - 0xD800) << 10) + (code - 0xDC00))
    return chr(code)
