"""The sheet on which stands what is said in a stretch of a recording: paragraphs, and the moments they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assistant.core.domain import PageReading, clock
from ingestion.sources.drawn import draw_row, font_of
from ingestion.speechsheet import MARGIN, ROW, WIDTH, rows_of

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_PIXELS = 40e6


def draw_sheet(page: PageReading, dpi: float) -> Image:
    """The page as it was read and corrected; each paragraph in its box, with the moment it begins before it."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    width, height = page.width or WIDTH, page.height or WIDTH
    scale = min(dpi / 72, (_MOST_PIXELS / (width * height)) ** 0.5)
    paper = Pictures.new("RGB", (round(width * scale), round(height * scale)), "white")
    pen = ImageDraw.Draw(paper)
    step, font = ROW * scale, font_of(max(1, int(ROW * scale * 0.75)))
    small = font_of(max(1, int(ROW * scale * 0.6)))
    gap = MARGIN * scale / 8
    for block in page.blocks:
        top, left = block.bbox.y0 * paper.height, block.bbox.x0 * paper.width
        if block.time is not None:
            draw_row(pen, clock(block.time.start), gap, top, left - 2 * gap, small)
        for number, row in enumerate(rows_of(block.text)):
            draw_row(pen, row, left, top + number * step, block.bbox.width * paper.width, font)
    return paper
