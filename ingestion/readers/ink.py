"""The ink on a page, and how much of it a reading explains."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ingestion.readers.lines import Pixels, Quad

SIDE = 1000  # pixels; ink is looked at on a page shrunk to it
LEAST_CONTRAST = 24  # grey levels between the darkest few pixels and the paper; a blank page has less
FEW_PIXELS = 18  # of ink, after shrinking: less than a page number
LEAST_INK = 0.0004  # share of the page; less is specks
LETTER = 60  # pixels of the shrunk page; what is larger is no letter of a text
FEW_LETTERS = 20


def is_blank(image: Pixels) -> bool:
    """Whether nothing is printed or written on ``image``: no contrast, or only specks."""
    grey = _small_grey(image)
    dark = np.partition(grey.ravel(), min(FEW_PIXELS, grey.size - 1))[min(FEW_PIXELS, grey.size - 1)]
    light = np.percentile(grey, 99)
    return bool(float(light) - float(dark) < LEAST_CONTRAST or _ink(grey).sum() < FEW_PIXELS)


def letter_height(image: Pixels) -> float:
    """How high most letters on ``image`` are, in its pixels: the median over the connected pieces of ink that may
    be letters; 0.0 where there are too few to tell."""
    grey = _small_grey(image)
    ink = cv2.adaptiveThreshold(grey, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, 18)
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    width, height, area = stats[1:, cv2.CC_STAT_WIDTH], stats[1:, cv2.CC_STAT_HEIGHT], stats[1:, cv2.CC_STAT_AREA]
    letters = height[(area > 4) & (height > 2) & (height <= LETTER) & (width <= LETTER)]
    return float(np.median(letters)) * image.shape[0] / grey.shape[0] if letters.size >= FEW_LETTERS else 0.0


def unexplained_ink(image: Pixels, quads: Sequence[Quad], areas: Sequence[tuple[float, float, float, float]]) -> float:
    """The share of ink that lies neither in a line of text (``quads``), nor in a figure or table (``areas``),
    nor in a ruling line. In [0, 1]; 0 where there is next to no ink."""
    grey = _small_grey(image)
    scale = grey.shape[1] / image.shape[1]
    ink = _without_rules(_ink(grey))
    ink[_margin(grey.shape)] = 0
    total = int(ink.sum())
    if total < LEAST_INK * ink.size:
        return 0.0
    for quad in quads:
        cv2.fillConvexPoly(ink, np.round(_grown(quad * scale)).astype(np.int32), (0,))
    for x0, y0, x1, y1 in areas:
        ink[int(y0 * scale) : int(y1 * scale) + 1, int(x0 * scale) : int(x1 * scale) + 1] = 0
    return int(ink.sum()) / total


def has_ink(image: Pixels, area: tuple[float, float, float, float]) -> bool:
    """Whether anything is printed in ``area`` (pixels): more than specks."""
    x0, y0, x1, y1 = (max(0, int(side)) for side in area)
    piece = image[y0 : y1 + 1, x0 : x1 + 1]
    return bool(piece.size) and bool(_ink(_small_grey(piece)).mean() > LEAST_INK * 10 or _is_dark(piece))


def _is_dark(piece: Pixels) -> bool:
    """A photograph may have no edges to speak of, but it is not paper."""
    return float(np.median(piece)) < 170


def _small_grey(image: Pixels) -> NDArray[np.uint8]:
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    scale = SIDE / max(grey.shape)
    if scale < 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.asarray(grey, np.uint8)


def _ink(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """1 where a pixel is clearly darker than what is around it; lone pixels are specks."""
    ink = cv2.adaptiveThreshold(grey, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, 18)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    specks = np.zeros(count, bool)
    specks[1:] = stats[1:, cv2.CC_STAT_AREA] <= 4
    ink[specks.take(np.asarray(labels, np.intp))] = 0
    return np.asarray(ink, np.uint8)


def _without_rules(ink: NDArray[np.uint8]) -> NDArray[np.uint8]:
    for shape in ((60, 1), (1, 60)):
        rule = cv2.morphologyEx(ink, cv2.MORPH_OPEN, np.ones(shape, np.uint8))
        ink = np.asarray(cv2.subtract(ink, cv2.dilate(rule, np.ones((3, 3), np.uint8))), np.uint8)
    return ink


def _margin(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The outermost hundredth, where scanners leave shadows."""
    edge = np.ones(shape, bool)
    y, x = max(1, shape[0] // 100), max(1, shape[1] // 100)
    edge[y:-y, x:-x] = False
    return edge


def _grown(quad: Quad) -> Quad:
    """The quad a little larger: accents, descenders and underlines belong to the line."""
    centre = quad.mean(axis=0)
    size = np.ptp(quad, axis=0)
    return ((quad - centre) * (1 + 0.25 * size.min() / np.maximum(size, 1)) + centre).astype(np.float32)
