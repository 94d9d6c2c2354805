"""The characters of a page with their places and their type, as arrays."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2 as pdfium
from numpy.typing import NDArray

from ingestion.sources.pdfium import native
from ingestion.sources.pdfium.geometry import Floats, Geometry

_MOST_GLYPHS = 200_000  # a page that holds more is no page to read; the rest is left out
_BOLD_NAMES = ("bold", "black", "heavy", "semibold", "demi", "cmbx", "-bd", "sfbx")
_ITALIC_NAMES = ("italic", "oblique", "cmti", "-it")
_MODES_WITHOUT_INK = (3, 7)  # PDF 32000-1, table 106: neither fill nor stroke; clip only


@dataclass(frozen=True, slots=True)
class Run:
    """The type a stretch of characters is set in."""

    size: float  # points as shown
    angle: int  # degrees clockwise as shown
    bold: bool
    italic: bool
    inkless: bool  # drawn without fill and stroke, or fully transparent
    luma: int  # brightness of its ink, 0 black to 255 white
    object: int  # address of the text object, to look up what is drawn over it


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a page in the file's order.

    ``boxes`` (n, 4) and ``origins`` (n, 2) are in points as shown; ``run`` indexes ``runs`` and is -1 for
    characters that PDFium put in (spaces, line ends).
    """

    codes: NDArray[np.uint32]
    boxes: Floats
    origins: Floats
    run: NDArray[np.int32]
    runs: tuple[Run, ...]
    unmapped: NDArray[np.bool_]


def read_glyphs(page: pdfium.PdfPage, geometry: Geometry) -> Glyphs:
    """All characters of ``page``. Call under the lock."""
    textpage = page.get_textpage()
    try:
        handle = native.address_of(textpage)
        count = min(textpage.count_chars(), _MOST_GLYPHS)
        codes = native.collect(native.char_code, handle, count, np.uint32)
        objects = native.collect(native.char_object, handle, count, np.uint64)
        boxes = geometry.boxes(_finite(native.fill(native.char_box, handle, count, 4)))
        origins = geometry.points(_finite(native.fill(native.char_origin, handle, count, 2)))
        unmapped = native.collect(native.char_unmapped, handle, count, np.int8) == 1
        index, starts = _runs(objects)
        fonts: dict[int, tuple[bool, bool]] = {}
        runs = tuple(_run(handle, start, int(objects[start]), geometry, fonts) for start in starts)
    finally:
        textpage.close()
    return Glyphs(codes, boxes, origins, index, runs, unmapped)


def _runs(objects: NDArray[np.uint64]) -> tuple[NDArray[np.int32], list[int]]:
    """The run each character belongs to, and the first character of each run."""
    index = np.full(len(objects), -1, np.int32)
    real = np.flatnonzero(objects)
    if not len(real):
        return index, []
    begins = np.concatenate([[True], objects[real][1:] != objects[real][:-1]])
    index[real] = np.cumsum(begins) - 1
    return index, [int(place) for place in real[begins]]


def _run(handle: int, start: int, object_: int, geometry: Geometry, fonts: dict[int, tuple[bool, bool]]) -> Run:
    matrix = (ctypes.c_float * 6)()
    native.char_matrix(handle, start, ctypes.addressof(matrix))
    a, b, c, d = matrix[:4]
    along = geometry.directions(np.array([[a, b]]))[0]
    size = float(native.char_size(handle, start)) * (float(np.hypot(c, d)) or 1.0)
    red, green, blue, alpha = colour_of(native.object_fill, object_)
    font = int(native.text_font(object_) or 0)
    if font not in fonts:
        fonts[font] = _style(font)
    bold, italic = fonts[font]
    return Run(
        size=size,
        angle=_angle(float(along[0]), float(along[1])),
        bold=bold or native.text_mode(object_) == 2,  # 2: filled and stroked, the poor man's bold
        italic=italic,
        inkless=native.text_mode(object_) in _MODES_WITHOUT_INK or alpha < 13,
        luma=(299 * red + 587 * green + 114 * blue) // 1000,
        object=object_,
    )


def _finite(values: Floats) -> Floats:
    """A damaged file may place a character nowhere: that is the origin, which no line is near."""
    return np.nan_to_num(values, posinf=0.0, neginf=0.0)


def colour_of(function: Any, object_: int) -> tuple[int, int, int, int]:
    """Red, green, blue, alpha; opaque black where the object has none."""
    parts = (ctypes.c_uint * 4)()
    base = ctypes.addressof(parts)
    if not function(object_, base, base + 4, base + 8, base + 12):
        return 0, 0, 0, 255
    return parts[0], parts[1], parts[2], parts[3]


def _angle(x: float, y: float) -> int:
    """Degrees clockwise in [0, 360); snapped to a quarter where it is within 10 degrees of one."""
    degrees = float(np.nan_to_num(np.degrees(np.arctan2(y, x)))) % 360  # no number at all in a damaged file
    quarter = round(degrees / 90) * 90
    return int(quarter % 360 if abs(degrees - quarter) <= 10 else round(degrees))


def _style(font: int) -> tuple[bool, bool]:
    """Whether a font is bold and whether it is italic, by its name and flags."""
    if not font:
        return False, False
    buffer = ctypes.create_string_buffer(256)
    native.font_name(font, ctypes.addressof(buffer), 256)
    name = buffer.value.decode("latin-1").lower()
    flags = max(0, int(native.font_flags(font)))
    bold = any(part in name for part in _BOLD_NAMES) or bool(flags & (1 << 18))  # ForceBold
    return bold, any(part in name for part in _ITALIC_NAMES) or bool(flags & (1 << 6))
