"""The sheet that a stretch of a recording is written on: how long a stretch is, and where rows of text stand."""

from __future__ import annotations

import textwrap

STRETCH_SECONDS = 600.0
WIDTH, MARGIN, ROW = 595.0, 42.0, 12.0  # in points; the height is as what is said needs
COLUMNS = 95


def rows_of(text: str) -> list[str]:
    """A paragraph's rows; at least one."""
    return textwrap.wrap(text, COLUMNS) or [""]
