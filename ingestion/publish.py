"""Publishing: what was read becomes findable, page by page, and dense vectors follow when there is time.

A page's chunks are written with their words at once, so it is answerable as soon as it is read. Pages may end
in any order, so a page is first cut with what was known of the pages before it; when the document is whole, those
pages are cut again of which that was not all. All of it may be repeated: ids are made of document, page and ordinal.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from assistant.core.domain import Document, PageReading
from assistant.core.errors import NotFound, StoreBusy
from assistant.core.index import chunk_id
from assistant.core.ports import ChunkIndex, Embedder
from assistant.core.settings import ChunkingSettings
from ingestion.chunks import Carry, cut_page, load_splitter

_COUNT_SECONDS = 1.0  # counting goes over all chunks of a document, so a long one is not counted at every page
_LOOK_BACK = 64  # pages; those begun later end before one that takes long, but not that many
_AT_ONCE = 8  # passages: about a second of work, after which a stop is heard


@dataclass(frozen=True, slots=True)
class Cut:
    """How a page was cut: with what it knew, what it hands on, and into how many chunks."""

    before: Carry
    after: Carry
    chunks: int


class Cuts:
    """The cuts of one document's pages as far as this process made them. One thread at a time."""

    def __init__(self) -> None:
        self._cuts: dict[int, Cut] = {}

    def carry_to(self, number: int) -> Carry:
        """What is known for page ``number`` by now: what the nearest page before it handed on."""
        before = range(number - 1, max(0, number - 1 - _LOOK_BACK), -1)
        return next((self._cuts[near].after for near in before if near in self._cuts), Carry())

    def keep(self, number: int, cut: Cut) -> None:
        self._cuts[number] = cut

    def standing(self, number: int, carry: Carry) -> Cut | None:
        """The cut of page ``number``, if it would come out the same with ``carry``."""
        cut = self._cuts.get(number)
        return cut if cut is not None and cut.before == carry else None


class ChunkCounts(Protocol):
    """The part of the catalogue that publishing needs."""

    def corrected(self, document_id: str, page: PageReading) -> PageReading:
        """``page`` as people corrected it."""
        ...

    def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
        """Note how many chunks a document has and how many have their vector. NotFound."""
        ...

    def half_embedded(self) -> list[str]:
        """Ids of the documents of which fewer chunks are said to have their vector than there are."""
        ...


class Publisher:
    """Writes chunks to the index. Thread-safe; a document's pages may come in any order."""

    def __init__(
        self,
        catalogue: ChunkCounts,
        index: ChunkIndex,
        embedder: Embedder,
        settings: ChunkingSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogue = catalogue
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._clock = clock
        self._next_count: dict[str, float] = {}

    def warm(self) -> None:
        """Load what the first long passage would otherwise wait for (about three seconds of CPU). Any thread."""
        load_splitter()

    def publish_page(self, document: Document, page: PageReading, cuts: Cuts) -> None:
        """Make ``page`` answerable, as corrected, and note in ``cuts`` how it was cut."""
        page = self._catalogue.corrected(document.id, page)
        cuts.keep(page.number, self._cut(document, page, cuts.carry_to(page.number)))
        if self._clock() >= self._next_count.get(document.id, 0.0):
            self._count(document.id)
            self._next_count[document.id] = self._clock() + _COUNT_SECONDS

    def finish_document(
        self, document: Document, numbers: Iterable[int], load: Callable[[int], PageReading], cuts: Cuts
    ) -> None:
        """Cut again those of the pages ``numbers`` (in order) that knew too little of the ones before them, or of
        which ``cuts`` knows nothing, and drop what no page says any more. ``load`` gives a page by its number, as
        corrected; one is in memory at a time."""
        carry, ids = Carry(), set[str]()
        for number in numbers:
            cut = cuts.standing(number, carry)
            if cut is None:
                cut = self._cut(document, load(number), carry)
                cuts.keep(number, cut)
            ids.update(chunk_id(document.id, number, ordinal) for ordinal in range(cut.chunks))
            carry = cut.after
        self._index.delete(document.id, keep=frozenset(ids))
        self._next_count.pop(document.id, None)
        self._count(document.id)

    def embed_pending(self, limit: int, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Give at most ``limit`` waiting chunks their dense vector; returns how many were dealt with.

        0 means that none waits (or that it was told to stop). What is done stays done: after a crash the
        rest is still waiting. Chunks of like length are embedded together, since a batch is padded to its
        longest. EndpointDown, EndpointBusy when the embedder is an endpoint.
        """
        waiting = sorted(self._index.unembedded(limit), key=lambda chunk: len(chunk.searchable_text))
        done = 0
        for start in range(0, len(waiting), _AT_ONCE):
            if should_stop():
                break
            batch = waiting[start : start + _AT_ONCE]
            vectors = self._embedder.embed_passages([chunk.searchable_text for chunk in batch])
            self._index.add_vectors(batch, vectors)
            done += len(batch)
        for document_id in {chunk.document_id for chunk in waiting[:done]}:
            with contextlib.suppress(NotFound):  # it was deleted meanwhile
                self._count(document_id)
        return done

    def recount(self) -> None:
        """Count again where vectors seem to be missing though none waits: whoever added them died before it counted."""
        for document_id in self._catalogue.half_embedded():
            with contextlib.suppress(NotFound):
                self._count(document_id)

    def move(self, document: Document, source: str) -> None:
        """Let what was published in the collection ``source`` be found in the document's own."""
        self._index.move(document.id, source, document.collection)

    def rename(self, document: Document) -> None:
        """Let what was published under another name carry the document's own."""
        self._index.rename(document.id, document.name, document.pages)

    def withdraw(self, document_id: str, *, verify: bool = True) -> None:
        """Remove every chunk of the document. StoreBusy when one is left, unless ``verify`` is false."""
        self._index.delete(document_id)
        if verify and (left := self._index.count(document_id)):
            raise StoreBusy(f"{left} passages of a deleted document are still in the index", "Delete it once more")

    def _cut(self, document: Document, page: PageReading, carry: Carry) -> Cut:
        """Cut a page and write its chunks; what stands there just so stays."""
        chunks, after = cut_page(document, page, carry, self._embedder.count_tokens, self._settings)
        self._index.upsert(chunks, None)
        return Cut(carry, after, len(chunks))

    def _count(self, document_id: str) -> None:
        """Write down how many chunks it has, and look again: publishing and embedding, here or in another process,
        count side by side, and who writes last must not write what was true before."""
        written: tuple[int, int] | None = None
        while (counted := (self._index.count(document_id), self._index.count(document_id, embedded=True))) != written:
            self._catalogue.count_chunks(document_id, *counted)
            written = counted
