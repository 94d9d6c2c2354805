"""Running heads and feet: what stands at the same place near the edge of neighbouring pages."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ingestion.pages import Line

EDGE = 0.12  # of the page's height, above and below
_SAME_PLACE = 0.012
_KEPT = 256  # pages whose edges are remembered
_DIGITS = re.compile(r"\d+")

Edge = tuple[str, float]
"""A line near the edge: its text with numbers made alike, and how high it stands."""


class RunningHeads:
    """Remembers the edges of pages as they are read, in any order and by many threads.

    ``peek`` gives the lines of a page that was not read yet; it is asked only where no neighbour is known
    (at the start of a document, mostly) and may fail, which means no lines.
    """

    def __init__(self, pages: int, peek: Callable[[int], Sequence[Line]]) -> None:
        self._pages = pages
        self._peek = peek
        self._known: OrderedDict[int, tuple[Edge, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def marked(self, number: int, lines: Sequence[Line]) -> list[Line]:
        """``lines`` of page ``number`` with those marked that a page at most two away repeats."""
        own = _edges(lines)
        self._remember(number, own)
        if not own or self._pages < 2:
            return list(lines)
        others = [edge for neighbour in self._neighbours(number) for edge in self._edges_of(neighbour)]
        repeated = {edge for edge in own if any(_same(edge, other) for other in others)}
        return [replace(line, repeated=True) if _edge(line) in repeated else line for line in lines]

    def _neighbours(self, number: int) -> list[int]:
        """The two pages before; where they are not known, those after."""
        there = [n for n in (number - 1, number - 2, number + 1, number + 2) if 1 <= n <= self._pages]
        known = [n for n in there if n in self._known]
        return known if len(known) >= min(2, len(there)) else [*known, *(n for n in there if n not in known)][:2]

    def _edges_of(self, number: int) -> tuple[Edge, ...]:
        with self._lock:
            if number in self._known:
                return self._known[number]
        edges = _edges(self._peek(number))
        self._remember(number, edges)
        return edges

    def _remember(self, number: int, edges: tuple[Edge, ...]) -> None:
        with self._lock:
            self._known[number] = edges
            self._known.move_to_end(number)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)


def _edges(lines: Iterable[Line]) -> tuple[Edge, ...]:
    return tuple(_edge(line) for line in lines if _is_near_edge(line))


def _edge(line: Line) -> Edge:
    return _DIGITS.sub("#", line.text.casefold()), line.bbox.y0


def _is_near_edge(line: Line) -> bool:
    return not line.field and (line.bbox.y1 <= EDGE or line.bbox.y0 >= 1 - EDGE)


def _same(one: Edge, other: Edge) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= _SAME_PLACE
