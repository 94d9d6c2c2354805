"""Reading order: columns of prose are read one after the other, everything else from the top down.

A gutter counts only where prose stands on both sides, so that the amounts of a receipt or the values of a form
stay beside what they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

LEAST_ROWS = 3  # on each side of a gutter
PROSE_CHARACTERS = 12  # median length of a line of prose, at least
PROSE_SHARE = 0.5  # of the column's width that its median line fills, at least
GUTTER_STEPS = 96  # places where a gutter is looked for
DEPTH = 3  # columns within columns


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """Something on the page to be put in order: a line, a table, a figure. ``characters`` is 0 for what is no
    text."""

    x0: float
    y0: float
    x1: float
    y1: float
    characters: int
    content: T


def in_columns(items: Sequence[Item[T]], depth: int = DEPTH) -> list[list[Item[T]]]:
    """The items as runs in reading order: each run is one column (or what stands between columns), from the
    top down."""
    ordered = sorted(items, key=lambda item: (item.y0 + item.y1, item.x0))
    band = _best_band(ordered) if depth else None
    if band is None:
        return [ordered] if ordered else []
    first, last, gutter = band
    inside = ordered[first:last]
    left = [item for item in inside if (item.x0 + item.x1) / 2 < gutter]
    right = [item for item in inside if (item.x0 + item.x1) / 2 >= gutter]
    parts = (ordered[:first], left, right, ordered[last:])
    return [run for part in parts for run in in_columns(part, depth - 1)]


def _best_band(items: Sequence[Item[T]]) -> tuple[int, int, float] | None:
    """The longest stretch of ``items`` (from, to, gutter's x) with columns of prose left and right."""
    if len(items) < 2 * LEAST_ROWS:
        return None
    left, right = min(item.x0 for item in items), max(item.x1 for item in items)
    best: tuple[int, int, float] | None = None
    for step in range(GUTTER_STEPS // 6, GUTTER_STEPS - GUTTER_STEPS // 6):
        gutter = left + (right - left) * step / GUTTER_STEPS
        for first, last in _stretches(items, gutter):
            longer = best is None or last - first > best[1] - best[0]
            if longer and _is_columns(items[first:last], gutter):
                best = first, last, gutter
    return best


def _stretches(items: Sequence[Item[T]], gutter: float) -> list[tuple[int, int]]:
    """Where no item crosses the gutter."""
    stretches: list[tuple[int, int]] = []
    start = 0
    for index, item in enumerate(items):
        if item.x0 < gutter < item.x1:
            stretches.append((start, index))
            start = index + 1
    return [*stretches, (start, len(items))]


def _is_columns(items: Sequence[Item[T]], gutter: float) -> bool:
    left = [item for item in items if item.x1 <= gutter]
    right = [item for item in items if item.x0 >= gutter]
    return _is_prose(left) and _is_prose(right) and _overlap(left, right)


def _is_prose(items: Sequence[Item[T]]) -> bool:
    """Whether the items are one column of running text, or several."""
    texts = [item for item in items if item.characters]
    if len(texts) < LEAST_ROWS or _median([item.characters for item in texts]) < PROSE_CHARACTERS:
        return False
    columns = [column for column in _side_by_side(texts) if len(column) >= LEAST_ROWS]
    return bool(columns) and all(_fills(column) for column in columns)


def _fills(items: Sequence[Item[T]]) -> bool:
    width = max(item.x1 for item in items) - min(item.x0 for item in items)
    return _median([item.x1 - item.x0 for item in items]) >= PROSE_SHARE * width


def _side_by_side(items: Sequence[Item[T]]) -> list[list[Item[T]]]:
    """The items in groups between which no item reaches across."""
    groups: list[list[Item[T]]] = []
    reach = float("-inf")
    for item in sorted(items, key=lambda item: item.x0):
        if item.x0 >= reach:
            groups.append([])
        groups[-1].append(item)
        reach = max(reach, item.x1)
    return groups


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _overlap(left: Sequence[Item[T]], right: Sequence[Item[T]]) -> bool:
    """Whether the two stand side by side for most of the shorter one's height."""
    top = max(min(item.y0 for item in left), min(item.y0 for item in right))
    bottom = min(max(item.y1 for item in left), max(item.y1 for item in right))
    shorter = min(max(i.y1 for i in side) - min(i.y0 for i in side) for side in (left, right))
    return bottom - top > 0.5 * shorter
