"""Office files by their kind: which module reads which."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.errors import UnreadableFile, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.sources.unpacking import DAMAGED

if TYPE_CHECKING:
    from ingestion.sources import Source

READ = frozenset({"docx", "pptx", "xlsx", "xlsb", "odf"})  # kinds that ``open_office`` takes
_LIST = "[content_types].xml"
_LONGEST_LIST = 5_000_000  # bytes
_MAIN_PARTS = (
    (b"wordprocessingml.document.main", "docx"),
    (b"wordprocessingml.template.main", "docx"),
    (b"ms-word.document.macroEnabled.main", "docx"),
    (b"ms-word.template.macroEnabledTemplate.main", "docx"),
    (b"ms-excel.sheet.binary", "xlsb"),
    (b"spreadsheetml.sheet.main", "xlsx"),
    (b"spreadsheetml.template.main", "xlsx"),
    (b"ms-excel.sheet.macroEnabled.main", "xlsx"),
    (b"ms-excel.template.macroEnabled.main", "xlsx"),
    (b"presentationml.presentation.main", "pptx"),
    (b"presentationml.slideshow.main", "pptx"),
    (b"presentationml.template.main", "pptx"),
    (b"ms-powerpoint.presentation.macroEnabled.main", "pptx"),
    (b"ms-powerpoint.slideshow.macroEnabled.main", "pptx"),
    (b"ms-powerpoint.template.macroEnabled.main", "pptx"),
)
_USUAL = (("word/document.xml", "docx"), ("xl/workbook.xml", "xlsx"), ("ppt/presentation.xml", "pptx"))
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."


def office_kind(archive: zipfile.ZipFile) -> str:
    """What the archive says it is: "docx", "xlsx", "pptx", "xlsb" or "odf"; "" when it is no office file."""
    names = {name.replace("\\", "/").casefold(): name for name in archive.NameToInfo}  # programs differ in these
    if "mimetype" in names and _beginning(archive, names["mimetype"], 200).startswith(_OPEN_DOCUMENT):
        return "odf"
    told = _beginning(archive, names[_LIST], _LONGEST_LIST) if _LIST in names else b""
    found = next((kind for mark, kind in _MAIN_PARTS if mark in told), "")
    return found or next((kind for part, kind in _USUAL if part in names), "")


def _beginning(archive: zipfile.ZipFile, part: str, most: int) -> bytes:
    try:
        with archive.open(part) as stream:
            return stream.read(most)
    except DAMAGED:
        return b""


def open_office(kind: str, path: Path, name: str, limits: LimitSettings) -> Source:
    """An office file of a kind that ``office_kind`` told, "rtf", or "damaged". BadInput."""
    if kind == "docx":
        from ingestion.sources.office.docx import DocxSource

        return DocxSource(path, name, limits)
    if kind == "xlsx":
        from ingestion.sources.office.xlsx import XlsxSource

        return XlsxSource(path, name, limits)
    if kind == "pptx":
        from ingestion.sources.office.pptx import PptxSource

        return PptxSource(path, name, limits)
    if kind == "rtf":
        from ingestion.sources.office.rtf import RtfSource

        return RtfSource(path, name, limits)
    if kind == "odf":
        from ingestion.sources.office.odf import open_odf

        return open_odf(path, name, limits)
    if kind == "damaged":
        raise UnreadableFile(
            f"{name} is a damaged Office file: it breaks off, or its table of contents does not fit it"
        )
    raise UnsupportedFile(f"{name} is a binary Excel workbook (.xlsb), which is not read", "Save it as .xlsx")
