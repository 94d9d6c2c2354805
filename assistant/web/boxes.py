"""Boxes as they stand in a URL: ``x0,y0,x1,y1;…`` in fractions of the page."""

from __future__ import annotations

from collections.abc import Sequence

from assistant.core.domain import Box

NUMBER = r"(0?\.[0-9]{1,9}|0|1|1\.0)"
PATTERN = rf"^{NUMBER}(,{NUMBER}){{3}}(;{NUMBER}(,{NUMBER}){{3}})*$"


def read_boxes(text: str) -> tuple[Box, ...]:
    """``text`` matches PATTERN."""
    return tuple(Box.of(*(float(side) for side in part.split(","))) for part in text.split(";"))


def write_boxes(boxes: Sequence[Box]) -> str:
    """The inverse of ``read_boxes``, to a ten-thousandth of the page."""
    return ";".join(",".join(f"{side:.4f}".rstrip("0").rstrip(".") for side in box) for box in boxes)
