"""PDF files written by hand, for what no real document at hand shows: odd boxes, hidden text, hostile sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

A4 = (0, 0, 595, 842)


@dataclass(frozen=True)
class PdfPage:
    content: str | bytes
    media: tuple[float, ...] = A4
    crop: tuple[float, ...] | None = None
    rotate: int = 0
    filter: str = ""


def text_at(x: float, y: float, text: str, size: float = 12, extra: str = "") -> str:
    """A line of Helvetica with its baseline's left end at (x, y), in the file's own coordinates."""
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"q BT {extra} /F1 {size} Tf {x} {y} Td ({escaped}) Tj ET Q\n"


def write_pdf(path: Path, pages: Sequence[PdfPage], forms: Sequence[str] = ()) -> Path:
    """A plain PDF 1.4 with one font, Helvetica in Windows-1252. ``forms`` are pieces that pages and later forms may
    draw by their names /X0, /X1, …"""
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    first = 4 + 2 * len(pages)
    named = " ".join(f"/X{index} {first + index} 0 R" for index in range(len(forms)))
    resources = f"/Resources << /Font << /F1 3 0 R >> /XObject << {named} >> >>"
    for index, page in enumerate(pages):
        crop = f"/CropBox [{' '.join(map(str, page.crop))}]" if page.crop else ""
        media = " ".join(map(str, page.media))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{media}] {crop} /Rotate {page.rotate} "
            f"{resources} /Contents {5 + 2 * index} 0 R >>".encode()
        )
        objects.append(_stream(page.content, f"/Filter {page.filter}" if page.filter else ""))
    kind = f"/Type /XObject /Subtype /Form /BBox [0 0 {A4[2]} {A4[3]}] {resources}"
    objects += [_stream(form, kind) for form in forms]
    return _assembled(path, objects)


def _stream(content: str | bytes, entries: str) -> bytes:
    body = content if isinstance(content, bytes) else content.encode("cp1252")
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(body), entries.encode(), body)


def _assembled(path: Path, objects: Sequence[bytes]) -> Path:
    data = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(data)
    return path
