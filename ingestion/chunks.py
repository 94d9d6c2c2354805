"""From the blocks of a page to chunks: passages of one topic, small enough to embed, each with its anchors.

Headings are carried as a path, over page ends too. Paragraphs are packed, lists and tables kept whole where
they fit; a table that must be split repeats its header row, also where it goes on at the top of the next
page. Running heads and feet become a chunk once in a document. No text is lost and none is invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile

from assistant.core.domain import Anchor, Block, BlockKind, Box, Chunk, Document, PageReading, Reader, TimeSpan
from assistant.core.index import chunk_id
from assistant.core.settings import ChunkingSettings

CountTokens = Callable[[str], int]

FURNITURE = (BlockKind.HEADER, BlockKind.FOOTER)
LONGEST_HEADING = 200  # letters; what is longer was no heading, whatever the layout model said
DEEPEST_PATH = 6
FURNITURE_KEPT = 64  # running heads and feet remembered
ALONE = (BlockKind.TABLE, BlockKind.FIGURE)  # chunks of their own, with their captions


@dataclass(frozen=True, slots=True)
class Carry:
    """What a page hands on to the next: the open headings with their levels, the header lines of a table
    that reaches the page's end, and the running heads and feet already seen."""

    headings: tuple[tuple[int, str], ...] = ()
    table: tuple[str, ...] = ()
    furniture: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.headings)


@dataclass(frozen=True, slots=True)
class Piece:
    """A block, or a part of one, on its way into a chunk."""

    text: str
    block: Block
    path: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Cutter:
    """How to measure and where to stop."""

    count_tokens: CountTokens
    max_tokens: int

    def pieces(self, block: Block, path: tuple[str, ...]) -> list[Piece]:
        """The text of ``block`` in pieces of at most ``max_tokens``."""
        parts = self.parts(_sound(block.text).strip(), by_line=block.kind is not BlockKind.PARAGRAPH)
        return [Piece(part, block, path, self.count_tokens(part)) for part in parts]

    def parts(self, text: str, by_line: bool) -> list[str]:
        """``text`` whole where it fits; else ``by_line``, lines being items or rows; else by sentence."""
        if self.fits(text):
            return [text] if text else []
        lines = text.split("\n")
        if by_line and len(lines) > 1:
            return self._packed(part for line in lines if line.strip() for part in self.parts(line, by_line))
        return _splitter(self.max_tokens, self.count_tokens)(text)

    def fits(self, text: str) -> bool:
        # No tokenizer makes more tokens than bytes, and short texts are many.
        return len(text.encode()) < self.max_tokens or self.count_tokens(text) <= self.max_tokens

    def _packed(self, lines: Iterator[str]) -> list[str]:
        packed: list[str] = []
        room = 0
        for line in lines:
            tokens = self.count_tokens(line)
            if packed and tokens <= room:
                packed[-1] += "\n" + line
                room -= tokens
            else:
                packed.append(line)
                room = self.max_tokens - tokens
        return packed


@dataclass(slots=True)
class _Packer:
    """Collects pieces into groups, each of which becomes a chunk."""

    max_tokens: int
    groups: list[list[Piece]] = field(default_factory=list[list[Piece]])
    _open: bool = False

    def add(self, piece: Piece) -> None:
        """Put ``piece`` with what came before it, or begin anew."""
        if self._open and not self._turns(piece) and self._tokens() + piece.tokens <= self.max_tokens:
            self.groups[-1].append(piece)
        else:
            self.groups.append([piece])
        self._open = True

    def add_alone(self, pieces: list[Piece]) -> None:
        """A group of its own; a heading just before it goes with it where there is room."""
        room = self.max_tokens - self._tokens() if self._open and _only_headings(self.groups[-1]) else 0
        if sum(piece.tokens for piece in pieces) <= room:
            pieces = self.groups.pop() + pieces
        self.groups.append(pieces)
        self._open = False

    def close(self) -> list[list[Piece]]:
        """All groups; headings at the end of the page stay with the text before them where there is room."""
        if len(self.groups) > 1 and self._open and _only_headings(self.groups[-1]):
            last, before = self.groups[-1], self.groups[-2]
            together = sum(piece.tokens for piece in (*before, *last))
            if together <= self.max_tokens and before[0].block.kind not in ALONE:
                self.groups[-2:] = [before + last]
        return self.groups

    def _turns(self, piece: Piece) -> bool:
        """Whether a new topic begins: a heading after text that fills a third of a chunk already."""
        group = self.groups[-1]
        return (
            piece.block.kind is BlockKind.HEADING
            and not _only_headings(group)
            and self._tokens() >= self.max_tokens // 3
        )

    def _tokens(self) -> int:
        return sum(piece.tokens for piece in self.groups[-1])


