"""A page as it was read: its blocks over its picture, what people said about them, and the receipt in plain words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from markupsafe import Markup

from assistant.core.corrections import place_of
from assistant.core.domain import (
    Access,
    Block,
    BlockKind,
    Correction,
    Document,
    PageEnding,
    PageReading,
    PageStatus,
    Reader,
    Reading,
)
from assistant.core.errors import NotFound
from assistant.core.ports import DocumentQuery, Order
from assistant.web.library import tables
from assistant.web.library.numbers import number, percent
from assistant.web.library.texts import Language
from assistant.web.services import Services

STRIP = 60  # pages shown as small pictures at once
PROBLEMS = 12  # pages pointed at
PARTS = 50  # documents found in one that are named on its page


@dataclass(frozen=True, slots=True)
class Piece:
    """A block with what a person said about it."""

    number: int  # on the page, from 0
    block: Block
    said: Correction | None

    @property
    def percent(self) -> int:
        return percent(self.block.confidence)

    @property
    def colour(self) -> str:
        return "person" if self.block.corrected_by else self.block.reader.value

    @property
    def original(self) -> str:
        """What the reader read."""
        return self.said.original if self.said and self.block.corrected_by else self.block.text

    @property
    def digest(self) -> str:
        """Tells whether a block is still the one that was looked at."""
        return hashlib.sha256(self.original.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def table(self) -> Markup | None:
        if self.block.kind is not BlockKind.TABLE:
            return None
        return tables.harmless(self.block.html) if self.block.html else tables.from_markdown(self.block.text)

    @property
    def has_place(self) -> bool:
        """Whether its box says more than "on this page"."""
        return 0 < self.block.bbox.area < 0.98


@dataclass(frozen=True, slots=True)
class Mark:
    """A page in the strip."""

    number: int
    status: PageStatus | None  # None: not read yet


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page of a document with all that is shown around it."""

    document: Document
    parent: Document | None  # the mail or archive it was found in
    parts: tuple[Document, ...]  # what was found in it, at any depth, by name
    has_more_parts: bool
    number: int
    page: PageReading | None  # None: not read yet
    pieces: tuple[Piece, ...]
    lost: tuple[Correction, ...]  # whose block is not on the page any more
    strip: tuple[Mark, ...]
    problems: tuple[Mark, ...]
    count: int

    @property
    def readers(self) -> tuple[str, ...]:
        """Whose colours are on the page, in the order of the readers."""
        seen = {piece.colour for piece in self.pieces if piece.has_place}
        return tuple(name for name in (*(reader.value for reader in Reader), "person") if name in seen)


def sheet(parts: Services, who: Access, document_id: str, number: int) -> Sheet:
    """Page ``number`` of a document. NotFound. Blocks: call it in a thread."""
    document = parts.catalogue.document(document_id, who)
    endings = parts.catalogue.page_endings(document_id, who)
    count = max(document.pages, endings[-1].number if endings else 0, 1)
    if not 1 <= number <= count:
        raise NotFound(f"{document.name} has no page {number}", f"Its pages are 1 to {count}")
    page = None
    if any(ending.number == number for ending in endings):
        page = parts.catalogue.page(document_id, number, who)
    said = [one for one in parts.catalogue.corrections(document_id, who) if one.page == number]
    pieces, lost = _pieces(page, said)
    around = _strip(endings, number, count), _problems(endings)
    parent, within = _parent(parts, who, document), _within(parts, who, document)
    family = parent, within[:PARTS], len(within) > PARTS
    return Sheet(document, *family, number, page, pieces, lost, *around, count)


def _parent(parts: Services, who: Access, document: Document) -> Document | None:
    with suppress(NotFound):  # it may lie in a collection of others
        return parts.catalogue.document(document.parent, who) if document.parent else None
    return None


def _within(parts: Services, who: Access, document: Document) -> tuple[Document, ...]:
    """One more than is named, where there are more."""
    most = PARTS + 2  # itself among them
    query = DocumentQuery(ids=frozenset({document.id}), with_parts=True, order=Order.NAME, ascending=True, limit=most)
    return tuple(one for one in parts.catalogue.documents(who, query) if one.id != document.id)


def _pieces(page: PageReading | None, said: Sequence[Correction]) -> tuple[tuple[Piece, ...], tuple[Correction, ...]]:
    if page is None:
        return (), ()
    about: dict[int, Correction] = {}
    lost: list[Correction] = []
    for correction in said:
        place = _block_of(correction, page.blocks)
        if place is None:
            lost.append(correction)
        else:
            about[place] = correction
    pieces = tuple(Piece(number, block, about.get(number)) for number, block in enumerate(page.blocks))
    return pieces, tuple(lost)


def _block_of(correction: Correction, blocks: Sequence[Block]) -> int | None:
    """Where the correction's block is among blocks that are corrected already."""
    if correction.text is not None:
        for number, block in enumerate(blocks):
            near = block.bbox == correction.bbox or block.bbox.overlap(correction.bbox) > 0
            if near and block.corrected_by and block.text == correction.text:
                return number
        return None
    return place_of(correction, blocks)


def _strip(endings: Sequence[PageEnding], number: int, count: int) -> tuple[Mark, ...]:
    """The pages around ``number``: always the same ones while one leafs through them."""
    begin = (number - 1) // STRIP * STRIP + 1
    status = {ending.number: ending.status for ending in endings}
    return tuple(Mark(one, status.get(one)) for one in range(begin, min(begin + STRIP, count + 1)))


def _problems(endings: Sequence[PageEnding]) -> tuple[Mark, ...]:
    """The pages that were not read, then those the readers are least sure of."""
    order = {PageStatus.FAILED: 0, PageStatus.LOW_CONFIDENCE: 1}
    bad = [ending for ending in endings if ending.status in order]
    bad.sort(key=lambda ending: (order[ending.status], ending.confidence))
    return tuple(Mark(ending.number, ending.status) for ending in bad[:PROBLEMS])


def receipt_in_words(page: PageReading, language: Language) -> str:
    """Who read the page, how sure, how long: in the person's language. (The reasons speak as they were written.)"""
    if page.status is PageStatus.FAILED:
        return language("receipt_failed")
    if page.status is PageStatus.BLANK:
        return language("receipt_blank")
    said = [
        language("receipt_read", reader=language(f"reader_{page.reader.value}")),
        language("receipt_sure", n=percent(page.confidence)),
        language("receipt_seconds", n=number(page.seconds, language.code, 1)),
    ]
    if page.receipt.visual_tokens:
        said.append(language("receipt_tokens", n=number(page.receipt.visual_tokens, language.code)))
    if page.receipt.wants_vlm:
        said.append(language("receipt_wants"))
    return " ".join(said)


def reading_in_words(reading: Reading, language: Language) -> str:
    """One of the page's readings, published or not."""
    said = (
        language(f"reader_{reading.reader.value}"),
        language("sure", n=percent(reading.confidence)),
        f"{number(reading.seconds, language.code, 1)} s",
        reading.note,
    )
    return " · ".join(filter(None, said))
