"""Mail as the standards write it (RFC 5322, MIME), and web pages saved as mail (MHTML)."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.header import decode_header
from email.message import Message
from pathlib import Path
from urllib.parse import unquote

from assistant.core.errors import TooLarge, UnreadableFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.sources.decoding import decode
from ingestion.sources.drawn import SectionSource
from ingestion.sources.enclosed import Enclosed, Enclosure, held
from ingestion.sources.mail.letter import Letter, LetterSource
from ingestion.sources.markup import decode_markup, markup_parts
from ingestion.sources.markup.resources import Load
from ingestion.sources.sections import sections

Mail = Message  # with the policy compat32, which forgives whatever a header holds

LARGEST_MAIL = 200_000_000  # bytes
_MOST_PARTS = 10_000
_SHOWN = ("From", "Sender", "Reply-To", "To", "Cc", "Bcc", "Date")
_SIGNATURES = ("application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature")
_SEALED = ("application/pkcs7-mime", "application/x-pkcs7-mime")
_ENDINGS = {
    "application/pdf": ".pdf", "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "text/html": ".html",
    "text/plain": ".txt", "text/calendar": ".ics", "text/csv": ".csv", "application/zip": ".zip",
}  # fmt: skip
ENCRYPTED = "The text of this mail is encrypted and cannot be read without its recipient's key."


def open_mail(path: Path, name: str, limits: LimitSettings) -> SectionSource:
    """A mail, or a web page saved as one. UnreadableFile, TooLarge, EmptyFile."""
    if path.stat().st_size > LARGEST_MAIL:
        raise TooLarge(f"{name} is a mail of more than {LARGEST_MAIL // MEGABYTE} MB")
    try:
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.compat32)
        if is_saved_page(message):
            return SavedPage(message, name, limits)
        return LetterSource(letter_of(message), name, "message/rfc822", limits)
    except RecursionError:
        raise UnreadableFile(
            f"{name} holds mails within mails within mails, more than can be read",
            "Send the mail that matters by itself",
        ) from None


class SavedPage(SectionSource):
    """A web page that a browser saved with its pictures (MHTML)."""

    def __init__(self, message: Mail, name: str, limits: LimitSettings) -> None:
        found = _Found()
        found.take(message)
        super().__init__(
            name, "multipart/related", sections(markup_parts(found.html, limits, found.beside.get)), limits
        )


def is_saved_page(message: Mail) -> bool:
    """Whether it is a page a browser saved, rather than a mail that someone sent."""
    if message.get_content_type() not in ("multipart/related", "text/html"):
        return False
    sent = any(message.get(name) for name in ("To", "Received", "Message-ID"))
    return bool(message.get("Snapshot-Content-Location")) or not sent


def letter_of(message: Mail) -> Letter:
    """The mail's text, pictures and attachments. RecursionError where it holds too many mails within mails."""
    found = _Found()
    found.take(message)
    shown = found.shown()
    return Letter(
        subject=header(message, "Subject"),
        headers=tuple((name, header(message, name)) for name in _SHOWN),
        html=found.html,
        text="\n\n".join(found.texts),
        beside=found.beside,
        enclosed=tuple(each for each, address in found.enclosed if address not in shown),
        notes=tuple(dict.fromkeys(found.notes)),
    )


