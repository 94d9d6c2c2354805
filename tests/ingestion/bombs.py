"""Small files that take a process's memory or time without end, made of what readers are known to die of."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

HEAD = text_at(72, 800, "Contrato marco de 2026")  # so that neighbouring pages are compared
SANE = PdfPage(HEAD + text_at(72, 700, "El contrato vence el 5 de mayo de 2026 y se paga en Sevilla."))


def expanding(operators: bytes, megabytes: int) -> PdfPage:
    """A page whose content stream is packed twice: a few kilobytes that become ``megabytes`` of drawing."""
    packer = zlib.compressobj(9)
    block = operators * max(1, 1_000_000 // len(operators))
    packed = b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()
    return PdfPage(zlib.compress(packed, 9), filter="[/FlateDecode /FlateDecode]")


PATHS = b"0 0 m 9 9 l S\n"
LETTERS = b"BT /F1 9 Tf (Peligro) Tj ET\n"


def write_nested(path: Path, pages: Sequence[PdfPage], depth: int = 12, width: int = 10) -> Path:
    """A PDF whose pages may draw ``/X0``: a form that draws ``width`` times another, which draws … ``depth`` times."""
    forms = [f"/X{level + 1} Do\n" * width for level in range(depth)]
    return write_pdf(path, pages, [*forms, "0 0 m 9 9 l S\n"])
