"""What a file is, by its first bytes and not by its name."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ingestion.sources.archives.tars import is_tar
from ingestion.sources.media.kinds import boxed_type, recording_type
from ingestion.sources.office import READ, office_kind
from ingestion.sources.unpacking import DAMAGED

_HEAD = 16_384
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"II+\x00", "TIFF"),
    (b"MM\x00+", "TIFF"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
)
_NAMED = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"%!PS", "a PostScript file"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"MThd", "a MIDI file"),
    (b"RIFF", "a RIFF file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"8BPS", "a Photoshop picture"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"AT&TFORM", "a DjVu document"),
    (b"\x00\x00\x00\x0cjP  ", "a JPEG 2000 picture"),
    (b"\x97JB2", "a JBIG2 picture"),
)
_PACKINGS = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"))
_BRANDS = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIF"),
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
}
_OFFICE = (
    ("word/", "a Word document (.docx)"),
    ("xl/", "an Excel workbook (.xlsx)"),
    ("ppt/", "a PowerPoint presentation (.pptx)"),
    ("content.xml", "an OpenDocument file (.odt, .ods, .odp)"),
)
_OFFICE_MARKS = (b"[Content_Types].xml", b"vnd.oasis.opendocument", b"_rels/.rels")
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body", b"<meta", b"<title")
_FRAGMENT = re.compile(rb"<(?:div|p|table|h[1-6]|section|article|main|style|script|link|font|center|ul|ol|base)[\s>]")
_PREAMBLE = re.compile(rb"\A(?:<!--.*?-->\s*|<\?xml-(?:model|stylesheet)[^>]*>\s*)+", re.DOTALL)
_MAIL_HEADER = re.compile(rb"[!-9;-~]{1,80}:(?: |\t|$)")
_MAIL_SIGNS = frozenset({b"from", b"received", b"message-id", b"mime-version", b"return-path", b"delivered-to"})
_MAIL_NAMES = _MAIL_SIGNS | {b"to", b"date", b"subject", b"content-type", b"cc", b"reply-to", b"sender"}


@dataclass(frozen=True, slots=True)
class Format:
    """``kind``: "pdf", "picture" (``detail``: Pillow's name for it), "office" (``detail``: "docx", …), "html"
    (``detail``: "" or "fragment", which only the name tells from a text that begins with a tag), "mail", "outlook",
    "epub", "zip", "packed" (a TAR archive, or anything packed as a whole; ``detail``: "", "gzip", "bzip2" or "xz"),
    "recording" (sound or video; ``detail``: its media type), "text", "encrypted" (an Office file behind a password),
    or "other" (``detail``: what it seems to be, with its article)."""

    kind: str
    detail: str = ""


def sniff(path: Path) -> Format:
    """The format of a file that is not empty."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for mark, name in _PICTURES:
        if head.startswith(mark):
            return Format("picture", name)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Format("picture", "WEBP")
    if _is_bitmap(head, path.stat().st_size):
        return Format("picture", "BMP")
    if b"%PDF-" in head[:1024]:
        return Format("pdf")
    return _other(head, path)


def _is_bitmap(head: bytes, size: int) -> bool:
    """BM alone begins many texts; the header's length and the offset of the pixels must make sense too."""
    if head[:2] != b"BM" or len(head) < 26:
        return False
    offset, header = int.from_bytes(head[10:14], "little"), int.from_bytes(head[14:18], "little")
    return header in (12, 40, 52, 56, 64, 108, 124) and 26 <= offset < size


def _as_bytes(head: bytes) -> bytes:
    """The beginning of a text in UTF-8, whatever it is marked as."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head[: len(head) // 2 * 2].decode("utf-16", "replace").encode()
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_mail(start: bytes) -> bool:
    """Whether a text begins with the headers of a mail, and hardly anything else before its first empty line."""
    lines = re.split(rb"\r?\n", re.split(rb"\r?\n\r?\n", start, maxsplit=1)[0])[:200]
    if len(start) > _HEAD - 100:
        lines = lines[:-1]  # it may be cut in the middle
    lines = lines[1:] if lines and lines[0].startswith(b"from ") else lines  # as a mailbox begins each
    names = {line.partition(b":")[0] for line in lines if _MAIL_HEADER.match(line)}
    others = sum(not _MAIL_HEADER.match(line) and line[:1] not in (b" ", b"\t") for line in lines)
    return 10 * others <= len(lines) and len(names & _MAIL_NAMES) >= 2 and not names.isdisjoint(_MAIL_SIGNS)


def _other(head: bytes, path: Path) -> Format:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(head, path)
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return _compound(path)
    if head.startswith(b"{\\rtf"):
        return Format("office", "rtf")
    if head[4:8] == b"ftyp":
        return _boxed(head)
    if recording := recording_type(head):
        return Format("recording", recording)
    for mark, packing in _PACKINGS:
        if head.startswith(mark):
            return Format("packed", packing)
    for mark, name in _NAMED:
        if head.startswith(mark):
            return Format("other", name)
    return Format("packed") if is_tar(head[:512]) else _markup(head)


def _boxed(head: bytes) -> Format:
    """What its brands say: a picture or a film. AVIF may name itself by the general brand first."""
    size = min(int.from_bytes(head[:4], "big"), len(head))
    brands = [head[8:12], *(head[place : place + 4] for place in range(16, size, 4))]
    kinds = {_BRANDS.get(brand.lower()) for brand in brands[:1]} | {_BRANDS.get(b) for b in brands if b == b"avif"}
    if "AVIF" in kinds:
        return Format("picture", "AVIF")
    return Format("picture", "HEIF") if "HEIF" in kinds else Format("recording", boxed_type(head[8:12]))


def _archive(head: bytes, path: Path) -> Format:
    """Which kind of zip; only its table of contents and what it says of itself are looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.filename for entry in archive.filelist[:2000]]
            kind = office_kind(archive)
    except DAMAGED:
        damaged = any(mark in head for mark in _OFFICE_MARKS)
        return Format("office", "damaged") if damaged else Format("zip")
    if kind in READ:
        return Format("office", kind)
    if "META-INF/container.xml" in names:
        return Format("epub")
    for start, name in _OFFICE:
        if any(entry.startswith(start) for entry in names):
            return Format("other", name)
    return Format("zip")


def _compound(path: Path) -> Format:
    """Old Office files and encrypted new ones share one container."""
    with path.open("rb") as file:
        data = file.read(2_000_000)
    if "EncryptedPackage".encode("utf-16-le") in data:
        return Format("encrypted", "an Office file")
    if "__properties_version1.0".encode("utf-16-le") in data:
        return Format("outlook")
    streams = (
        ("WordDocument", "an old Word document (.doc)"),
        ("Workbook", "an old Excel workbook (.xls)"),
        ("PowerPoint Document", "an old PowerPoint presentation (.ppt)"),
    )
    for stream, name in streams:
        if stream.encode("utf-16-le") in data:
            return Format("other", name)
    return Format("other", "an old Office file")


def _markup(head: bytes) -> Format:
    """Text that is really another format, read by its rules (HTML hides text, mail is encoded)."""
    start = _as_bytes(head).lstrip(b" \t\r\n").lower()
    start = _PREAMBLE.sub(b"", start, count=1)
    if start.startswith(_PAGES) or (start.startswith(b"<?xml") and re.search(rb"<html[\s>]", start)):
        return Format("html")
    if _FRAGMENT.match(start):
        return Format("html", "fragment")
    if start.startswith((b"<?xml", b"<svg")):
        return Format("other", "an XML file")
    if _is_mail(start):
        return Format("mail")
    return Format("text")
