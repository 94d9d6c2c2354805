"""Slides as pages: every shape where it stands, speaker notes and comments below the slide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL.Image import Image

from assistant.core.domain import Block, BlockKind, Box, Reader, Word
from assistant.core.errors import EmptyFile, NotFound, TooLarge
from assistant.core.settings import LimitSettings
from ingestion.pages import Line, Page
from ingestion.sources.drawn import draw_row, font_of
from ingestion.sources.inlays import draw_inlay
from ingestion.sources.sections import Inlay, Part, wrap
from ingestion.tables import Table

Frame = tuple[float, float, float, float]  # left, top, right, bottom in points

_LARGEST_TYPE, _LEAST_TYPE = 20.0, 4.0  # points
_LETTER, _LEADING = 0.53, 1.2  # of the type's size: a letter's mean width, and a line's height
_NOTES_TYPE = 10.0
_MARGIN = 20.0
_LEAST_SHARE = 0.0005  # of the page; a smaller picture is an ornament


@dataclass(slots=True)
class Shape:
    """What stands in one frame of a slide: text parts, a table, or a picture (whose part may say what it shows)."""

    frame: Frame
    parts: list[Part] = field(default_factory=list[Part])
    inlay: Inlay | None = None


@dataclass(slots=True)
class Slide:
    """Sizes in points. ``below`` is what does not show on the slide: notes and comments."""

    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list[Shape])
    below: list[Part] = field(default_factory=list[Part])


@dataclass(frozen=True, slots=True)
class _Text:
    lines: tuple[str, ...]
    frame: Frame
    size: float
    framed: bool = False


@dataclass(frozen=True, slots=True)
class _Drawn:
    width: float
    height: float
    blocks: tuple[Block, ...]
    texts: tuple[_Text, ...]
    pictures: tuple[tuple[Box, Inlay], ...]


class SlideSource:
    """Slides, one a page. EmptyFile when there are none, TooLarge."""

    damage = ""

    def __init__(self, name: str, media_type: str, slides: Sequence[Slide], limits: LimitSettings) -> None:
        self.media_type = media_type
        self._name = name
        self._limits = limits
        self._slides = slides
        self.page_count = len(slides)
        if not slides:
            raise EmptyFile(f"There are no slides in {name}")
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} has {self.page_count} slides; the limit is {limits.pages} pages")

    def page(self, number: int) -> Page:
        """Slide ``number``, from 1."""
        if not 1 <= number <= self.page_count:
            raise NotFound(f"{self._name} has no slide {number}")
        drawn = _laid_out(self._slides[number - 1])
        return Page(
            number=number,
            width=drawn.width,
            height=drawn.height,
            draw=lambda dpi: _draw(drawn, dpi, self._limits),
            lines=tuple(_lines(drawn)),
            pictures=tuple(box for box, _ in drawn.pictures if box.area >= _LEAST_SHARE),
            blocks=drawn.blocks,
        )

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> SlideSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _laid_out(slide: Slide) -> _Drawn:
    texts: list[_Text] = []
    placed: list[tuple[Part, Frame]] = []
    for shape in slide.shapes:
        frame = _kept_inside(shape.frame, slide)
        for part, place in _stacked(shape.parts, frame) if shape.inlay is None else [(p, frame) for p in shape.parts]:
            placed.append((part, place))
            if shape.inlay is None:
                texts += _table_texts(part.table, place) if part.table else [_fitted(part.text, place)]
    bottom = slide.height
    for part in slide.below:
        text = _below(part.text, slide.width, bottom + _MARGIN / 2)
        texts.append(text)
        placed.append((part, text.frame))
        bottom = text.frame[3]
    width, height = slide.width, bottom + (_MARGIN if slide.below else 0.0)
    return _Drawn(
        width,
        height,
        tuple(_block(part, frame, width, height) for part, frame in placed if part.text.strip()),
        tuple(texts),
        tuple(
            (_box(_kept_inside(shape.frame, slide), width, height), shape.inlay)
            for shape in slide.shapes
            if shape.inlay is not None
        ),
    )


def _kept_inside(frame: Frame, slide: Slide) -> Frame:
    """The frame within the slide; the whole slide where it has no size or lies outside."""
    x0, x1 = (min(max(side, 0.0), slide.width) for side in (frame[0], frame[2]))
    y0, y1 = (min(max(side, 0.0), slide.height) for side in (frame[1], frame[3]))
    return (x0, y0, x1, y1) if x1 - x0 > 1 and y1 - y0 > 1 else (0.0, 0.0, slide.width, slide.height)


def _stacked(parts: Sequence[Part], frame: Frame) -> Iterator[tuple[Part, Frame]]:
    """The parts of a frame one under the other, each with room for its share of the text."""
    x0, y0, x1, y1 = frame
    lengths = [max(1, len(part.text), 40 * (part.text.count("\n") + 1)) for part in parts]
    top = y0
    for part, length in zip(parts, lengths, strict=True):
        bottom = top + (y1 - y0) * length / sum(lengths)
        yield part, (x0, top, x1, bottom)
        top = bottom


def _block(part: Part, frame: Frame, width: float, height: float) -> Block:
    return Block(part.kind, part.text, _box(frame, width, height), 1.0, Reader.TEXT, html=part.html, level=part.level)


def _box(frame: Frame, width: float, height: float) -> Box:
    return Box.of(frame[0] / width, frame[1] / height, frame[2] / width, frame[3] / height)


def _fitted(text: str, frame: Frame, framed: bool = False) -> _Text:
    """The text in the largest type with which it fits its frame."""
    size = _LARGEST_TYPE
    while True:
        letters = max(1, int((frame[2] - frame[0]) / (size * _LETTER)))
        lines = wrap(text, letters)
        if size <= _LEAST_TYPE or len(lines) * size * _LEADING <= frame[3] - frame[1]:
            return _Text(tuple(lines), frame, size, framed)
        size *= 0.9


def _below(text: str, width: float, top: float) -> _Text:
    lines = wrap(text, max(20, int((width - 2 * _MARGIN) / (_NOTES_TYPE * _LETTER))))
    frame = (_MARGIN, top, width - _MARGIN, top + len(lines) * _NOTES_TYPE * _LEADING)
    return _Text(tuple(lines), frame, _NOTES_TYPE)


def _table_texts(table: Table, frame: Frame) -> Iterator[_Text]:
    """A table's cells, evenly spaced in its frame."""
    grid = table.grid()
    if not grid or not grid[0]:
        return
    x0, y0, x1, y1 = frame
    across, down = (x1 - x0) / len(grid[0]), (y1 - y0) / len(grid)
    for row, texts in enumerate(grid):
        for column, text in enumerate(texts):
            left, top = x0 + column * across, y0 + row * down
            yield _fitted(text, (left, top, left + across, top + down), framed=True)