def cut_page(
    document: Document, page: PageReading, carry: Carry, count_tokens: CountTokens, settings: ChunkingSettings
) -> tuple[list[Chunk], Carry]:
    """The chunks of ``page`` in reading order, and what the next page has to know.

    Chunk texts have at most ``settings.max_tokens`` tokens. The same input gives the same chunks and ids.
    """
    cutter = Cutter(_remembering(count_tokens), settings.max_tokens)
    furniture = [block for block in page.blocks if block.kind in FURNITURE]
    content = [block for block in page.blocks if block.kind not in FURNITURE and block.text.strip()]
    groups, after = _cut_content(content, carry, cutter)
    fresh, seen = _fresh_furniture(furniture, carry.furniture)
    groups += _cut_furniture(fresh, cutter)
    chunks = [_chunk(document, page.number, ordinal, group) for ordinal, group in enumerate(groups)]
    return chunks, replace(after, furniture=seen)


def _cut_content(content: Sequence[Block], carry: Carry, cutter: Cutter) -> tuple[list[list[Piece]], Carry]:
    packer = _Packer(cutter.max_tokens)
    headings, table = carry.headings, carry.table
    for unit in _units(content):
        main = unit[0] if len(unit) == 1 else next(block for block in unit if block.kind in ALONE)
        if main.kind is BlockKind.HEADING and _is_heading(main):
            headings = _under(headings, main)
        path = tuple(text for _, text in headings)
        if main.kind is BlockKind.TABLE:
            header = table if main is content[0] else ()
            groups, table = _cut_table(unit, main, header, path, cutter)
            for group in groups:
                packer.add_alone(group)
            continue
        table = ()
        pieces = [piece for block in unit for piece in cutter.pieces(block, path)]
        if main.kind is BlockKind.FIGURE and sum(piece.tokens for piece in pieces) <= cutter.max_tokens:
            packer.add_alone(pieces)
        else:
            for piece in pieces:
                packer.add(piece)
    return packer.close(), Carry(headings, table)


