"""Boxes as they stand in a URL: ``x0,y0,x1,y1;…`` in fractions of the page."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.core.domain import Box
from assistant.core.errors import BadRequest

NUMBER = r"[0-9]*\.?[0-9]+"
PATTERN = rf"^{NUMBER}(,{NUMBER}){{3}}(;{NUMBER}(,{NUMBER}){{3}})*$"


def read_boxes(text: str) -> tuple[Box, ...]:
    """``text`` matches PATTERN. BadRequest for a side outside the page."""
    boxes = [[float(side) for side in part.split(",")] for part in text.split(";")]
    if any(side > 1 for box in boxes for side in box):
        raise BadRequest("A box lies outside the page", "Give its sides as fractions of the page, from 0 to 1")
    return tuple(Box.of(*box) for box in boxes)


def write_boxes(boxes: Sequence[Box]) -> str:
    """The inverse of ``read_boxes``, to a ten-thousandth of the page."""
    return ";".join(",".join(f"{side:.4f}".rstrip("0").rstrip(".") for side in box) for box in boxes)
