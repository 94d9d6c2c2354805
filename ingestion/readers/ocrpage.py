"""What an OCR process does with one picture, in order: is anything on it, which way up, its lines, their skew,
their layout, the blocks. Runs in the worker processes only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from assistant.core.domain import Block, BlockKind, Box, Reader, Reading, Word
from ingestion.readers.imagelayout import Region, figures_among, find_regions, wants_layout
from ingestion.readers.imagetables import ImageTable, read_table_at
from ingestion.readers.ink import has_ink, is_blank, unexplained_ink
from ingestion.readers.lines import Line, Matrix, Pixels, Quad, map_points, mean_score, quad_of
from ingestion.readers.ocrblocks import PageLayout, blocks_of
from ingestion.readers.ocrmodels import find_models
from ingestion.readers.paddle import WEAK, PaddleEngine, Provider, Text
from ingestion.readers.spanish import with_opening_marks
from ingestion.readers.upright import inverse, propose_turn, skew_of, stand_on_end, straighten, turn, turn_quads

LARGEST_SIDE = 5000  # pixels; more tells a recogniser of 48 pixels' height nothing
SMALLEST_SIDE = 960  # a picture smaller than this is enlarged, at most twice
REGION_MARGIN = 0.004  # of the page, around a region to be read
SURE = 0.85  # mean score of a few lines that proves a page upright
CLEARLY = 0.1  # by how much another orientation must read better
PRINTED_WEAK = 0.35  # share of weak lines up to which a page is surely printed …
WRITTEN_WEAK = 0.75  # … and from which it is surely written by hand
TRIED = 6  # lines read to find out


@dataclass(frozen=True, slots=True)
class _Straight:
    """A picture whose lines run level, its lines there, and the way back to the upright picture."""

    image: Pixels
    lines: Sequence[Line]
    back: Matrix | None
    skew: float


class PageReader:
    """Reads pictures, one at a time."""

    def __init__(self, engine: PaddleEngine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, models: str = "", provider: Provider | None = None) -> PageReader:
        """With the models in the folder ``models``, or those that came with Perito. Misconfigured."""
        cv2.setNumThreads(1)
        return cls(PaddleEngine(find_models(models), provider))

    def warm(self) -> Iterator[None]:
        """Get ready for the next page in small steps; may be left at any, and taken up again between pages."""
        blank = np.full((64, 64, 3), 255, np.uint8)
        propose_turn(blank)
        yield
        find_regions(blank)
        yield
        yield from self._engine.warm()

    def read(self, image: Pixels, regions: Sequence[Box] = ()) -> Reading:
        """What stands on ``image`` (RGB), or only in ``regions`` of it."""
        started = time.perf_counter()
        if not regions:
            blocks, features, turned = self._read_whole(image)
        else:
            blocks, features, turned = (*self._read_regions(image, regions), 0)
        return Reading(
            Reader.OCR, blocks, _confidence(blocks), time.perf_counter() - started, turned=turned, features=features
        )

    def structure(self, image: Pixels, words: Sequence[Word]) -> Reading:
        """Layout and tables with the words of another reader; the page is taken as upright."""
        started = time.perf_counter()
        height, width = image.shape[:2]
        lines = [
            Line(word.text, word.confidence, quad_of(*_scaled(word.bbox, width, height)))
            for word in words
            if word.text.strip()
        ]
        layout = _layout(image, lines, find_regions(image))
        blocks = blocks_of(lines, layout, _Boxes(width, height, None), Reader.TEXT)
        features = _layout_features(layout) | {"lines": float(len(lines))}
        return Reading(Reader.TEXT, blocks, _confidence(blocks), time.perf_counter() - started, features=features)

    def _read_whole(self, image: Pixels) -> tuple[tuple[Block, ...], Mapping[str, float], int]:
        if is_blank(image):
            return (), _features([], PageLayout(), 0.0, 0.0), 0
        image = _handy(image)
        upright, quads, turned, known = self._upright(image)
        blocks, features = self._read_upright(upright, quads, known)
        return blocks, features, turned

    def _read_regions(self, image: Pixels, regions: Sequence[Box]) -> tuple[tuple[Block, ...], Mapping[str, float]]:
        """Each region read as a picture of its own; features are means weighted by lines."""
        blocks: list[Block] = []
        parts: list[Mapping[str, float]] = []
        for region in regions:
            piece, place = _piece(image, region)
            if min(piece.shape[:2]) < 8 or is_blank(piece):
                continue
            piece = _handy(piece)
            found, features = self._read_upright(piece, self._engine.find(_bgr(piece)))
            blocks += [_moved(block, place) for block in found]
            parts.append(features)
        return tuple(blocks), _combined(parts)

    def _read_upright(
        self, image: Pixels, quads: Sequence[Quad], known: Mapping[int, Text] | None = None
    ) -> tuple[tuple[Block, ...], Mapping[str, float]]:
        lines = with_opening_marks(self._engine.read(_bgr(image), quads, known))
        straight = _straightened(image, lines)
        bare = unexplained_ink(straight.image, [line.quad for line in straight.lines], [])
        regions = find_regions(straight.image) if wants_layout(straight.lines, bare) else []
        layout = _layout(straight.image, straight.lines, regions)
        areas = [*(figure.box for figure in layout.figures), *(table.region.box for table in layout.tables)]
        ink = unexplained_ink(straight.image, [line.quad for line in straight.lines], areas) if areas else bare
        boxes = _Boxes(image.shape[1], image.shape[0], straight.back)
        blocks = blocks_of(straight.lines, layout, boxes, Reader.OCR)
        return blocks, _features(lines, layout, ink, straight.skew)

    def _upright(self, image: Pixels) -> tuple[Pixels, list[Quad], int, Mapping[int, Text]]:
        """The picture turned to stand upright, its lines' corners there, the turn in degrees clockwise, and what
        was already read quickly of these lines.

        Lines that run up and down, a model that says so, or lines that read badly raise the question; the
        orientation in which a few lines read clearly best answers it."""
        height, width = image.shape[:2]
        quads = self._engine.find(_bgr(image))
        if not quads:
            return image, quads, 0, {}
        proposed = propose_turn(_bgr(image))
        on_end = stand_on_end(quads)
        seen = self._glance(image, quads)
        if not proposed and not on_end and _mean(seen) >= SURE - 3 * CLEARLY:
            return image, quads, 0, seen
        candidates = [90, 270] if on_end else [0, 180]
        if proposed in candidates:
            candidates.sort(key=lambda degrees: degrees != proposed)
        elif proposed:
            candidates.insert(0, proposed)
        best, best_score = 0, _mean(seen) + (0 if on_end else CLEARLY)
        for degrees in candidates:
            if not degrees:
                continue
            turned_quads = turn_quads(quads, degrees, width, height)
            score = _mean(self._glance(turn(image, degrees), turned_quads))
            if score > best_score:
                best, best_score = degrees, score
            if best_score >= SURE + CLEARLY / 2 and best == degrees:
                break
        if not best:
            return image, quads, 0, seen
        upright = turn(image, best)
        return upright, self._engine.find(_bgr(upright)), best, {}

    def _glance(self, image: Pixels, quads: Sequence[Quad]) -> Mapping[int, Text]:
        """A few of the longest lines as they read where they stand; lines on end count not."""
        level = [i for i, quad in enumerate(quads) if np.ptp(quad[:, 0]) >= np.ptp(quad[:, 1])]
        longest = sorted(level, key=lambda i: -np.ptp(quads[i][:, 0]))[:TRIED]
        return self._engine.glance(_bgr(image), quads, longest)


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Maps rectangles of the straightened picture to boxes on the upright one."""

    width: int
    height: int
    back: Matrix | None

    def __call__(self, x0: float, y0: float, x1: float, y1: float) -> Box:
        corners = quad_of(x0, y0, x1, y1)
        if self.back is not None:
            corners = map_points(corners, self.back)
        xs, ys = corners[:, 0] / self.width, corners[:, 1] / self.height
        return Box.of(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max()))