@dataclass
class _Found:
    """What the parts of a mail hold."""

    htmls: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])
    beside: dict[str, Load] = field(default_factory=dict[str, Load])
    enclosed: list[tuple[Enclosed, str]] = field(default_factory=list[tuple[Enclosed, str]])
    notes: list[str] = field(default_factory=list[str])
    _parts: int = 0

    @property
    def html(self) -> str:
        return "\n<hr>\n".join(self.htmls)

    def shown(self) -> set[str]:
        """Addresses of what the HTML shows: that is not attached."""
        html = unquote(self.html)
        return {address for address in self.beside if address in html}

    def take(self, part: Mail) -> None:
        """A part and all within."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            self.notes.append(f"Only the first {_MOST_PARTS} parts of this mail were read.")
            return
        kind = part.get_content_type()
        if kind == "multipart/encrypted":
            self.notes.append(ENCRYPTED)
        elif kind == "multipart/alternative":
            self._alternatives(part)
        elif part.is_multipart() and kind != "message/rfc822":
            for inner in _within(part):
                self.take(inner)
        elif kind in _SEALED:
            self._sealed(part)
        elif kind not in _SIGNATURES:
            self._leaf(part, kind)

    def _alternatives(self, part: Mail) -> None:
        """The same in several forms: the plain and the richest text, each once; what hangs on any of them."""
        for inner in _within(part):
            before = len(self.htmls)
            self.take(inner)
            del self.htmls[before + 1 :]

    def _leaf(self, part: Mail, kind: str) -> None:
        named = file_name(part)
        attached = part.get_content_disposition() == "attachment" or (named and kind not in ("text/plain", "text/html"))
        if kind == "text/html" and not attached:
            text = decode_markup(_data(part), part.get_content_charset() or "")
            self.htmls += [text] if text else []
        elif kind in ("text/plain", "message/delivery-status", "text/enriched") and not attached:
            text = _plain(part)
            self.texts += [text] if text.strip() else []
        elif kind != "text/rfc822-headers":
            self._enclose(part, kind, named)

    def _enclose(self, part: Mail, kind: str, named: str) -> None:
        data = _mail_within(part) if kind == "message/rfc822" else _data(part)
        inner = next(iter(_within(part)), None) if kind == "message/rfc822" else None
        ending = ".eml" if inner is not None else _ENDINGS.get(kind, "")
        title = header(inner, "Subject")[:80] if inner is not None else ""
        name = named or (title or "attachment").replace("/", "-") + ending
        address = _address(part)
        self.beside |= {key: lambda: data for key in (address, part.get("Content-Location") or "") if key}
        if data or kind != "message/rfc822":
            self.enclosed.append((Enclosed(Enclosure(name, len(data)), held(data)), address))

    def _sealed(self, part: Mail) -> None:
        """S/MIME: a signed mail holds another within its signature; an encrypted one cannot be read."""
        from ingestion.sources.mail.signed import signed_content

        content = signed_content(_data(part))
        if content is None:
            self.notes.append(ENCRYPTED)
        else:
            self.take(email.message_from_bytes(content, policy=email.policy.compat32))


def header(message: Mail | None, name: str) -> str:
    """A header as text on one line; "" where it is missing."""
    values = [] if message is None else message.raw_items()
    raw = next((value for key, value in values if key.lower() == name.lower()), None)
    return decoded_words(str(raw)) if raw is not None else ""


def decoded_words(raw: str) -> str:
    """Encoded words decoded, bytes outside of ASCII guessed, white space as single spaces."""
    if _has_bytes(raw):
        data = raw.encode("utf-8", "surrogateescape")
        raw = decode(data) or data.decode("utf-8", "replace")
    try:
        pieces = decode_header(raw)
    except (ValueError, LookupError):
        pieces = [(raw, None)]
    text = "".join(piece if isinstance(piece, str) else _decoded(piece, charset or "") for piece, charset in pieces)
    return " ".join(text.split()) or raw.strip()


def _has_bytes(raw: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in raw)


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset or "ascii")
    except (LookupError, ValueError):
        return decode(data) or data.decode("utf-8", "replace")


def file_name(part: Mail) -> str:
    """What an attachment is called; "" where nothing says so."""
    try:
        named = part.get_filename() or ""
    except (ValueError, LookupError, TypeError):
        named = ""
    return decoded_words(unquote(named) if re.search(r"%[0-9A-Fa-f]{2}", named) else named)


def _within(part: Mail) -> Iterator[Mail]:
    payload = part.get_payload()
    if isinstance(payload, list):
        yield from (each for each in payload if isinstance(each, Message))


def _data(part: Mail) -> bytes:
    """A part's bytes; as they stand where their encoding is broken."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _mail_within(part: Mail) -> bytes:
    inner = next(iter(_within(part)), None)
    if inner is None:
        return _data(part)
    try:
        return inner.as_bytes(policy=email.policy.compat32)
    except (ValueError, LookupError, TypeError):
        return str(inner).encode("utf-8", "surrogateescape")


def _plain(part: Mail) -> str:
    data = _data(part)
    if part.get_content_type() == "message/delivery-status":
        return "\n\n".join(str(each) for each in _within(part))
    text = _decoded(data, part.get_content_charset() or "").replace("\r\n", "\n")
    return _unfolded(text) if part.get_param("format", "") == "flowed" else text


def _unfolded(text: str) -> str:
    """Lines that a sending program broke put together again (RFC 3676)."""
    lines: list[str] = []
    flowing = False
    for line in text.split("\n"):
        quote, said = re.match(r"(>*)(.*)", line).groups()  # pyright: ignore[reportOptionalMemberAccess] - always
        said = said.removeprefix(" ")
        before = re.match(r">*", lines[-1])[0] if lines else None  # pyright: ignore[reportOptionalSubscript] - always
        if flowing and said and quote == before:
            lines[-1] += said
        else:
            lines.append(f"{quote} {said}" if quote else said)
        flowing = line.endswith(" ") and line != "-- "
    return "\n".join(lines)


def _address(part: Mail) -> str:
    """How HTML names what comes with it."""
    content_id = (part.get("Content-ID") or "").strip().strip("<>")
    return f"cid:{content_id}" if content_id else ""
