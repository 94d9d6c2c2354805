"""Lines of text as an OCR finds them: four corners in pixels, the text, a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # (height, width, 3); RGB unless said otherwise
Quad = NDArray[np.float32]  # (4, 2): x, y of the corners, clockwise from the top left
Matrix = NDArray[np.float64]  # (2, 3): an affine map of pixel coordinates


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``score`` in [0, 1] is the mean of its characters' probabilities."""

    text: str
    score: float
    quad: Quad

    @property
    def x0(self) -> float:
        return float(self.quad[:, 0].min())

    @property
    def y0(self) -> float:
        return float(self.quad[:, 1].min())

    @property
    def x1(self) -> float:
        return float(self.quad[:, 0].max())

    @property
    def y1(self) -> float:
        return float(self.quad[:, 1].max())

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2

    def moved(self, matrix: Matrix) -> Line:
        """The line with its corners mapped by ``matrix``."""
        return replace(self, quad=map_points(self.quad, matrix))


def map_points(points: NDArray[np.float32], matrix: Matrix) -> NDArray[np.float32]:
    """(n, 2) points through an affine map."""
    return (points @ matrix[:, :2].T + matrix[:, 2]).astype(np.float32)


def quad_of(x0: float, y0: float, x1: float, y1: float) -> Quad:
    """An upright rectangle as four corners."""
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32)


def mean_score(lines: Sequence[Line]) -> float:
    """The lines' scores, weighted by their length; 0 for none."""
    weights = [max(1, len(line.text)) for line in lines]
    return float(np.average([line.score for line in lines], weights=weights)) if lines else 0.0


def rows_of(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines in rows from top to bottom, each row from left to right. Two lines share a row when the
    middle of one lies within half the smaller's height of the row's."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line.middle, line.x0)):
        row = rows[-1] if rows else None
        if row and abs(line.middle - _middle(row)) <= 0.5 * min(line.height, min(other.height for other in row)):
            row.append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.x0) for row in rows]


def _middle(row: Sequence[Line]) -> float:
    return sum(line.middle for line in row) / len(row)
