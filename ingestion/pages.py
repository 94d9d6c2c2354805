"""A page as its file gives it, before any reader has looked at it.

Boxes are fractions of the page as it is shown (after the file's own rotation flag and its crop),
origin at the top left. Sizes are points for PDF, pixels for pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import Block, Box, Word

if TYPE_CHECKING:
    from PIL.Image import Image

Grey = NDArray[np.uint8]
"""A small grey rendering of a page: rows by columns, 0 black to 255 white."""


class Unseen(StrEnum):
    """Why a line of a text layer is not content: a person who looks at the page does not see it."""

    INVISIBLE = "invisible"  # drawn without ink, as OCR layers are
    COVERED = "covered"  # a picture lies over it, as over some OCR layers
    PALE = "pale"  # the page shows nothing where it stands, e.g. white on white
    TINY = "tiny"
    OUTSIDE = "outside"  # off the page

    @property
    def is_layer(self) -> bool:
        """Whether this is how scanners' text layers hide, rather than how people hide text."""
        return self in (Unseen.INVISIBLE, Unseen.COVERED)


@dataclass(frozen=True, slots=True)
class Line:
    """A run of words on one baseline, without a wide gap: less than a whole row where columns or cells stand
    side by side. ``angle`` is how far the text is turned, in degrees clockwise (0: upright)."""

    text: str
    bbox: Box
    words: tuple[Word, ...]
    size: float  # of its type, in points
    bold: bool = False
    italic: bool = False
    angle: int = 0
    hyphen: bool = False  # ends in a hyphen that the file marks as soft
    field: bool = False  # the value of a form field
    repeated: bool = False  # stands at the same place on a neighbouring page: a running head or foot
    unseen: Unseen | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """A straight line on the page, along one of its sides; a box of (nearly) no width or no height."""

    bbox: Box
    horizontal: bool


@dataclass(frozen=True, slots=True)
class LayerSigns:
    """Counts about a text layer's characters that its lines no longer show."""

    characters: int = 0  # that are no space
    unmapped: int = 0  # whose font says no letter for the glyph
    doubled: int = 0  # drawn twice at the same place; the second is dropped from the lines


@dataclass(frozen=True)
class Page:
    """What a file knows about one of its pages.

    ``lines`` are seen on the page; ``unseen`` are in the file and not on the page, and never content.
    ``pictures`` are image regions, ``drawings`` regions of curves and slanted strokes (charts, plans).
    ``blocks`` is set by sources that know their structure (Markdown, plain text).
    """

    number: int
    width: float
    height: float
    draw: Callable[[float], Image] = field(repr=False)  # dpi to an RGB picture; bounded by the limits
    lines: tuple[Line, ...] = ()
    unseen: tuple[Line, ...] = ()
    pictures: tuple[Box, ...] = ()
    drawings: tuple[Box, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    blocks: tuple[Block, ...] = ()
    signs: LayerSigns = LayerSigns()
    thumbnail: Grey | None = field(default=None, repr=False, compare=False)
    is_picture: bool = False  # the page is one picture and nothing else

    @property
    def words(self) -> tuple[Word, ...]:
        """The words seen on the page, line by line in the file's order."""
        return tuple(word for line in self.lines for word in line.words)

    def render(self, dpi: float) -> Image:
        """The page as shown, as an RGB picture of at most ``limits.render_megapixels``. Pictures come
        at their own resolution unless ``dpi`` is below 150. UnreadableFile."""
        return self.draw(dpi)

    def grey(self) -> Grey:
        """The thumbnail: made with the page where that is cheap, else now (about 50 dpi)."""
        return self.thumbnail if self.thumbnail is not None else np.asarray(self.draw(50).convert("L"))
