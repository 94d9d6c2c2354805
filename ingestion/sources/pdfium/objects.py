"""What is drawn on a page besides text: pictures, straight rulings, curves, and what covers what."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from numpy.typing import NDArray

from ingestion.sources.pdfium import native
from ingestion.sources.pdfium.geometry import Floats, Geometry
from ingestion.sources.pdfium.glyphs import colour_of

_MOST_OBJECTS = 20_000  # a map or a plan may hold a million; what follows is left out
_MOST_SEGMENTS = 6_000
_THIN = 2.5  # points: what is no thicker is a line
_SHORT = 6.0  # points: what is shorter is no ruling

Matrix = NDArray[np.float64]  # 3 x 3, row vectors: (x, y, 1) @ matrix


@dataclass(slots=True)
class Drawn:
    """Boxes are (x0, y0, x1, y1) in points as shown."""

    pictures: list[tuple[float, float, float, float]] = field(default_factory=list[tuple[float, float, float, float]])
    densities: list[float] = field(default_factory=list[float])  # of the pictures, in their own pixels a point
    rulings: list[tuple[float, float, float, float]] = field(default_factory=list[tuple[float, float, float, float]])
    curves: list[tuple[float, float, float, float]] = field(default_factory=list[tuple[float, float, float, float]])
    covers: list[tuple[int, tuple[float, float, float, float]]] = field(
        default_factory=list[tuple[int, tuple[float, float, float, float]]]
    )  # opaque pictures and shadings with their place in the drawing order
    order: dict[int, int] = field(default_factory=dict[int, int])  # text object to its place in that order
    segments: int = 0


def read_objects(page: pdfium.PdfPage, geometry: Geometry) -> Drawn:
    """Walk the page's objects, forms included. Call under the lock."""
    drawn = Drawn()
    for place, (handle, kind, matrix) in enumerate(_walk(native.address_of(page))):
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            drawn.order[handle] = place
        elif kind in (raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
            box = _bounds(handle, matrix, geometry)
            if kind == raw.FPDF_PAGEOBJ_IMAGE:
                drawn.pictures.append(box)
                drawn.densities.append(_density(handle, box))
            if not native.object_transparent(handle):
                drawn.covers.append((place, box))
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            _read_path(handle, matrix, geometry, drawn)
    return drawn


def _walk(page: int) -> Iterator[tuple[int, int, Matrix]]:
    """Every object with its kind and the matrix from its coordinates to the page's."""
    seen = 0
    stack = [(page, native.count_objects, native.page_object, np.eye(3), 0)]
    while stack:
        parent, count, get, matrix, depth = stack.pop()
        total = count(parent)
        for index in range(max(0, total)):
            seen += 1
            if seen > _MOST_OBJECTS:
                return
            handle = get(parent, index)
            if not handle:
                continue
            kind = native.object_type(handle)
            if kind == raw.FPDF_PAGEOBJ_FORM and depth < 5:
                # Its objects come out of order (after this level): order matters only for covers, and a
                # form's text is compared with pictures of the same form nearly always.
                stack.append(
                    (handle, native.count_form_objects, native.form_object, _matrix_of(handle) @ matrix, depth + 1)
                )
            else:
                yield handle, kind, matrix


def _matrix_of(handle: int) -> Matrix:
    parts = (ctypes.c_float * 6)(1, 0, 0, 1, 0, 0)
    native.object_matrix(handle, ctypes.addressof(parts))
    a, b, c, d, e, f = parts
    return np.array([[a, b, 0], [c, d, 0], [e, f, 1]], dtype=np.float64)


def _shown(points: Floats, matrix: Matrix, geometry: Geometry) -> Floats:
    flat = np.hstack([points, np.ones((len(points), 1))]) @ matrix
    return geometry.points(flat[:, :2])


def _bounds(handle: int, matrix: Matrix, geometry: Geometry) -> tuple[float, float, float, float]:
    sides = (ctypes.c_float * 4)()
    base = ctypes.addressof(sides)
    native.object_bounds(handle, base, base + 4, base + 8, base + 12)  # left, bottom, right, top
    left, bottom, right, top = sides
    corners = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], dtype=np.float64)
    return _box(_shown(corners, matrix, geometry))


