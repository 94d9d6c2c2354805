"""The text reader: a page's own text as blocks in reading order, without looking at pixels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from assistant.core.domain import Block, BlockKind, Box, Reader, Reading
from ingestion.pages import Line, Page, Ruling
from ingestion.readers.textblocks import Made, Type, body_type, hyphenated_words, is_itemised, make_blocks
from ingestion.readers.textlayout import Item, Region, arrange
from ingestion.readers.texttables import Side, Table, aligned_table, ruled_tables

_DOMINANT = 0.6  # of a page's letters: text at one angle that makes the page stand that way


def read_text(page: Page) -> Reading:
    """Blocks of the lines a person sees. ``turned`` is set where most of the text stands sideways; boxes are
    then of the turned page. ``features``: ``lines``, ``tables``, ``merged_cells``, ``columns``."""
    begun = time.perf_counter()
    if page.blocks:
        return Reading(Reader.TEXT, page.blocks, 1.0, time.perf_counter() - begun, features={"lines": len(page.lines)})
    turned = -_dominant_angle(page.lines) % 360
    size = (page.height, page.width) if turned % 180 else (page.width, page.height)
    lines = [_turned_line(line, turned) for line in page.lines] if turned else list(page.lines)
    rulings = [_turned_ruling(ruling, turned) for ruling in page.rulings] if turned else page.rulings
    blocks, features = _read(lines, rulings, size)
    confidence = min((block.confidence for block in blocks), default=1.0)
    return Reading(
        Reader.TEXT, tuple(blocks), confidence, time.perf_counter() - begun, turned=turned, features=features
    )


def _dominant_angle(lines: Sequence[Line]) -> int:
    """0, 90, 180 or 270: how most of the text stands."""
    letters: dict[int, int] = {}
    for line in lines:
        letters[line.angle] = letters.get(line.angle, 0) + len(line.text)
    total = sum(letters.values())
    return next((angle for angle in (90, 180, 270) if letters.get(angle, 0) > _DOMINANT * total), 0)


def turned_box(box: Box, turned: int) -> Box:
    """A box of the page as shown, on the page turned clockwise by ``turned`` degrees."""
    x0, y0, x1, y1 = box
    if turned == 90:
        return Box.of(1 - y1, x0, 1 - y0, x1)
    if turned == 180:
        return Box.of(1 - x1, 1 - y1, 1 - x0, 1 - y0)
    return Box.of(y0, 1 - x1, y1, 1 - x0) if turned == 270 else box


def _turned_line(line: Line, turned: int) -> Line:
    words = tuple(replace(word, bbox=turned_box(word.bbox, turned)) for word in line.words)
    return replace(line, bbox=turned_box(line.bbox, turned), words=words, angle=(line.angle + turned) % 360)


def _turned_ruling(ruling: Ruling, turned: int) -> Ruling:
    return Ruling(turned_box(ruling.bbox, turned), ruling.horizontal != bool(turned % 180))


def _read(
    lines: Sequence[Line], rulings: Sequence[Ruling], size: tuple[float, float]
) -> tuple[list[Block], dict[str, float]]:
    width, height = size
    items = [_item(line, width, height) for line in lines if line.angle == 0]
    tables, rest = ruled_tables(items, *_sides(rulings, width, height))
    body = body_type(rest or items, height)
    rest += [Item(*table.box, size=body.size, block=table) for table in tables]
    regions = arrange(rest)
    vocabulary = hyphenated_words(items)
    blocks: list[Block] = []
    found = list(tables)
    for region in regions:
        if region.is_table and not is_itemised(region):
            found.append(aligned_table(region))
            blocks.append(_table_block(found[-1], width, height))
        else:
            blocks += _flow(region, body, vocabulary, size)
    blocks = _page_numbers(blocks)
    blocks += _sideways([line for line in lines if line.angle], vocabulary, size, body)
    features = {
        "lines": float(len(lines)),
        "tables": float(len(found)),
        "merged_cells": float(sum(table.merged for table in found)),
    }
    return [block for block in blocks if block.text], features


def _item(line: Line, width: float, height: float) -> Item:
    box = line.bbox
    return Item(box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height, line.size, line)


def _sides(rulings: Sequence[Ruling], width: float, height: float) -> tuple[list[Side], list[Side]]:
    """Horizontal and vertical rulings in points."""
    across = [
        Side((r.bbox.y0 + r.bbox.y1) / 2 * height, r.bbox.x0 * width, r.bbox.x1 * width)
        for r in rulings
        if r.horizontal
    ]
    down = [
        Side((r.bbox.x0 + r.bbox.x1) / 2 * width, r.bbox.y0 * height, r.bbox.y1 * height)
        for r in rulings
        if not r.horizontal
    ]
    return across, down


def _flow(region: Region, body: Type, vocabulary: frozenset[str], size: tuple[float, float]) -> list[Block]:
    """Running text, with tables already found standing between its lines."""
    blocks: list[Block] = []
    held: list[Item] = []
    for item in region.items:
        if isinstance(item.block, Table):
            blocks += [_block(made, size) for made in make_blocks(held, body, vocabulary)]
            held = []
            blocks.append(_table_block(item.block, *size))
        else:
            held.append(item)
    return blocks + [_block(made, size) for made in make_blocks(held, body, vocabulary)]


def _block(made: Made, size: tuple[float, float]) -> Block:
    width, height = size
    box = Box.of(
        min(item.x0 for item in made.items) / width,
        min(item.y0 for item in made.items) / height,
        max(item.x1 for item in made.items) / width,
        max(item.y1 for item in made.items) / height,
    )
    return Block(made.kind, made.text, box, 1.0, Reader.TEXT, level=made.level)


def _table_block(table: Table, width: float, height: float) -> Block:
    x0, y0, x1, y1 = table.box
    box = Box.of(x0 / width, y0 / height, x1 / width, y1 / height)
    confidence = 1.0 if table.ruled else 0.95
    return Block(BlockKind.TABLE, table.markdown, box, confidence, Reader.TEXT, html=table.html)


def _page_numbers(blocks: list[Block]) -> list[Block]:
    """The highest and the lowest block are running head and foot where they are but a page number, parted
    from the rest by white (a page whose text ends early has its number far from the edge)."""
    for block, kind in _outermost(blocks):
        digits = block.text.strip("-–— ")
        if block.kind is BlockKind.PARAGRAPH and digits.isdecimal() and len(digits) <= 4:
            index = blocks.index(block)
            blocks = [*blocks[:index], replace(block, kind=kind), *blocks[index + 1 :]]
    return blocks


def _outermost(blocks: Sequence[Block]) -> list[tuple[Block, BlockKind]]:
    if len(blocks) < 3:
        return []
    top, bottom = min(blocks, key=lambda b: b.bbox.y0), max(blocks, key=lambda b: b.bbox.y1)
    white_below = min(b.bbox.y0 for b in blocks if b is not top) - top.bbox.y1
    white_above = bottom.bbox.y0 - max(b.bbox.y1 for b in blocks if b is not bottom)
    found = [(top, BlockKind.HEADER)] if white_below > 0.01 else []
    return [*found, (bottom, BlockKind.FOOTER)] if white_above > 0.01 else found


def _sideways(lines: Sequence[Line], vocabulary: frozenset[str], size: tuple[float, float], body: Type) -> list[Block]:
    """Text at other angles, read in its own direction and put after the rest."""
    blocks: list[Block] = []
    for angle in (90, 180, 270):
        turned = -angle % 360
        there = (size[1], size[0]) if turned % 180 else size
        items = [_item(_turned_line(line, turned), *there) for line in lines if line.angle == angle]
        made = [block for region in arrange(items) for block in make_blocks(region.items, body, vocabulary)]
        upright = [_block(one, there) for one in made]
        blocks += [replace(block, bbox=turned_box(block.bbox, angle)) for block in upright]
    slanted = [line for line in lines if line.angle % 90]
    return blocks + [Block(BlockKind.PARAGRAPH, line.text, line.bbox, 1.0, Reader.TEXT) for line in slanted]
