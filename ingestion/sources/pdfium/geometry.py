"""From a PDF's own coordinates to the page as shown: crop box, rotation flag, y downwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# By quarter turns clockwise: the linear part that takes (x, y) of the file to (x, y) as shown.
_TURNS = (
    ((1, 0), (0, -1)),
    ((0, 1), (1, 0)),
    ((-1, 0), (0, 1)),
    ((0, -1), (-1, 0)),
)


@dataclass(frozen=True, slots=True)
class Geometry:
    """``box`` is the shown part (left, bottom, right, top) in the file's points; ``quarters`` how often
    the page is turned clockwise to be shown."""

    box: tuple[float, float, float, float]
    quarters: int

    @property
    def size(self) -> tuple[float, float]:
        """Width and height as shown, in points."""
        width, height = self.box[2] - self.box[0], self.box[3] - self.box[1]
        return (height, width) if self.quarters % 2 else (width, height)

    @property
    def _linear(self) -> Floats:
        return np.array(_TURNS[self.quarters], dtype=np.float64)

    @property
    def _origin(self) -> Floats:
        """The file's corner that is shown at the top left."""
        left, bottom, right, top = self.box
        corners = ((left, top), (left, bottom), (right, bottom), (right, top))
        return np.array(corners[self.quarters])

    def points(self, xy: Floats) -> Floats:
        """Points (n, 2) of the file as shown."""
        return (xy - self._origin) @ self._linear.T

    def directions(self, xy: Floats) -> Floats:
        """Directions (n, 2) of the file as shown."""
        return xy @ self._linear.T

    def boxes(self, lrbt: Floats) -> Floats:
        """Boxes (n, 4: left, right, bottom, top) of the file as (x0, y0, x1, y1) shown."""
        first = self.points(lrbt[:, [0, 2]])
        second = self.points(lrbt[:, [1, 3]])
        return np.hstack([np.minimum(first, second), np.maximum(first, second)])
