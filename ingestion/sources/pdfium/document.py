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
from ingestion.sources.pdfium.rescue import Rescued, has_end, is_legible, rescue

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
        self._document, self._rescued, self.damage = _open_document(path, name, password)
        with LOCK:
            try:
                self.form_type = int(self._document.get_formtype())
                if self.form_type in (raw.FORMTYPE_ACRO_FORM, raw.FORMTYPE_XFA_FOREGROUND):
                    self._document.init_forms()
                self.page_count = len(self._document)
            except BaseException:
                self._document.close()
                raise

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
                glyphs, drawn = read_glyphs(page, geometry), read_objects(page, geometry)
                self._check_legible(number, glyphs, _covered(drawn, geometry) > 0.3)
                return RawPage(
                    geometry=geometry,
                    glyphs=glyphs,
                    drawn=drawn,
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
            except (pdfium.PdfiumError, ValueError) as error:
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
        if self._rescued is not None and number in self._rescued.missing:
            raise self._lost(number, "it")
        try:
            return self._document[number - 1]
        except pdfium.PdfiumError as error:
            raise self._unreadable(number, str(error)) from None

    def _check_legible(self, number: int, glyphs: Glyphs, is_picture: bool) -> None:
        """What is left of a page may be the numbers of its letters in a font that is lost."""
        doubtful = self._rescued is not None and number in self._rescued.doubtful
        if doubtful and not is_legible(glyphs.codes, is_picture):
            raise self._lost(number, "what its letters are")

    def _lost(self, number: int, what: str) -> UnreadableFile:
        how = "was cut off" if self._rescued is not None and self._rescued.is_cut else "is lost in the damage"
        return UnreadableFile(
            f"Page {number} of {self._name} cannot be read: {what} {how}", "Send a whole copy of the file"
        )

    def _unreadable(self, number: int, why: str) -> UnreadableFile:
        return UnreadableFile(f"Page {number} of {self._name} cannot be read ({why.rstrip('.') or 'damaged'})")


def _open_document(path: Path, name: str, password: str) -> tuple[pdfium.PdfDocument, Rescued | None, str]:
    """The document as it is, or what can be rescued of it, and what is missing."""
    try:
        with LOCK:
            document = pdfium.PdfDocument(path, password=password or None)
    except pdfium.PdfiumError as error:
        refusal = _refusal(error, name, password)
        rescued = rescue(path, name) if isinstance(refusal, UnreadableFile) else None
        if rescued is None:
            raise refusal from None
        return _open_rescued(rescued, refusal), rescued, rescued.damage
    return (document, None, "") if has_end(path) else _without_end(path, name, document)


def _without_end(path: Path, name: str, document: pdfium.PdfDocument) -> tuple[pdfium.PdfDocument, Rescued | None, str]:
    """A file that is cut off may open all the same, with pages that are silently blank."""
    try:
        rescued = rescue(path, name)
    except UnreadableFile:  # it is protected as well
        rescued = None
    if rescued is None or rescued.page_count < len(document):
        return document, None, "The file is cut off; what is missing cannot be told."
    if not rescued.damage:
        rescued.file.close()
        return document, None, ""
    with LOCK:
        document.close()
    return _open_rescued(rescued, UnreadableFile(f"{name} is a damaged PDF")), rescued, rescued.damage


def _open_rescued(rescued: Rescued, refusal: PeritoError) -> pdfium.PdfDocument:
    try:
        with LOCK:
            return pdfium.PdfDocument(rescued.file, autoclose=True)
    except pdfium.PdfiumError:
        rescued.file.close()
        raise refusal from None


def _covered(drawn: Drawn, geometry: Geometry) -> float:
    """The largest picture's share of the page."""
    width, height = geometry.size
    sizes = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in drawn.pictures]
    return max(sizes, default=0.0) / max(1e-6, width * height)


def bounded_scale(width: float, height: float, scale: float, megapixels: float) -> float:
    """``scale`` made smaller until the picture has at most ``megapixels`` and 20,000 pixels a side."""
    area = max(1e-6, width * height)
    most = (megapixels * 1e6 / area) ** 0.5
    most = max(1.0, megapixels * 1e6 - (width + height) * most) ** 0.5 / area**0.5  # sides are rounded up to pixels
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
    return UnreadableFile(f"{name} is cut off or damaged, and no page of it can be read")
