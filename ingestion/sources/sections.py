"""Text cut into blocks, and blocks into sections of bounded size that stand for pages.

A section is laid out on a grid of characters: ``ROWS`` rows of ``COLUMNS``. The grid, not a font, gives
the boxes, so that a citation's box fits the drawing on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from assistant.core.domain import WHOLE_PAGE, Block, BlockKind, Box, Reader
from ingestion.tables import Table, pipe_row

WIDTH, HEIGHT = 595.0, 842.0  # of the page a section is drawn on: A4 in points
COLUMNS, ROWS = 110, 64
MARGIN = 0.07  # of the width and of the height, on each side
_INLAY_DPI = 110  # at which a picture in the text stands on the page, where it fits: small type stays readable
_PAGE_SIDE = 1000  # pixels on both sides from which a picture is a page of its own
_MOST_CHARACTERS = 3_000
_LIST_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+\S")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")


@dataclass(frozen=True, slots=True)
class Inlay:
    """A picture within a text. ``load`` gives its file's bytes when they are needed; sizes in pixels, upright."""

    load: Callable[[], bytes] = field(repr=False)
    width: int
    height: int

    @property
    def is_page(self) -> bool:
        """Whether it is large enough to be a page of its own, read at its own resolution."""
        return min(self.width, self.height) >= _PAGE_SIDE


@dataclass(frozen=True, slots=True)
class Part:
    """A block before it has a place: Markdown text, HTML for tables. A figure may have its picture."""

    kind: BlockKind
    text: str
    html: str | None = None
    level: int = 0
    table: Table | None = None  # what ``text`` and ``html`` were made from, for cutting it between rows
    inlay: Inlay | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks with their places, the rows of text that are drawn, and the pictures between them. A section that
    is one large picture has no rows."""

    blocks: tuple[Block, ...]
    rows: tuple[str, ...]
    inlays: tuple[tuple[Box, Inlay], ...] = ()

    @property
    def picture(self) -> Inlay | None:
        """The picture that is the whole page."""
        return self.inlays[0][1] if not self.rows and self.inlays else None


def table_part(table: Table) -> Part:
    """A table as a part."""
    return Part(BlockKind.TABLE, table.markdown(), html=table.html(), table=table)


def plain_parts(text: str) -> Iterator[Part]:
    """Paragraphs and lists of a plain text: what stands between empty lines."""
    for piece in re.split(r"\n[ \t]*\n+", text):
        body = piece.strip("\n").rstrip()
        if body.strip():
            lines = body.splitlines()
            items = sum(1 for line in lines if _LIST_ITEM.match(line))
            is_list = items >= 2 and items * 2 >= len(lines)
            yield Part(BlockKind.LIST if is_list else BlockKind.PARAGRAPH, body)


def sections(parts: Iterable[Part]) -> Iterator[Section]:
    """Parts packed into sections; a heading opens a new one where half of the last is used, and a large picture
    is one by itself."""
    held: list[Part] = []
    rows = size = 0
    for part in (small for whole in parts for small in _bounded(whole)):
        alone = part.inlay is not None and part.inlay.is_page
        needed = _height(part) + 1
        full = rows + needed > ROWS or size + len(part.text) > _MOST_CHARACTERS
        turning = part.kind is BlockKind.HEADING and (rows > ROWS // 2 or size > _MOST_CHARACTERS // 2)
        if held and (full or turning or alone):
            yield _section(held)
            held, rows, size = [], 0, 0
        if alone and part.inlay is not None:
            yield Section((), (), ((WHOLE_PAGE, part.inlay),))
            continue
        held.append(part)
        rows, size = rows + needed, size + len(part.text)
    if held:
        yield _section(held)


def _bounded(part: Part) -> Iterator[Part]:
    """The part, or pieces of it that each fit a section: a table cut between rows; text at lines, then sentences,
    then words. What a large picture is called stands before it."""
    if part.inlay is not None and part.inlay.is_page:
        if part.text:
            yield Part(part.kind, part.text)
        yield Part(part.kind, "", inlay=part.inlay)
    elif part.inlay is not None or _fits(part.text):
        yield part
    elif part.table is not None:
        yield from _table_pieces(part.table)
    else:
        yield from _text_pieces(part)


def _fits(text: str) -> bool:
    return len(text) <= _MOST_CHARACTERS and len(wrap(text)) < ROWS


def _table_pieces(table: Table) -> Iterator[Part]:
    """The table in tables that each fit a section and repeat its head, cells cut where the rows are. A piece that is
    too long for that becomes text."""
    lines = [pipe_row(row) for row in table.grid()]
    above = [*lines[: table.head], "|" + " --- |" * lines[0].count(" |")]
    if sum(len(line) for line in above) > _MOST_CHARACTERS // 3:
        above = above[-1:]
    used = sum(len(line) + 1 for line in above), sum(len(wrap(line)) for line in above)
    bounds, (characters, rows) = [table.head], used
    for index in range(table.head, len(lines)):
        more = len(lines[index]) + 1, len(wrap(lines[index]))
        if index > bounds[-1] and (characters + more[0] > _MOST_CHARACTERS or rows + more[1] >= ROWS):
            bounds.append(index)
            characters, rows = used
        characters, rows = characters + more[0], rows + more[1]
    if len(above) == 1:  # too long to be repeated: the head is rows like others
        bounds[0] = 0
    for piece in table.cut([*bounds, len(lines)], with_head=len(above) > 1):
        yield from [table_part(piece)] if _fits(piece.markdown()) else _text_pieces(table_part(piece))


def _text_pieces(part: Part) -> Iterator[Part]:
    kind = BlockKind.PARAGRAPH if part.kind is BlockKind.TABLE else part.kind
    held = ""
    for piece in _pieces(part.text):
        if held and not _fits(held + piece):
            yield Part(kind, held.strip("\n").rstrip(), level=part.level)
            held = ""
        held += piece
    if held.strip():
        yield Part(kind, held.strip("\n").rstrip(), level=part.level)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most a third of a section, nothing lost but white space at the cuts."""
    most = _MOST_CHARACTERS // 3
    for line in text.splitlines(keepends=True):
        if len(line) <= most:
            yield line
            continue
        for sentence in _SENTENCE_END.split(line):
            for start in range(0, len(sentence), most):
                yield sentence[start : start + most] + ("" if start + most < len(sentence) else " ")
        yield "\n"