def _units(content: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks that belong together: a table or figure with its caption before or after it, others alone."""
    position = 0
    while position < len(content):
        block = content[position]
        following = content[position + 1].kind if position + 1 < len(content) else None
        together = block.kind is BlockKind.CAPTION and following in ALONE
        together = together or (block.kind in ALONE and following is BlockKind.CAPTION)
        if together and block.kind in ALONE and position + 2 < len(content):
            # "table, caption, table": captions of tables stand above them, so this one is the next table's
            together = not (block.kind is BlockKind.TABLE and content[position + 2].kind is BlockKind.TABLE)
        size = 2 if together else 1
        yield list(content[position : position + size])
        position += size


def _sound(text: str) -> str:
    """``text`` without lone surrogates, which broken fonts give and no store takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_heading(block: Block) -> bool:
    return len(block.text) <= LONGEST_HEADING


def _under(headings: tuple[tuple[int, str], ...], block: Block) -> tuple[tuple[int, str], ...]:
    """The open headings once ``block`` is one of them."""
    level = block.level or 2
    text = " ".join(_sound(block.text).lstrip("# ").split())
    above = tuple(takewhile(lambda heading: heading[0] < level, headings))
    return (*above, (level, text))[-DEEPEST_PATH:]


# -- tables -----------------------------------------------------------------------------------


def _cut_table(
    unit: Sequence[Block], table: Block, carried: tuple[str, ...], path: tuple[str, ...], cutter: Cutter
) -> tuple[list[list[Piece]], tuple[str, ...]]:
    """The table's groups, its caption with the first (or last) one, and its header lines for the next page."""
    lines = [line.strip() for line in _sound(table.text).split("\n") if line.strip()]
    header, rows = _header_and_rows(lines, carried)
    texts = _table_texts(header, rows, cutter)
    groups = [[Piece(text, table, path, cutter.count_tokens(text))] for text in texts]
    for caption in (block for block in unit if block is not table):
        for piece in cutter.pieces(caption, path):
            _join_caption(groups, piece, before=caption is unit[0], max_tokens=cutter.max_tokens)
    return groups, header


def _join_caption(groups: list[list[Piece]], piece: Piece, before: bool, max_tokens: int) -> None:
    group = groups[0 if before else -1] if groups else []
    if group and sum(part.tokens for part in group) + piece.tokens <= max_tokens:
        group.insert(0 if before else len(group), piece)
    else:
        groups.insert(0 if before else len(groups), [piece])


def _header_and_rows(lines: Sequence[str], carried: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """The lines to repeat and those to divide. A table that goes on takes over the header of its first part."""
    if len(lines) < 2 or not _is_rule(lines[1]):
        return (), list(lines)
    own, rows = tuple(lines[:2]), list(lines[2:])
    if not carried or own[0] == carried[0] or _cells(own[0]) != _cells(carried[0]) or _is_header(own[0], rows):
        return own, rows
    blank = not own[0].strip("| ")
    return carried, rows if blank else [own[0], *rows]


def _table_texts(header: tuple[str, ...], rows: Sequence[str], cutter: Cutter) -> list[str]:
    whole = "\n".join([*header, *rows])
    if cutter.fits(whole):
        return [whole] if whole else []
    head = "\n".join(header)
    head_tokens = cutter.count_tokens(head) if head else 0
    if head_tokens > cutter.max_tokens // 2:  # repeating it would leave no room for rows
        return cutter.parts(whole, by_line=True)
    inner = replace(cutter, max_tokens=cutter.max_tokens - head_tokens)
    return [f"{head}\n{part}".strip() for part in inner.parts("\n".join(rows), by_line=True)] if rows else [head]


def _is_rule(line: str) -> bool:
    return re.fullmatch(r"\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?", line) is not None


def _cells(row: str) -> int:
    return len(_cell_texts(row))


def _cell_texts(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))]


def _is_header(first: str, rows: Sequence[str]) -> bool:
    """Whether a first row names columns: words above numbers. (A row of data has the kinds of its column.)"""
    columns = list(zip(*(_cell_texts(row) for row in rows if _cells(row) == _cells(first)), strict=False))
    for name, column in zip(_cell_texts(first), columns, strict=False):
        numbers = sum(_is_number(cell) for cell in column)
        if name and not _is_number(name) and numbers * 2 > len(column):
            return True
    return False


def _is_number(cell: str) -> bool:
    digits = sum(character.isdigit() for character in cell)
    return digits > 0 and digits * 2 >= sum(character.isalnum() for character in cell)


# -- running heads and feet ---------------------------------------------------------------------


