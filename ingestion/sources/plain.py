"""Plain text and Markdown files as pages: sections of bounded size, drawn on a page of their own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from assistant.core.domain import Word
from assistant.core.errors import EmptyFile, NotFound, TooLarge, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.pages import Line, Page
from ingestion.sources.decoding import decode
from ingestion.sources.markdown import markdown_parts
from ingestion.sources.sections import MARGIN, ROWS, Section, grid_box, plain_parts, sections

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_WIDTH, _HEIGHT = 595.0, 842.0  # A4 in points
_MARKDOWN = (".md", ".markdown", ".mkd", ".mdown")
_LARGEST = 64_000_000  # bytes: far more than a text of the largest number of pages
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial Unicode.ttf")


class TextSource:
    """A text file, decoded and cut into sections when it is opened."""

    damage = ""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        if path.stat().st_size > _LARGEST:
            raise TooLarge(f"{name} is a text of more than {_LARGEST // 1_000_000} MB")
        text = decode(path.read_bytes())
        if text is None:
            raise UnsupportedFile(f"{name} is neither a PDF nor a picture nor readable text")
        if not text.strip():
            raise EmptyFile(f"There is no text in {name}")
        is_markdown = Path(name).suffix.lower() in _MARKDOWN
        self.media_type = "text/markdown" if is_markdown else "text/plain"
        self._name = name
        self._limits = limits
        self._sections = list(sections(markdown_parts(text) if is_markdown else plain_parts(text)))
        self.page_count = len(self._sections)
        if not self._sections:
            raise EmptyFile(f"There is no text to see in {name}")
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} makes {self.page_count} pages; the limit is {limits.pages}")

    def page(self, number: int) -> Page:
        """Section ``number``, from 1."""
        if not 1 <= number <= self.page_count:
            raise NotFound(f"{self._name} has no page {number}")
        section = self._sections[number - 1]
        return Page(
            number=number,
            width=_WIDTH,
            height=_HEIGHT,
            draw=lambda dpi: draw_section(section, dpi, self._limits.render_megapixels),
            lines=_lines(section),
            blocks=section.blocks,
        )

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> TextSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(section: Section) -> tuple[Line, ...]:
    rows = ((row, grid_box(index, index + 1)) for index, row in enumerate(section.rows))
    return tuple(Line(row, box, (Word(row, box),), size=8.0) for row, box in rows if row.strip())


def draw_section(section: Section, dpi: float, megapixels: float) -> Image:
    """The section's rows in black on white, each inside its row of the grid."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = min(dpi / 72, (megapixels * 1e6 / (_WIDTH * _HEIGHT)) ** 0.5)
    width, height = max(1, round(_WIDTH * scale)), max(1, round(_HEIGHT * scale))
    paper = Pictures.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(paper)
    step = (1 - 2 * MARGIN) / ROWS * height
    room = (1 - 2 * MARGIN) * width
    font = _font(max(1, int(step * 0.72)))
    for index, row in enumerate(section.rows):
        if row.strip():
            _draw_row(pen, row, MARGIN * width, MARGIN * height + index * step, room, font)
    return paper


def _draw_row(pen: Any, row: str, x: float, y: float, room: float, font: FreeTypeFont) -> None:
    """One row; letters of a wide script are set smaller until the row fits."""
    length = font.getlength(row)
    if length > room:
        font = _font(max(1, int(font.size * room / length)))
    pen.text((x, y), row, fill="black", font=font)


@lru_cache(maxsize=64)
def _font(size: int) -> FreeTypeFont:
    """A font of the machine that knows many scripts, or the one that comes with Pillow."""
    from PIL import ImageFont

    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)  # pyright: ignore[reportReturnType]  # FreeType is built into Pillow's wheels
