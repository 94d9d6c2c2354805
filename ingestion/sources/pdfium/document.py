"""A PDF file that is open: how many pages, one page's raw contents, a rendering."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from PIL.Image import Image

from assistant.core.errors import EncryptedFile, PeritoError, UnreadableFile
from ingestion.pages import Grey
from ingestion.sources.pdfium.fields import Field, read_fields
from ingestion.sources.pdfium.geometry import Geometry
from ingestion.sources.pdfium.glyphs import Glyphs, read_glyphs
from ingestion.sources.pdfium.objects import Drawn, read_objects

LOCK = threading.RLock()
logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # it warns of every form with an XFA part
THUMBNAIL_DPI = 50
_THUMBNAIL_SIDE = 1200  # pixels at most


@dataclass(frozen=True, slots=True)
class RawPage:
    """All that is taken from a page in one visit."""

    geometry: Geometry
    glyphs: Glyphs
    drawn: Drawn
    fields: tuple[Field, ...]
    thumbnail: Grey


class PdfFile:
    """An open PDF. EncryptedFile, UnreadableFile."""

    def __init__(self, path: Path, name: str, password: str = "") -> None:
        self._name = name
        with LOCK:
            try:
                self._document = pdfium.PdfDocument(path, password=password or None)
            except pdfium.PdfiumError as error:
                raise _refusal(error, name, password) from None
            self.form_type = int(self._document.get_formtype())
            if self.form_type in (raw.FORMTYPE_ACRO_FORM, raw.FORMTYPE_XFA_FOREGROUND):
                self._document.init_forms()
            self.page_count = len(self._document)

    @property
    def is_dynamic_form(self) -> bool:
        """Whether the pages are a shell and the content an XFA form, which PDFium does not draw."""
        return self.form_type == raw.FORMTYPE_XFA_FULL

    def read(self, number: int) -> RawPage:
        """The contents of page ``number`` (from 1). UnreadableFile for a page that cannot be loaded."""
        with LOCK:
            page = self._open(number)
            try:
                geometry = Geometry(page.get_bbox(), page.get_rotation() // 90 % 4)
                return RawPage(
                    geometry=geometry,
                    glyphs=read_glyphs(page, geometry),
                    drawn=read_objects(page, geometry),
                    fields=read_fields(self._document, page, geometry),
                    thumbnail=_thumbnail(page),
                )
            except pdfium.PdfiumError as error:
                raise self._unreadable(number, str(error)) from None
            finally:
                page.close()

    def glyphs(self, number: int) -> tuple[Geometry, Glyphs]:
        """Only the characters of a page. UnreadableFile."""
        with LOCK:
            page = self._open(number)
            try:
                geometry = Geometry(page.get_bbox(), page.get_rotation() // 90 % 4)
                return geometry, read_glyphs(page, geometry)
            except pdfium.PdfiumError as error:
                raise self._unreadable(number, str(error)) from None
            finally:
                page.close()

    def render(self, number: int, dpi: float, megapixels: float) -> Image:
        """The page as shown, RGB, at most ``megapixels`` and never more than 20,000 pixels a side."""
        with LOCK:
            page = self._open(number)
            try:
                width, height = page.get_size()
                scale = bounded_scale(width, height, dpi / 72, megapixels)
                bitmap = page.render(scale=scale, rev_byteorder=True)  # pyright: ignore[reportArgumentType]
                try:
                    return bitmap.to_pil().convert("RGB")
                finally:
                    bitmap.close()
            except (pdfium.PdfiumError, ValueError, MemoryError) as error:
                raise self._unreadable(number, str(error)) from None
            finally:
                page.close()

    def save_unlocked(self, target: BinaryIO) -> None:
        """Write a copy that opens without a password."""
        with LOCK:
            self._document.save(target, flags=raw.FPDF_REMOVE_SECURITY)

    def close(self) -> None:
        with LOCK:
            self._document.close()

    def _open(self, number: int) -> pdfium.PdfPage:
        try:
            return self._document[number - 1]
        except pdfium.PdfiumError as error:
            raise self._unreadable(number, str(error)) from None

    def _unreadable(self, number: int, why: str) -> UnreadableFile:
        return UnreadableFile(f"Page {number} of {self._name} cannot be read ({why.rstrip('.') or 'damaged'})")


def bounded_scale(width: float, height: float, scale: float, megapixels: float) -> float:
    """``scale`` made smaller until the picture has at most ``megapixels`` and 20,000 pixels a side."""
    most = (megapixels * 1e6 / max(1e-6, width * height)) ** 0.5
    longest = 20_000 / max(width, height, 1e-6)
    shortest = 1.01 / max(1e-6, min(width, height))  # at least one pixel each way
    return max(min(scale, most, longest), min(shortest, longest))


def _thumbnail(page: pdfium.PdfPage) -> Grey:
    width, height = page.get_size()
    scale = bounded_scale(width, height, min(THUMBNAIL_DPI / 72, _THUMBNAIL_SIDE / max(width, height, 1)), 1.5)
    bitmap = page.render(scale=scale, grayscale=True)  # pyright: ignore[reportArgumentType]
    try:
        return np.array(bitmap.to_numpy().reshape(bitmap.height, bitmap.width), dtype=np.uint8)
    finally:
        bitmap.close()


def _refusal(error: pdfium.PdfiumError, name: str, password: str) -> PeritoError:
    if error.err_code == raw.FPDF_ERR_PASSWORD:
        if password:
            return EncryptedFile(f"{name} does not open with that password", "Give the right one with --password")
        return EncryptedFile(f"{name} is protected by a password")
    if error.err_code == raw.FPDF_ERR_SECURITY:
        return EncryptedFile(f"{name} is protected in a way that cannot be opened", "Send a copy without protection")
    return UnreadableFile(f"{name} is a damaged PDF: {str(error).rstrip('.')}")