def _section(parts: list[Part]) -> Section:
    blocks: list[Block] = []
    rows: list[str] = []
    inlays: list[tuple[Box, Inlay]] = []
    for part in parts:
        lines = [""] * _height(part) if part.inlay else wrap(part.text)
        box = grid_box(len(rows), len(rows) + len(lines))
        if part.inlay:
            box = _inlay_box(part.inlay, box)
            inlays.append((box, part.inlay))
        if part.text.strip():
            blocks.append(Block(part.kind, part.text, box, 1.0, Reader.TEXT, html=part.html, level=part.level))
        rows += [*lines, ""]
    return Section(tuple(blocks), tuple(rows[:-1]), tuple(inlays))


def _height(part: Part) -> int:
    """How many rows the part takes."""
    if part.inlay is None:
        return len(wrap(part.text))
    _, height = _inlay_size(part.inlay)
    return max(1, min(ROWS - 1, -int(-height // (HEIGHT * (1 - 2 * MARGIN) / ROWS))))


def _inlay_size(inlay: Inlay) -> tuple[float, float]:
    """Width and height of a picture on the page, in points."""
    room = WIDTH * (1 - 2 * MARGIN), HEIGHT * (1 - 2 * MARGIN) * (ROWS - 1) / ROWS
    scale = min(72 / _INLAY_DPI, room[0] / inlay.width, room[1] / inlay.height)
    return inlay.width * scale, inlay.height * scale


def _inlay_box(inlay: Inlay, rows: Box) -> Box:
    """Where a picture stands in the rows kept for it."""
    width, height = _inlay_size(inlay)
    return Box.of(rows.x0, rows.y0, rows.x0 + width / WIDTH, min(rows.y1, rows.y0 + height / HEIGHT))


def grid_box(first: int, end: int) -> Box:
    """Where rows ``first`` to ``end`` (not included) stand on the page."""
    height = (1 - 2 * MARGIN) / ROWS
    return Box.of(MARGIN, MARGIN + first * height, 1 - MARGIN, MARGIN + end * height)


def wrap(text: str, columns: int = COLUMNS) -> list[str]:
    """Rows of at most ``columns`` characters, cut at spaces where there are any."""
    rows: list[str] = []
    for line in text.expandtabs(4).splitlines() or [""]:
        while len(line) > columns:
            cut = line.rfind(" ", columns // 2, columns + 1)
            cut = cut if cut > 0 else columns
            rows.append(line[:cut])
            line = line[cut:].lstrip()
        rows.append(line)
    return rows