def _mean(texts: Mapping[int, Text]) -> float:
    return float(np.mean([text.score for text in texts.values()])) if texts else 0.0


def _straightened(image: Pixels, lines: Sequence[Line]) -> _Straight:
    skew = skew_of([line.quad for line in lines])
    if not skew:
        return _Straight(image, lines, None, 0.0)
    level, matrix = straighten(image, skew)
    return _Straight(level, [line.moved(matrix) for line in lines], inverse(matrix), skew)


def _layout(image: Pixels, lines: Sequence[Line], regions: Sequence[Region]) -> PageLayout:
    """The regions, with the tables that their lines confirm and the figures that are no text."""
    height, width = image.shape[:2]
    figures = [figure for figure in figures_among(regions, lines, width, height) if has_ink(image, figure.box)]
    tables: list[ImageTable] = []
    free = list(lines)
    for region in sorted((r for r in regions if r.kind is BlockKind.TABLE), key=lambda r: -r.score):
        if any(region.overlap(figure) > 0.8 and figure.score > region.score for figure in figures):
            continue
        table = read_table_at(image, region, free)
        if table is not None:
            tables.append(table)
            taken = {id(line) for line in table.lines}
            free = [line for line in free if id(line) not in taken]
    figures = [figure for figure in figures if all(figure.overlap(table.region) < 0.5 for table in tables)]
    texts = [r for r in regions if r.kind not in (BlockKind.TABLE, BlockKind.FIGURE)]
    return PageLayout(texts, tables, figures)


