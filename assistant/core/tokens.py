"""Visual-token arithmetic: what a picture costs a vision-language model, before it is sent.

Both families of Qwen snap a picture's sides to a grid and spend one token on each cell of it, so the
cost is known from the size alone. The rule is ``smart_resize`` of Hugging Face transformers
(``transformers/models/qwen2_vl/image_processing_qwen2_vl.py``), which Qwen2.5-VL and Qwen3-VL share;
the bounds are those of the ``preprocessor_config.json`` that the models are published with. Sizes are
pixels, (width, height); transformers has (height, width).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from assistant.core.errors import BadRequest, Misconfigured

Family = Literal["qwen3-vl", "qwen2.5-vl"]

LARGEST_ASPECT = 200  # smart_resize refuses a picture longer than this many times its width
SHAPE_SLACK = 1.03  # how far a side may be stretched against the other to use the budget better


@dataclass(frozen=True, slots=True)
class Grid:
    """A family's grid: the side of a cell in pixels, and the fewest and most pixels of a picture."""

    cell: int
    min_pixels: int
    max_pixels: int

    @property
    def min_cells(self) -> int:
        return math.ceil(self.min_pixels / self.cell**2)

    @property
    def max_cells(self) -> int:
        return self.max_pixels // self.cell**2


GRIDS: dict[Family, Grid] = {
    "qwen3-vl": Grid(cell=32, min_pixels=65_536, max_pixels=16_777_216),  # patch 16, merged 2 x 2
    "qwen2.5-vl": Grid(cell=28, min_pixels=3_136, max_pixels=12_845_056),  # patch 14, merged 2 x 2
}


def resized(width: int, height: int, family: Family) -> tuple[int, int]:
    """The size the model's own preprocessor gives to a picture of ``width`` x ``height``.

    BadRequest where the picture is so long and thin that the preprocessor refuses it.
    """
    grid = GRIDS[family]
    _reject_strips(width, height)
    # Python's round, halves to even, as in the reference; an arithmetic round would differ at 16, 80, …
    wide, high = round(width / grid.cell) * grid.cell, round(height / grid.cell) * grid.cell
    if wide * high > grid.max_pixels:
        shrink = math.sqrt(width * height / grid.max_pixels)
        wide = max(grid.cell, math.floor(width / shrink / grid.cell) * grid.cell)
        high = max(grid.cell, math.floor(height / shrink / grid.cell) * grid.cell)
    elif wide * high < grid.min_pixels:
        grow = math.sqrt(grid.min_pixels / (width * height))
        wide = math.ceil(width * grow / grid.cell) * grid.cell
        high = math.ceil(height * grow / grid.cell) * grid.cell
    return wide, high


def visual_tokens(width: int, height: int, family: Family) -> int:
    """Tokens that a picture of this size adds to a prompt: H·W/1024 (Qwen3-VL) or H·W/784
    (Qwen2.5-VL) of the resized picture. BadRequest for a strip (see ``resized``)."""
    wide, high = resized(width, height, family)
    return wide * high // GRIDS[family].cell ** 2


def fit_to_budget(width: int, height: int, family: Family, max_tokens: int) -> tuple[int, int]:
    """The largest size on the family's grid that costs at most ``max_tokens``, the shape kept.

    The preprocessor leaves such a size as it is, so its cost is exact. Nothing is enlarged beyond
    snapping to the grid, but for pictures smaller than the preprocessor's minimum. Raises
    Misconfigured where the budget is below that minimum, BadRequest for a strip.
    """
    grid = GRIDS[family]
    _reject_strips(width, height)
    most = min(max_tokens, grid.max_cells)
    if most < grid.min_cells:
        raise Misconfigured(
            f"{family} spends at least {grid.min_cells} visual tokens on a picture, the budget is {max_tokens}",
            "Raise vlm.max_visual_tokens",
        )
    natural = resized(width, height, family)
    if natural[0] * natural[1] // grid.cell**2 <= most and _is_stable(natural, family):
        return natural
    columns, rows = _best_cells(width, height, grid, most)
    return columns * grid.cell, rows * grid.cell


def _best_cells(width: int, height: int, grid: Grid, most: int) -> tuple[int, int]:
    """Columns and rows around the exact size that hold between the least and ``most`` cells."""
    area = min(max(width * height / grid.cell**2, grid.min_cells), most)
    exact = math.sqrt(area * width / height), math.sqrt(area * height / width)
    sides = [{max(1, math.floor(side)), math.ceil(side)} for side in exact]
    sizes = [
        (columns, rows)
        for columns, rows in product(*sides)
        if grid.min_cells <= columns * rows <= most and _aspect(columns, rows) <= LARGEST_ASPECT
    ]
    if not sizes:  # rounding moves it out of narrow bounds: look at every size within them
        sizes = list(_every_size(width / height, grid, most))
    stretch = {size: max(ratio := size[0] / exact[0] / (size[1] / exact[1]), 1 / ratio) for size in sizes}
    allowed = max(SHAPE_SLACK, min(stretch.values()))
    return max((size for size in sizes if stretch[size] <= allowed), key=lambda size: size[0] * size[1])


def _every_size(shape: float, grid: Grid, most: int) -> Iterator[tuple[int, int]]:
    """For each number of rows the number of columns that comes nearest to ``shape`` (width by height)."""
    for rows in range(1, most + 1):
        fewest, largest = math.ceil(grid.min_cells / rows), most // rows
        columns = min(max(round(rows * shape), fewest), largest)
        if fewest <= columns and _aspect(columns, rows) <= LARGEST_ASPECT:
            yield columns, rows


def _is_stable(size: tuple[int, int], family: Family) -> bool:
    return _aspect(*size) <= LARGEST_ASPECT and resized(*size, family) == size


def _aspect(width: int, height: int) -> float:
    return max(width, height) / max(1, min(width, height))


def _reject_strips(width: int, height: int) -> None:
    if min(width, height) < 1 or _aspect(width, height) > LARGEST_ASPECT:
        raise BadRequest(
            f"A picture of {width} x {height} pixels is too long and thin for the model",
            f"Cut it: one side may be at most {LARGEST_ASPECT} times the other",
        )
