"""Mail as Outlook keeps it (.msg): properties in the streams of a compound file ([MS-OXMSG], [MS-OXCMSG])."""

from __future__ import annotations

import email
import email.policy
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import olefile

from assistant.core.errors import TooLarge, UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.enclosed import Enclosed, Enclosure, held
from ingestion.sources.mail.letter import Letter, LetterSource
from ingestion.sources.mail.mime import ENCRYPTED, LARGEST_MAIL, header, letter_of
from ingestion.sources.mail.signed import signed_content
from ingestion.sources.markup import decode_markup
from ingestion.sources.markup.resources import Load

_BROKEN = (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError, struct.error)
_SUBJECT, _CLASS, _HEADERS = 0x0037, 0x001A, 0x007D
_BODY, _HTML, _RTF = 0x1000, 0x1013, 0x1009
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
_SENT, _RECEIVED = 0x0039, 0x0E06
_NAME, _ADDRESS, _SMTP, _RECIPIENT_KIND = 0x3001, 0x3003, 0x39FE, 0x0C15
_DATA, _METHOD, _LONG_NAME, _SHORT_NAME, _KIND, _CONTENT_ID = 0x3701, 0x3705, 0x3707, 0x3704, 0x370E, 0x3712
_CODEPAGE, _INTERNET_CODEPAGE = 0x3FFD, 0x3FDE
_EMBEDDED = 5  # the attachment's method: a message of its own
_DEEPEST = 10
_MOST_ATTACHMENTS = 5_000
_MIME = re.compile(rb"\s*[A-Za-z][\w-]{2,40}: ")  # a signed message as it went over the wire, in one attachment
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_FIXED = 16  # bytes of an entry in a stream of properties
# LZFu, [MS-OXRTFCP]: what its dictionary holds at the beginning.
_PRIMER = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0"
    b"\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