def _fresh_furniture(blocks: Sequence[Block], seen: tuple[str, ...]) -> tuple[list[Block], tuple[str, ...]]:
    """Those not seen on an earlier page, page numbers aside, and all seen now (the latest ``FURNITURE_KEPT``)."""
    fresh: list[Block] = []
    known = list(seen)
    for block in blocks:
        key = re.sub(r"[\W\d_]+", " ", block.text).strip().casefold()
        if key in known:
            known.remove(key)
        elif len(key) >= 4 or re.search(r"\d{5}", block.text):
            fresh.append(block)
        known.append(key)
    return fresh, tuple(known[-FURNITURE_KEPT:])


def _cut_furniture(blocks: Sequence[Block], cutter: Cutter) -> list[list[Piece]]:
    packer = _Packer(cutter.max_tokens)
    for block in blocks:
        for piece in cutter.pieces(block, ()):
            packer.add(piece)
    return packer.groups


# -- chunks -------------------------------------------------------------------------------------


def _chunk(document: Document, page: int, ordinal: int, pieces: Sequence[Piece]) -> Chunk:
    """A chunk of ``pieces``, as sure as they are on average (weighted by length)."""
    weights = [max(1, len(piece.text)) for piece in pieces]
    sure = sum(piece.block.confidence * weight for piece, weight in zip(pieces, weights, strict=True))
    readers = {piece.block.reader for piece in pieces}
    return Chunk(
        id=chunk_id(document.id, page, ordinal),
        document_id=document.id,
        document=document.name,
        collection=document.collection,
        page=page,
        ordinal=ordinal,
        text="\n\n".join(piece.text for piece in pieces),
        anchors=(Anchor(document.id, page, _boxes(pieces), _common_path(pieces), _times(pieces)),),
        reader=readers.pop() if len(readers) == 1 else Reader.MIXED,
        confidence=min(1.0, round(sure / sum(weights), 4)),
        kind=_kind(pieces),
        corrected_by=tuple(dict.fromkeys(piece.block.corrected_by for piece in pieces if piece.block.corrected_by)),
    )


def _boxes(pieces: Sequence[Piece]) -> tuple[Box, ...]:
    return tuple(dict.fromkeys(piece.block.bbox for piece in pieces))


def _times(pieces: Sequence[Piece]) -> tuple[TimeSpan, ...]:
    """When each of the boxes is said; nothing where that is not known of all."""
    times = {piece.block.bbox: piece.block.time for piece in pieces}
    said = tuple(time for time in times.values() if time is not None)
    return said if len(said) == len(times) else ()


def _common_path(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """The headings that all pieces stand under."""
    steps = zip(*(piece.path for piece in pieces), strict=False)
    return tuple(step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps))


def _kind(pieces: Sequence[Piece]) -> BlockKind:
    """What the pieces are, headings and captions beside; PARAGRAPH when they are of several kinds."""
    kinds = [piece.block.kind for piece in pieces]
    for beside in ((BlockKind.HEADING, BlockKind.CAPTION), (BlockKind.HEADING,), ()):
        if rest := {kind for kind in kinds if kind not in beside}:
            return rest.pop() if len(rest) == 1 else BlockKind.PARAGRAPH
    return BlockKind.PARAGRAPH


def _only_headings(pieces: Sequence[Piece]) -> bool:
    return all(piece.block.kind is BlockKind.HEADING for piece in pieces)


def load_splitter() -> None:
    """Import the library that cuts long passages now rather than at the first of them."""
    from assistant.core import llamaindex

    llamaindex.load()


@lru_cache(maxsize=8)
def _remembering(count_tokens: CountTokens) -> CountTokens:
    """Counting is what cutting spends its time on (a millisecond a paragraph), and asks for the same texts again:
    whether a paragraph fits, how long it is, and both once more when the document is finished."""
    return lru_cache(maxsize=4096)(count_tokens)


@lru_cache(maxsize=32)  # a table with its header cuts to what is left beside it, so sizes differ
def _splitter(max_tokens: int, count_tokens: CountTokens) -> Callable[[str], list[str]]:
    from assistant.core.llamaindex import sentence_splitter

    return sentence_splitter(max_tokens, count_tokens)
