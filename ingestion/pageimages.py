"""Page images for citations: rendered from the source when first asked for, then kept beside it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.blobs import FolderBlobStore
from assistant.core.domain import Access, Box
from assistant.core.errors import NotFound
from assistant.core.ports import Catalogue
from ingestion.openfiles import FilePool

if TYPE_CHECKING:
    from PIL.Image import Image

DPI = 130  # A4 becomes 1075 x 1520 pixels: sharp in a side panel, about 150 kB
JPEG_QUALITY = 82
FILL = (255, 196, 0, 70)
LINE = (214, 120, 0, 255)


class SourcePageImages:
    """Implements the kernel's ``PageImages`` over the stored source files."""

    def __init__(self, catalogue: Catalogue, blobs: FolderBlobStore, files: FilePool) -> None:
        self._catalogue = catalogue
        self._blobs = blobs
        self._files = files

    def page_image(self, document_id: str, number: int, access: Access, boxes: Sequence[Box] = ()) -> bytes:
        """The upright page as a JPEG with ``boxes`` drawn on it. NotFound; BadInput where it cannot be drawn."""
        document = self._catalogue.document(document_id, access)
        if not 1 <= number <= max(document.pages, 1):
            raise NotFound(f"{document.name} has no page {number}", f"Its pages are 1 to {document.pages}")
        turned = self._turned(document_id, number, access)
        plain = self._plain(self._catalogue.blob(document_id, access), document.name, number, turned)
        return with_boxes(plain, boxes) if boxes else plain

    def _turned(self, document_id: str, number: int, access: Access) -> int:
        try:
            return self._catalogue.page(document_id, number, access).turned
        except NotFound:  # not read yet: shown as it lies
            return 0

    def _plain(self, blob: str, name: str, number: int, turned: int) -> bytes:
        part = f"page-{number}-{turned}-{DPI}.jpg"
        kept = self._blobs.derived(blob, part)
        if kept is not None:
            return kept.read_bytes()
        data = encode(self._render(self._blobs.path(blob), name, number, turned))
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
