"""Which text of a file a person sees on the page: text layers hold OCR results, and sometimes traps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ingestion.pages import Grey, Line, Unseen
from ingestion.sources.pdfium.document import RawPage
from ingestion.sources.pdfium.geometry import Floats

_PALE_LUMA = 190  # ink brighter than this may vanish on paper
_LEAST_DIFFERENCE = 22  # of 255, between bright ink and what surrounds it
_LEAST_CONTRAST = 10  # of 255, within a line's box on the thumbnail
_TINY_POINTS, _TINY_SHARE = 2.0, 0.0022  # type smaller than both (the share is of the page's longer side)
_FAR = 1e9  # points: no page reaches there
_SCAN_SHARE = 0.5  # of the page: an opaque picture this large over text is a scan over its OCR layer


class Sight:
    """Judges runs by how they are drawn, and lines by what the rendered page shows at their place."""

    def __init__(self, raw: RawPage) -> None:
        self._raw = raw
        self._longest = max(raw.geometry.size)
        self._covered = _covered_runs(raw)

    def of_run(self, index: int) -> Unseen | None:
        """INVISIBLE, COVERED or TINY as far as the run's own drawing tells."""
        run = self._raw.glyphs.runs[index]
        if run.inkless:
            return Unseen.INVISIBLE
        if run.size < min(_TINY_POINTS, _TINY_SHARE * self._longest):
            return Unseen.TINY
        return Unseen.COVERED if self._covered[index] else None

    def checked(self, line: Line, luma: int) -> Line:
        """The line, whose ink has the brightness ``luma``, marked where the page shows nothing of it."""
        if line.unseen is not None:
            return line
        if not line.bbox.area > 0:  # nor is a place that is no number
            return replace(line, unseen=Unseen.OUTSIDE)
        return line if self._shows(line, luma) else replace(line, unseen=Unseen.PALE)

    def _shows(self, line: Line, luma: int) -> bool:
        patch = _patch(self._raw.thumbnail, line)
        if patch.size == 0:
            return False
        if luma > _PALE_LUMA:
            return abs(float(np.median(patch)) - luma) >= _LEAST_DIFFERENCE
        return int(patch.max()) - int(patch.min()) >= _LEAST_CONTRAST


def _covered_runs(raw: RawPage) -> NDArray[np.bool_]:
    """Which runs lie under an opaque picture of (nearly) the whole page that is drawn after them."""
    covered = np.zeros(len(raw.glyphs.runs), np.bool_)
    width, height = raw.geometry.size
    scans = [
        (place, box)
        for place, box in raw.drawn.covers
        if (box[2] - box[0]) * (box[3] - box[1]) >= _SCAN_SHARE * width * height
    ]
    if not scans:
        return covered
    places = np.array([raw.drawn.order.get(run.object, 1 << 40) for run in raw.glyphs.runs])
    extents = _run_extents(raw)
    for place, box in scans:
        covered |= (places < place) & _mostly_inside(extents, box)
    return covered


def _run_extents(raw: RawPage) -> Floats:
    """The box around each run's characters, in points as shown; infinite for runs without ink."""
    count = len(raw.glyphs.runs)
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    boxes = raw.glyphs.boxes
    solid = (raw.glyphs.run >= 0) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    np.minimum.at(low, raw.glyphs.run[solid], boxes[solid, :2])
    np.maximum.at(high, raw.glyphs.run[solid], boxes[solid, 2:])
    return np.hstack([low, high])


def _mostly_inside(boxes: Floats, cover: tuple[float, float, float, float]) -> NDArray[np.bool_]:
    """Which boxes lie at least 9 tenths under the cover."""
    finite = np.asarray(np.isfinite(boxes).all(axis=1))
    held = np.clip(np.where(finite[:, None], boxes, 0.0), -_FAR, _FAR)  # or the areas of absurd boxes overflow
    width = np.minimum(held[:, 2], cover[2]) - np.maximum(held[:, 0], cover[0])
    height = np.minimum(held[:, 3], cover[3]) - np.maximum(held[:, 1], cover[1])
    area = (held[:, 2] - held[:, 0]) * (held[:, 3] - held[:, 1])
    return finite & (width > 0) & (height > 0) & (width * height >= 0.9 * area)


def _patch(thumbnail: Grey, line: Line) -> Grey:
    rows, columns = thumbnail.shape
    top, bottom = int(line.bbox.y0 * rows), int(np.ceil(line.bbox.y1 * rows))
    left, right = int(line.bbox.x0 * columns), int(np.ceil(line.bbox.x1 * columns))
    return thumbnail[top : max(bottom, top + 1), left : max(right, left + 1)]