def _lines(drawn: _Drawn) -> Iterator[Line]:
    for text in drawn.texts:
        x0, y0, x1, _ = text.frame
        for index, row in enumerate(text.lines):
            if row.strip():
                top = y0 + index * text.size * _LEADING
                place = _box((x0, top, x1, top + text.size * _LEADING), drawn.width, drawn.height)
                yield Line(row, place, (Word(row, place),), size=text.size)


def _draw(drawn: _Drawn, dpi: float, limits: LimitSettings) -> Image:
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = min(dpi / 72, (limits.render_megapixels * 1e6 / (drawn.width * drawn.height)) ** 0.5)
    paper = Pictures.new("RGB", (max(1, round(drawn.width * scale)), max(1, round(drawn.height * scale))), "white")
    for box, inlay in drawn.pictures:
        _paste(paper, box, draw_inlay(inlay, limits))
    pen = ImageDraw.Draw(paper)
    for text in drawn.texts:
        _draw_text(pen, text, scale)
    return paper


def _paste(paper: Image, box: Box, picture: Image) -> None:
    from PIL import Image as Pictures

    size = max(1, round(box.width * paper.width)), max(1, round(box.height * paper.height))
    small = picture.resize(size, Pictures.Resampling.LANCZOS, reducing_gap=2.0)
    paper.paste(small, (round(box.x0 * paper.width), round(box.y0 * paper.height)))


def _draw_text(pen: Any, text: _Text, scale: float) -> None:
    x0, y0, x1, y1 = (side * scale for side in text.frame)
    if text.framed:
        pen.rectangle((x0, y0, x1, y1), outline=(205, 205, 205))
    font = font_of(max(1, int(text.size * scale * 0.9)))
    for index, line in enumerate(text.lines):
        if line.strip():
            draw_row(pen, line, x0 + scale, y0 + index * text.size * _LEADING * scale, max(1.0, x1 - x0 - scale), font)


def titled(title: str, number: int, is_hidden: bool) -> Part:
    """The heading of a slide: its title, or its number where it has none, so that it does not stand under the last
    slide's; hidden slides say so."""
    text = " ".join(title.split()) or f"Slide {number}"
    return Part(BlockKind.HEADING, f"{text} (hidden slide)" if is_hidden else text, level=1)
