"""Sections as pages: what a format without pages of its own shows for a citation.

Every source of such a format is a ``SectionSource``: it hands over its sections and gets pages that are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from assistant.core.domain import WHOLE_PAGE, Word
from assistant.core.errors import EmptyFile, NotFound, TooLarge
from assistant.core.settings import LimitSettings
from ingestion.pages import Line, Page
from ingestion.sources.inlays import draw_inlay
from ingestion.sources.sections import HEIGHT, MARGIN, ROWS, WIDTH, Inlay, Section, grid_box

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial Unicode.ttf")


class SectionSource:
    """A file whose pages are sections, known when it is opened. EmptyFile when there is none, TooLarge."""

    damage = ""

    def __init__(self, name: str, media_type: str, made: Iterable[Section], limits: LimitSettings) -> None:
        self.media_type = media_type
        self._name = name
        self._limits = limits
        self._sections = list(islice(made, limits.pages + 1))
        self.page_count = len(self._sections)
        if not self._sections:
            raise EmptyFile(f"There is no text to see in {name}")
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} makes more pages than are read of one file; the limit is {limits.pages}")

    def page(self, number: int) -> Page:
        """Section ``number``, from 1."""
        if not 1 <= number <= self.page_count:
            raise NotFound(f"{self._name} has no page {number}")
        section = self._sections[number - 1]
        if section.picture is not None:
            return self._picture_page(number, section.picture)
        return Page(
            number=number,
            width=WIDTH,
            height=HEIGHT,
            draw=lambda dpi: draw_section(section, dpi, self._limits),
            lines=_lines(section),
            pictures=tuple(box for box, _ in section.inlays),
            blocks=section.blocks,
        )

    def _picture_page(self, number: int, inlay: Inlay) -> Page:
        return Page(
            number=number,
            width=float(inlay.width),
            height=float(inlay.height),
            draw=lambda dpi: draw_inlay(inlay, self._limits, dpi),
            pictures=(WHOLE_PAGE,),
            is_picture=True,
        )

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> SectionSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(section: Section) -> tuple[Line, ...]:
    rows = ((row, grid_box(index, index + 1)) for index, row in enumerate(section.rows))
    return tuple(Line(row, box, (Word(row, box),), size=8.0) for row, box in rows if row.strip())


def draw_section(section: Section, dpi: float, limits: LimitSettings) -> Image:
    """The section's rows in black on white, each inside its row of the grid, and the pictures in their places."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = min(dpi / 72, (limits.render_megapixels * 1e6 / (WIDTH * HEIGHT)) ** 0.5)
    width, height = max(1, round(WIDTH * scale)), max(1, round(HEIGHT * scale))
    paper = Pictures.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(paper)
    step = (1 - 2 * MARGIN) / ROWS * height
    room = (1 - 2 * MARGIN) * width
    font = font_of(max(1, int(step * 0.72)))
    for index, row in enumerate(section.rows):
        if row.strip():
            draw_row(pen, row, MARGIN * width, MARGIN * height + index * step, room, font)
    for box, inlay in section.inlays:
        place = round(box.x0 * width), round(box.y0 * height)
        size = max(1, round(box.width * width)), max(1, round(box.height * height))
        paper.paste(draw_inlay(inlay, limits).resize(size, Pictures.Resampling.LANCZOS, reducing_gap=2.0), place)
    return paper


def draw_row(pen: Any, row: str, x: float, y: float, room: float, font: FreeTypeFont) -> None:
    """One row; letters of a wide script are set smaller until the row fits."""
    length = font.getlength(row)
    if length > room:
        font = font_of(max(1, int(font.size * room / length)))
    pen.text((x, y), row, fill="black", font=font)


@lru_cache(maxsize=64)
def font_of(size: int) -> FreeTypeFont:
    """A font of the machine that knows many scripts, or the one that comes with Pillow."""
    from PIL import ImageFont

    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)  # pyright: ignore[reportReturnType]  # FreeType is built into Pillow's wheels
