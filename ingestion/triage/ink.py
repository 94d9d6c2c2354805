"""What the thumbnail of a page shows: where ink is, and which pictures may hold text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import WHOLE_PAGE, Box
from ingestion.pages import Grey, Page

Mask = NDArray[np.bool_]

_INK = 40  # grey levels from the paper's brightness
_FLAT = 6.0  # standard deviation of grey levels under which a picture shows nothing
_GRID = 96  # cells a side, on which pictures are put together
_FEWEST_STROKES = 3  # in a figure
_LEAST_SIDE_POINTS = 14.0  # lower or narrower than this, a picture holds no line of text


def ink_mask(grey: Grey) -> Mask:
    """Where the page differs from its paper (its most common brightness)."""
    paper = int(np.bincount(grey.ravel(), minlength=256).argmax())
    return np.abs(grey.astype(np.int16) - paper) > _INK


def covered(shape: tuple[int, ...], boxes: Iterable[Box], margin: int = 1) -> Mask:
    """Where any of the boxes lies, each grown by ``margin`` pixels."""
    mask = np.zeros(shape[:2], np.bool_)
    rows, columns = mask.shape
    for box in boxes:
        top, bottom = int(box.y0 * rows) - margin, int(np.ceil(box.y1 * rows)) + margin
        left, right = int(box.x0 * columns) - margin, int(np.ceil(box.x1 * columns)) + margin
        mask[max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = True
    return mask


def share(boxes: Sequence[Box]) -> float:
    """The share of the page that the boxes cover together."""
    return float(covered((200, 200), boxes, margin=0).mean()) if boxes else 0.0


def is_flat(grey: Grey) -> bool:
    """Whether a page shows nothing at all."""
    return bool(grey.size == 0 or (grey.std() < 1.2 and not ink_mask(grey).any()))


def united(boxes: Sequence[Box]) -> list[Box]:
    """Boxes that touch each other as one (scanners and print drivers cut pictures into strips and tiles)."""
    if len(boxes) < 2:
        return list(boxes)
    if len(boxes) > 40:
        return _united_on_grid(boxes)
    regions: list[Box] = []
    for box in boxes:
        held = box
        touching = [other for other in regions if _touch(held, other)]
        while touching:
            held = Box.around([held, *touching])
            regions = [other for other in regions if other not in touching]
            touching = [other for other in regions if _touch(held, other)]
        regions.append(held)
    return regions


def _touch(one: Box, other: Box) -> bool:
    near = 0.004
    return (
        one.x0 <= other.x1 + near
        and other.x0 <= one.x1 + near
        and one.y0 <= other.y1 + near
        and other.y0 <= one.y1 + near
    )


def _united_on_grid(boxes: Sequence[Box]) -> list[Box]:
    grid = covered((_GRID, _GRID), boxes, margin=0)
    regions: list[Box] = []
    while grid.any():
        row, column = (int(value) for value in np.argwhere(grid)[0])
        cells = _flood(grid, row, column)
        rows, columns = [cell[0] for cell in cells], [cell[1] for cell in cells]
        regions.append(
            Box.of(min(columns) / _GRID, min(rows) / _GRID, (max(columns) + 1) / _GRID, (max(rows) + 1) / _GRID)
        )
    return regions


def _flood(grid: Mask, row: int, column: int) -> list[tuple[int, int]]:
    """The connected cells around one, which are taken off the grid."""
    found, stack = [], [(row, column)]
    while stack:
        r, c = stack.pop()
        if 0 <= r < grid.shape[0] and 0 <= c < grid.shape[1] and grid[r, c]:
            grid[r, c] = False
            found.append((r, c))
            stack += [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]
    return found


def text_regions(page: Page, least_share: float) -> list[Box]:
    """Pictures that are large enough to hold text and show more than one even colour besides the page's
    own text that stands on them."""
    grey = page.grey()
    lines = covered(grey.shape, (line.bbox for line in page.lines))
    return [
        box
        for box in united([picture for picture in page.pictures if picture.area > 0])
        if box.area >= least_share and _is_high_and_wide(box, page) and _shows_more(box, grey, lines)
    ]


def _is_high_and_wide(box: Box, page: Page) -> bool:
    if page.is_picture:
        return True
    return min(box.width * page.width, box.height * page.height) >= _LEAST_SIDE_POINTS


def _shows_more(box: Box, grey: Grey, lines: Mask) -> bool:
    inside = covered(grey.shape, [box], margin=0) & ~lines
    return bool(inside.sum() > 20 and grey[inside].std() > _FLAT)


def figure_regions(page: Page, least_share: float) -> list[Box]:
    """Drawings large enough to be charts or plans: several curves and slanted strokes that stand together (one
    alone is a frame with round corners)."""
    drawings = [box for box in page.drawings if box.area > 0]
    regions = [
        box
        for box in united(drawings)
        if box.area >= least_share and sum(one.share_inside(box) > 0.5 for one in drawings) >= _FEWEST_STROKES
    ]
    return [WHOLE_PAGE] if any(box.area > 0.8 for box in regions) else regions