def _density(picture: int, box: tuple[float, float, float, float]) -> float:
    """Pixels a point, over both directions, so that a quarter turn does not matter; 0 where it cannot be told."""
    sides = (ctypes.c_uint * 2)()
    base = ctypes.addressof(sides)
    native.picture_size(picture, base, base + 4)
    area = (box[2] - box[0]) * (box[3] - box[1])
    return (sides[0] * sides[1] / area) ** 0.5 if area > 0 else 0.0


def _box(points: Floats) -> tuple[float, float, float, float]:
    low, high = points.min(axis=0), points.max(axis=0)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _read_path(handle: int, matrix: Matrix, geometry: Geometry, drawn: Drawn) -> None:
    mode, stroke = ctypes.c_int(), ctypes.c_int()
    native.path_mode(handle, ctypes.addressof(mode), ctypes.addressof(stroke))
    filled, stroked = bool(mode.value) and _inks(handle, True), bool(stroke.value) and _inks(handle, False)
    whole = _bounds(handle, matrix, geometry)
    width, height = whole[2] - whole[0], whole[3] - whole[1]
    if not (filled or stroked):
        return
    if min(width, height) <= _THIN:
        if max(width, height) >= _SHORT:
            drawn.rulings.append(whole)
        return
    count = native.path_segments(handle)
    if drawn.segments + count > _MOST_SEGMENTS or count > 400:
        drawn.curves.append(whole)
        return
    drawn.segments += max(0, count)
    straight, thin, crooked = _read_segments(handle, count, matrix, geometry)
    if stroked:
        drawn.rulings.extend(straight)
    else:
        drawn.rulings.extend(thin)
    if crooked:
        drawn.curves.append(whole)


def _inks(handle: int, fill: bool) -> bool:
    """Whether the path's colour can be seen on white paper."""
    red, green, blue, alpha = colour_of(native.object_fill if fill else native.object_stroke, handle)
    return alpha > 20 and min(red, green, blue) < 245


_Boxes = list[tuple[float, float, float, float]]


def _read_segments(handle: int, count: int, matrix: Matrix, geometry: Geometry) -> tuple[_Boxes, _Boxes, int]:
    """The straight sides, the sub-paths that are themselves thin bars, and how many pieces are curved
    or slanted."""
    straight: _Boxes = []
    thin: _Boxes = []
    crooked = 0
    for points, curved in _subpaths(handle, count):
        shown = _shown(np.array(points, dtype=np.float64), matrix, geometry)
        box = _box(shown)
        if min(box[2] - box[0], box[3] - box[1]) <= _THIN and max(box[2] - box[0], box[3] - box[1]) >= _SHORT:
            thin.append(box)
        crooked += curved
        for first, second in itertools.pairwise(shown):
            side = _box(np.array([first, second]))
            wide, high = side[2] - side[0], side[3] - side[1]
            if min(wide, high) <= 0.8:
                if max(wide, high) >= _SHORT:
                    straight.append(side)
            elif max(wide, high) > 2:
                crooked += 1
    return straight, thin, crooked


def _subpaths(handle: int, count: int) -> Iterator[tuple[list[tuple[float, float]], int]]:
    """Points of each sub-path (closed ones end where they began) and how many Bézier points it has."""
    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[tuple[float, float]] = []
    curved = 0
    for index in range(count):
        segment = native.path_segment(handle, index)
        native.segment_point(segment, ctypes.addressof(x), ctypes.addressof(y))
        kind = native.segment_type(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO and points:
            yield points, curved
            points, curved = [], 0
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            curved += 1
        points.append((x.value, y.value))
        if native.segment_close(segment) and len(points) > 1:
            points.append(points[0])
    if points:
        yield points, curved
