"""A document as the list shows it, and the list itself: sorted, filtered and cut into pages by the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from assistant.core.domain import Access, Document, DocumentStatus, Reader, Tally
from assistant.core.ports import DocumentQuery, Order
from assistant.web.auth import LOCAL_USER
from assistant.web.documents import collections_of
from assistant.web.library.numbers import percent
from assistant.web.library.texts import Language
from assistant.web.services import Services

SIZES = (25, 50, 100)
TONES = {
    DocumentStatus.QUEUED: "calm",
    DocumentStatus.READING: "busy",
    DocumentStatus.COMPLETE: "sure",
    DocumentStatus.PARTIAL: "unsure",
    DocumentStatus.FAILED: "bad",
}
# What a column is called, and how it is sorted at the first click.
COLUMNS = (
    (Order.NAME, "name", True),
    (Order.STATUS, "status", True),
    (Order.PAGES, "readers", False),
    (Order.CONFIDENCE, "confidence", True),
    (Order.SIZE, "size", False),
    (Order.CREATED, "added", False),
)
FURTHER_ORDERS = (
    (Order.COLLECTION, "collection", True),
    (Order.VERSION, "version", False),
    (Order.OWNER, "owner", True),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: where it begins and how long it is, in hundredths of the bar."""

    reader: Reader
    begin: float
    length: float
    pages: int


@dataclass(frozen=True, slots=True)
class Row:
    """A document in the list."""

    document: Document
    confidence: int | None  # in per cent
    parts: tuple[Part, ...]

    @property
    def reading(self) -> bool:
        return not self.document.status.is_final

    @property
    def tone(self) -> str:
        return TONES[self.document.status]

    @property
    def owner(self) -> str:
        """Who added it, where more than one person could have."""
        return "" if self.document.owner == LOCAL_USER else self.document.owner

    def progress(self, language: Language) -> str:
        """How far it is, in words; "" where there is nothing to tell beyond the status."""
        done, pages = self.document.pages_done, self.document.pages
        if not pages:
            return ""
        if self.document.status is DocumentStatus.QUEUED and not done:
            return language("pages", n=pages)
        if self.reading:
            return language("pages_waiting", done=done, n=pages)
        return language("pages_read", done=done - self.document.pages_failed, n=pages)

    def heard(self, language: Language) -> str:
        """The row as one sentence, for whoever does not see it change."""
        status = language(f"status_{self.document.status.value}")
        return ": ".join((self.document.name, ", ".join(filter(None, (status, self.progress(language))))))


@dataclass(frozen=True, slots=True)
class Wish:
    """What of the list someone wants to see, as it stands in the address."""

    name: str = ""
    collection: str = ""
    status: DocumentStatus | None = None
    order: Order = Order.CREATED
    ascending: bool = False
    page: int = 1
    size: int = SIZES[1]

    @property
    def narrowed(self) -> bool:
        return bool(self.name or self.collection or self.status)

    def query(self) -> DocumentQuery:
        """For the catalogue, which knows of collections by the access."""
        return DocumentQuery(
            statuses=frozenset({self.status} if self.status else ()),
            name=self.name,
            limit=self.size,
            offset=(self.page - 1) * self.size,
            order=self.order,
            ascending=self.ascending,
        )

    def url(self, **changes: Any) -> str:
        """The address of the same list, a little changed; what is as it would be anyway is left out."""
        wish, plain = replace(self, **{"page": 1, **changes}), Wish()
        said = {
            "name": wish.name,
            "collection": wish.collection,
            "status": wish.status.value if wish.status else "",
            "order": wish.order.value if (wish.order, wish.ascending) != (plain.order, plain.ascending) else "",
            "direction": "up" if wish.ascending else "",
            "page": wish.page if wish.page != plain.page else "",
            "size": wish.size if wish.size != plain.size else "",
        }
        given = urlencode({key: value for key, value in said.items() if value})
        return f"/library?{given}" if given else "/library"


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list with what stands around it."""

    wish: Wish
    rows: tuple[Row, ...]
    found: Tally  # all that fits the wish
    collections: tuple[str, ...]  # that the person may see

    @property
    def last_page(self) -> int:
        return max(1, -(-self.found.total // self.wish.size))

    @property
    def first(self) -> int:
        return (self.wish.page - 1) * self.wish.size + 1

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def listing(parts: Services, who: Access, wish: Wish) -> Listing:
    """The page of the list that ``wish`` asks for. Blocks: call it in a thread."""
    seen = who.narrowed(wish.collection or None)
    found = parts.catalogue.tally(seen, wish.query())
    wish = replace(wish, page=min(wish.page, max(1, -(-found.total // wish.size))))
    documents = parts.catalogue.documents(seen, wish.query())
    collections = tuple(one.name for one in collections_of(parts, who))
    return Listing(wish, rows_of(parts, who, documents), found, collections)


def rows_of(parts: Services, who: Access, documents: Sequence[Document]) -> tuple[Row, ...]:
    """``documents`` with how sure they are. Blocks."""
    sure = parts.catalogue.confidences([document.id for document in documents], who)
    return tuple(row_of(document, sure) for document in documents)


def row_of(document: Document, sure: Mapping[str, float]) -> Row:
    confidence = sure.get(document.id)
    return Row(document, None if confidence is None else percent(confidence), _mix(document))


def _mix(document: Document) -> tuple[Part, ...]:
    """The bar of readers: as long as the document has pages, filled as far as it was read."""
    whole = max(document.pages, sum(document.readers.values()), 1)
    parts: list[Part] = []
    begin = 0.0
    for reader in Reader:
        if pages := document.readers.get(reader.value, 0):
            length = 100 * pages / whole
            parts.append(Part(reader, round(begin, 2), round(length, 2), pages))
            begin += length
    return tuple(parts)
