"""A file becomes pages. The content decides the format, not the name."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, Protocol

from assistant.core.errors import EmptyFile, EncryptedFile, NotFound, TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.pages import Page
from ingestion.sources.sniffing import Format, sniff

HTML_SUFFIXES = (".html", ".htm", ".xhtml", ".shtml", ".php", ".asp", ".aspx", ".jsp")


class Source(Protocol):
    """An open file, one page at a time; a context manager. Thread-safe."""

    page_count: int
    media_type: str
    damage: str  # "" when the file is whole, else one sentence about what is missing

    def page(self, number: int) -> Page:
        """Page ``number``, from 1. UnreadableFile when this one page cannot be loaded."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Source: ...

    def __exit__(self, *_: object) -> None: ...


def open_source(
    path: Path, *, name: str = "", password: str = "", limits: LimitSettings, recording_mb: int = 0
) -> Source:
    """Open a file of any format that is read.

    ``name`` is what people call it (the path's own name when empty); it is used in messages, and to tell
    Markdown from plain text. ``recording_mb`` is the size up to which recordings are taken (0: none is).
    EmptyFile, UnsupportedFile, UnreadableFile, EncryptedFile, TooLarge, NotFound.
    """
    called = name or path.name
    size = _size(path, called)
    if size == 0:
        raise EmptyFile(f"{called} is empty (0 bytes)")
    if size > limits.upload_mb * MEGABYTE:
        raise TooLarge(f"{called} has {size / 1e6:.0f} MB; the limit is {limits.upload_mb} MB")
    return _open(path, called, password, limits, recording_mb)


@contextlib.contextmanager
def unlock(path: Path, password: str) -> Generator[BinaryIO]:
    """The file's bytes as they open without a password: a PDF's are a copy without its lock, others' their own.

    EncryptedFile when the password is wrong.
    """
    if sniff(path).kind != "pdf":
        with path.open("rb") as file:
            yield file
        return
    from ingestion.sources.pdfium.document import PdfFile

    with tempfile.TemporaryFile() as copy, contextlib.closing(PdfFile(path, path.name, password)) as pdf:
        pdf.save_unlocked(copy)
        copy.seek(0)
        yield copy


def _size(path: Path, name: str) -> int:
    try:
        if not path.is_file():
            raise NotFound(f"There is no file {name}", "Check the path")
        return path.stat().st_size
    except OSError as error:
        raise UnreadableFile(f"{name} cannot be opened ({error.strerror or error})", "Check the path") from None


def _open(path: Path, name: str, password: str, limits: LimitSettings, recording_mb: int) -> Source:
    found = sniff(path)
    if found.kind == "pdf":
        from ingestion.sources.pdf import PdfSource

        return PdfSource(path, name, password, limits)
    if found.kind == "picture":
        from ingestion.sources.pictures import PictureSource

        return PictureSource(path, name, found.detail, limits)
    if found.kind == "office":
        from ingestion.sources.office import open_office

        return open_office(found.detail, path, name, limits)
    folded = _open_folded(found, path, name, limits)
    if folded is not None:
        return folded
    if found.kind == "encrypted":
        raise EncryptedFile(
            f"{name} is {found.detail} behind a password", "Save a copy as PDF without one and send that"
        )
    if found.kind == "recording":
        from ingestion.sources.media.recording import RecordingSource

        return RecordingSource(path, name, found.detail, limits, recording_mb)
    if found.kind == "other":
        raise UnsupportedFile(f"{name} seems to be {found.detail}, which is not read")
    return _text(path, name, limits)


def _open_folded(found: Format, path: Path, name: str, limits: LimitSettings) -> Source | None:
    """A web page, or what may hold other files: a mail, an archive. None for anything else."""
    if found.kind == "html" and (not found.detail or Path(name).suffix.lower() in HTML_SUFFIXES):
        from ingestion.sources.html import HtmlSource

        return HtmlSource(path, name, limits)
    if found.kind == "mail":
        from ingestion.sources.mail.mime import open_mail

        return open_mail(path, name, limits)
    if found.kind == "outlook":
        from ingestion.sources.mail.outlook import OutlookSource

        return OutlookSource(path, name, limits)
    if found.kind == "epub":
        from ingestion.sources.epub import EpubSource

        return EpubSource(path, name, limits)
    if found.kind == "zip":
        from ingestion.sources.archives.zips import ZipSource

        return ZipSource(path, name, limits)
    if found.kind == "packed":
        from ingestion.sources.archives.tars import open_packed

        return open_packed(path, name, found.detail, limits)
    return None


def _text(path: Path, name: str, limits: LimitSettings) -> Source:
    """A text as a sheet where its name says so and something parts its fields, else as what it is."""
    from ingestion.sources.delimited import SUFFIXES, delimited_source
    from ingestion.sources.plain import TextSource

    sheet = delimited_source(path, name, limits) if Path(name).suffix.lower() in SUFFIXES else None
    return sheet or TextSource(path, name, limits)
