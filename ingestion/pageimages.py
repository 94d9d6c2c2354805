"""Page images for citations: rendered from the source when first asked for, then kept beside it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.blobs import FolderBlobStore
from assistant.core.domain import Access, Box, Document
from assistant.core.errors import NotFound
from assistant.core.ports import Catalogue
from ingestion.officepages import SLIDES, TEXTS, OfficePages, Printed
from ingestion.openfiles import FilePool
from ingestion.sources.media.sheet import draw_sheet

if TYPE_CHECKING:
    from PIL.Image import Image

DPI = 130  # A4 becomes 1075 x 1520 pixels: sharp in a side panel, about 150 kB
JPEG_QUALITY = 82
RECORDINGS = ("audio/", "video/")
FILL = (255, 196, 0, 70)
LINE = (214, 120, 0, 255)


class SourcePageImages:
    """Implements the kernel's ``PageImages`` over the stored source files."""

    def __init__(
        self, catalogue: Catalogue, blobs: FolderBlobStore, files: FilePool, office: OfficePages | None = None
    ) -> None:
        self._catalogue = catalogue
        self._blobs = blobs
        self._files = files
        self._office = office

    def page_image(self, document_id: str, number: int, access: Access, boxes: Sequence[Box] = ()) -> bytes:
        """The upright page as a JPEG with ``boxes`` drawn on it. NotFound; BadInput where it cannot be drawn."""
        document = self._catalogue.document(document_id, access)
        if not 1 <= number <= max(document.pages, 1):
            raise NotFound(f"{document.name} has no page {number}", f"Its pages are 1 to {document.pages}")
        if document.media_type.startswith(RECORDINGS) and (said := self._said(document_id, number, access)):
            return with_boxes(said, boxes) if boxes else said
        blob = self._catalogue.blob(document_id, access)
        printed = self._printed(document, blob, number, access, boxes)
        if printed is not None:
            return with_boxes(encode(printed.image), printed.boxes)
        plain = self._plain(blob, document, number, self._turned(document_id, number, access))
        return with_boxes(plain, boxes) if boxes else plain

    def _said(self, document_id: str, number: int, access: Access) -> bytes | None:
        """What is said in a stretch of a recording, as it was read: the file has nothing to show. None before that."""
        try:
            return encode(draw_sheet(self._catalogue.page(document_id, number, access), DPI))
        except NotFound:
            return None

    def _printed(
        self, document: Document, blob: str, number: int, access: Access, boxes: Sequence[Box]
    ) -> Printed | None:
        """The printed page on which the boxed blocks of a text document stand, where there is one."""
        if self._office is None or not boxes or document.media_type not in TEXTS:
            return None
        try:
            blocks = self._catalogue.page(document.id, number, access).blocks
        except NotFound:
            return None
        cited = [block for block in blocks if block.bbox in boxes]
        return self._office.passage(blob, document, number, cited, DPI)

    def _turned(self, document_id: str, number: int, access: Access) -> int:
        try:
            return self._catalogue.page(document_id, number, access).turned
        except NotFound:  # not read yet: shown as it lies
            return 0

    def _plain(self, blob: str, document: Document, number: int, turned: int) -> bytes:
        part = f"page-{number}-{turned}-{DPI}.jpg"
        kept = self._blobs.derived(blob, part)
        if kept is not None:
            return kept.read_bytes()
        image = self._render(self._blobs.path(blob), document.name, number, turned)
        if self._office is not None and document.media_type in SLIDES:
            image = self._office.slide(blob, document, number, image, DPI) or image
        data = encode(image)
        self._blobs.put_derived(blob, part, data)
        return data

    def _render(self, path: Path, name: str, number: int, turned: int) -> Image:
        with self._files.open(path, name=name) as file:
            image = file.render(number, DPI).result()
        return image.rotate(-turned, expand=True) if turned else image


def with_boxes(jpeg: bytes, boxes: Sequence[Box]) -> bytes:
    """The picture with each box filled lightly and outlined, a little wider than its text."""
    from PIL import Image, ImageDraw

    page = Image.open(io.BytesIO(jpeg)).convert("RGB")
    veil = Image.new("RGBA", page.size)
    draw = ImageDraw.Draw(veil)
    margin = max(3, page.width // 250)
    for box in boxes:
        corners = (
            max(0, box.x0 * page.width - margin),
            max(0, box.y0 * page.height - margin),
            min(page.width - 1, box.x1 * page.width + margin),
            min(page.height - 1, box.y1 * page.height + margin),
        )
        draw.rounded_rectangle(corners, radius=margin, fill=FILL, outline=LINE, width=max(2, margin // 2))
    page.paste(veil, mask=veil)
    return encode(page)


def encode(image: Image) -> bytes:
    """``image`` as a JPEG file's bytes."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY, progressive=True)
    return buffer.getvalue()