def _features(lines: Sequence[Line], layout: PageLayout, ink: float, skew: float) -> Mapping[str, float]:
    weak = sum(line.score < WEAK for line in lines) / len(lines) if lines else 0.0
    return {
        "lines": float(len(lines)),
        "mean_confidence": mean_score(lines),
        "weak_share": weak,
        "unexplained_ink": ink,
        "handwriting": _handwriting(weak),
        "skew": skew,
        **_layout_features(layout),
    }


def _layout_features(layout: PageLayout) -> dict[str, float]:
    return {
        "tables": float(len(layout.tables)),
        "merged_cells": float(sum(table.merged_cells for table in layout.tables)),
        "figures": float(len(layout.figures)),
    }


def _handwriting(weak_share: float) -> float:
    """A suspicion in [0, 1]. Of print, also on bad receipts, the careful recogniser leaves at most a third of the
    lines weak; of handwriting it leaves half or more."""
    return min(1.0, max(0.0, (weak_share - PRINTED_WEAK) / (WRITTEN_WEAK - PRINTED_WEAK)))


def _combined(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Features of several regions: counts are added, the rest averaged by lines."""
    if not parts:
        return _features([], PageLayout(), 0.0, 0.0)
    weights = [max(1.0, part["lines"]) for part in parts]
    counts = ("lines", "tables", "merged_cells", "figures")
    return {
        name: sum(part[name] for part in parts)
        if name in counts
        else float(np.average([part[name] for part in parts], weights=weights))
        for name in parts[0]
    }


def _confidence(blocks: Sequence[Block]) -> float:
    weights = [max(1, len(block.text)) for block in blocks]
    return float(np.average([block.confidence for block in blocks], weights=weights)) if blocks else 0.0


def _handy(image: Pixels) -> Pixels:
    """Neither larger than helps nor too small to find lines on."""
    side = max(image.shape[:2])
    scale = min(2.0, SMALLEST_SIDE / side) if side < SMALLEST_SIDE else min(1.0, LARGEST_SIDE / side)
    if scale == 1.0:
        return image
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, None, fx=scale, fy=scale, interpolation=how), np.uint8)


def _bgr(image: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8)


def _scaled(box: Box, width: int, height: int) -> tuple[float, float, float, float]:
    return box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height


def _piece(image: Pixels, region: Box) -> tuple[Pixels, Box]:
    """The region cut out with a little margin, and where exactly that is."""
    height, width = image.shape[:2]
    wide = Box.of(
        region.x0 - REGION_MARGIN, region.y0 - REGION_MARGIN, region.x1 + REGION_MARGIN, region.y1 + REGION_MARGIN
    )
    x0, y0, x1, y1 = (round(side) for side in _scaled(wide, width, height))
    return image[y0:y1, x0:x1], Box.of(x0 / width, y0 / height, x1 / width, y1 / height)


def _moved(block: Block, place: Box) -> Block:
    """A block of a piece, on the whole picture."""
    x0, y0, x1, y1 = block.bbox
    box = Box.of(
        place.x0 + x0 * place.width, place.y0 + y0 * place.height,
        place.x0 + x1 * place.width, place.y0 + y1 * place.height,
    )  # fmt: skip
    return Block(block.kind, block.text, box, block.confidence, block.reader, block.html, block.level)