class OutlookSource(LetterSource):
    """An Outlook message. UnreadableFile, TooLarge."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        if path.stat().st_size > LARGEST_MAIL:
            raise TooLarge(f"{name} is a mail of more than {LARGEST_MAIL // MEGABYTE} MB")
        try:
            with olefile.OleFileIO(str(path)) as file:
                letter = _letter(Storage(file, (), 32), limits, 0)
        except _BROKEN as error:
            raise UnreadableFile(f"{name} is a damaged Outlook message ({error})") from None
        super().__init__(letter, name, "application/vnd.ms-outlook", limits)


class Storage:
    """A message, an attachment or a recipient within the file. ``head``: where its fixed properties begin."""

    def __init__(self, file: olefile.OleFileIO[str], path: tuple[str, ...], head: int) -> None:
        self._file = file
        self._path = path
        raw = self._stream("__properties_version1.0")[head:]
        entries = (raw[place : place + _FIXED] for place in range(0, len(raw) - _FIXED + 1, _FIXED))
        self._fixed = {int.from_bytes(entry[2:4], "little"): entry[8:] for entry in entries}

    def data(self, prop: int) -> bytes:
        """A property's bytes; none where it is missing."""
        return self._stream(f"__substg1.0_{prop:04X}0102")

    def text(self, prop: int) -> str:
        """A property's text; "" where it is missing."""
        wide = self._stream(f"__substg1.0_{prop:04X}001F")
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(f"__substg1.0_{prop:04X}001E")
        return _decoded(narrow, self.number(_CODEPAGE) or 1252).rstrip("\0")

    def number(self, prop: int) -> int:
        """A property that is a number; 0 where it is missing."""
        return int.from_bytes(self._fixed.get(prop, b"")[:4], "little")

    def moment(self, prop: int) -> datetime | None:
        """A property that is a time."""
        ticks = int.from_bytes(self._fixed.get(prop, b""), "little")
        return _EPOCH + timedelta(microseconds=ticks // 10) if 0 < ticks < 1 << 60 else None

    def within(self, kind: str, head: int) -> Iterator[Storage]:
        """The storages of a kind ("attach", "recip") in order."""
        depth = len(self._path)
        names = {
            path[depth]
            for path in self._file.listdir(streams=False, storages=True)
            if tuple(path[:depth]) == self._path and len(path) == depth + 1
        }
        for name in sorted(each for each in names if each.startswith(f"__{kind}_version1.0_#"))[:_MOST_ATTACHMENTS]:
            yield Storage(self._file, (*self._path, name), head)

    def message(self) -> Storage | None:
        """The message that an attachment is."""
        path = (*self._path, f"__substg1.0_{_DATA:04X}000D")
        return Storage(self._file, path, 24) if self._file.exists("/".join(path)) else None

    def _stream(self, name: str) -> bytes:
        path = "/".join((*self._path, name))
        if not self._file.exists(path) or self._file.get_type(path) != olefile.STGTY_STREAM:
            return b""
        return self._file.openstream(path).read()


def _letter(message: Storage, limits: LimitSettings, depth: int) -> Letter:
    attachments = list(message.within("attach", 8))
    sealed = _sealed(message, attachments)
    if sealed is not None:
        return replace(sealed, subject=message.text(_SUBJECT) or sealed.subject, headers=_headers(message))
    html, text = _html(message), message.text(_BODY)
    if not html and not text.strip():
        text = _from_rtf(message.data(_RTF), limits)
    beside: dict[str, Load] = {}
    enclosed: list[Enclosed] = []
    for attachment in attachments:
        one, address = _enclosed(attachment, limits, depth)
        if address and address in html:
            beside[address] = partial(bytes, attachment.data(_DATA))
        else:
            enclosed.append(one)
    return Letter(message.text(_SUBJECT), _headers(message), html, text, beside, tuple(enclosed))


def _headers(message: Storage) -> tuple[tuple[str, str], ...]:
    sent = message.moment(_SENT) or message.moment(_RECEIVED)
    told = email.message_from_string(message.text(_HEADERS), policy=email.policy.compat32)
    kinds: dict[int, list[str]] = {1: [], 2: [], 3: []}
    for each in message.within("recip", 8):
        kinds.setdefault(each.number(_RECIPIENT_KIND) or 1, []).append(_person(each, _NAME, _SMTP, _ADDRESS))
    return (
        ("From", _person(message, _SENDER, _SENDER_SMTP, _SENDER_ADDRESS)),
        *((name, ", ".join(kinds[kind])) for kind, name in ((1, "To"), (2, "Cc"), (3, "Bcc"))),
        ("Date", header(told, "Date") or (format_datetime(sent) if sent else "")),
    )


def _person(storage: Storage, name: int, smtp: int, address: int) -> str:
    called, at = storage.text(name), storage.text(smtp) or storage.text(address)
    return f"{called} <{at}>" if "@" in at and called and called != at else called or at


def _html(message: Storage) -> str:
    data = message.data(_HTML)
    if not data:
        return message.text(_HTML)
    return decode_markup(data, _codec(message.number(_INTERNET_CODEPAGE))) or ""


def _sealed(message: Storage, attachments: list[Storage]) -> Letter | None:
    """What a signed or encrypted message holds; None where it is neither."""
    kind = message.text(_CLASS).upper()
    types = [each.text(_KIND).lower() for each in attachments]
    if "application/pgp-encrypted" in types or "multipart/encrypted" in message.text(_HEADERS).lower():
        return Letter("", (), notes=(ENCRYPTED,))
    if not kind.startswith("IPM.NOTE.SMIME") or not attachments:
        return None
    data = attachments[0].data(_DATA)
    content = data if _MIME.match(data) else signed_content(data)
    if content is None:
        return Letter("", (), notes=(ENCRYPTED,))
    return letter_of(email.message_from_bytes(content, policy=email.policy.compat32))


def _enclosed(attachment: Storage, limits: LimitSettings, depth: int) -> tuple[Enclosed, str]:
    """An attachment, and the address under which the text may show it."""
    called = attachment.text(_LONG_NAME) or attachment.text(_SHORT_NAME) or attachment.text(_NAME) or "attachment"
    inner = attachment.message() if attachment.number(_METHOD) == _EMBEDDED and depth < _DEEPEST else None
    if inner is not None:
        letter = _letter(inner, limits, depth + 1)
        data = as_mail(letter)
        called = (letter.subject or called).replace("/", "-")[:80] + ".eml"
    else:
        data = attachment.data(_DATA)
    content_id = attachment.text(_CONTENT_ID).strip("<>")
    return Enclosed(Enclosure(called, len(data)), held(data)), f"cid:{content_id}" if content_id else ""


def as_mail(letter: Letter) -> bytes:
    """A letter as the standards write it; the same letter gives the same bytes."""
    mail = EmailMessage(policy=email.policy.SMTP)
    for name, value in (*letter.headers, ("Subject", letter.subject)):
        if value:
            mail[name] = " ".join(value.split())
    mail.set_content(letter.text)
    if letter.html:
        mail.add_alternative(letter.html, subtype="html")
    for each in letter.enclosed:
        with each.open() as file:
            mail.add_attachment(file.read(), maintype="application", subtype="octet-stream", filename=each.about.path)
    for number, part in enumerate(part for part in mail.walk() if part.is_multipart()):
        part.set_boundary(f"=_part_of_an_outlook_message_{number}")
    return mail.as_bytes()


def _codec(page: int) -> str:
    """Python's name for a Windows code page."""
    return {0: "", 65001: "utf-8", 20127: "ascii", 28591: "latin-1", 28605: "iso8859-15"}.get(page, f"cp{page}")


def _decoded(data: bytes, page: int) -> str:
    try:
        return data.decode(_codec(page), "replace")
    except LookupError:
        return data.decode("cp1252", "replace")


def _from_rtf(packed: bytes, limits: LimitSettings) -> str:
    """The text of a message that has it only as Rich Text."""
    from ingestion.sources.office.rtf import rtf_parts

    data = unpacked_rtf(packed)
    return "\n\n".join(part.text for part in rtf_parts(data, "the message", limits)) if data.strip() else ""


def unpacked_rtf(packed: bytes) -> bytes:
    """Rich Text as Outlook packs it ([MS-OXRTFCP]); what can be unpacked of it."""
    if len(packed) < 16:
        return b""
    size, kind = int.from_bytes(packed[4:8], "little"), packed[8:12]
    if kind != b"LZFu":
        return packed[16 : 16 + size]
    window, write = bytearray(4096), len(_PRIMER)
    window[:write] = _PRIMER
    out = bytearray()
    place = 16
    while place < len(packed) and len(out) < size:
        control, place = packed[place], place + 1
        for bit in range(8):
            if place >= len(packed):
                return bytes(out[:size])
            if control >> bit & 1:
                token, place = int.from_bytes(packed[place : place + 2], "big"), place + 2
                start, length = token >> 4, (token & 15) + 2
                if start == write % 4096:
                    return bytes(out[:size])
                found = [start + step for step in range(length)]
            else:
                window[write % 4096] = packed[place]
                out.append(packed[place])
                write, place = write + 1, place + 1
                continue
            for read in found:
                window[write % 4096] = window[read % 4096]
                out.append(window[read % 4096])
                write += 1
    return bytes(out[:size])
