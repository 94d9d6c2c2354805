"""Publishing into the real embedded index: at once, once, in any order, and gone when withdrawn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assistant.core.domain import (
    Access,
    Block,
    BlockKind,
    Box,
    Chunk,
    Document,
    DocumentStatus,
    PageReading,
    PageStatus,
    Reader,
    Receipt,
)
from assistant.core.errors import NotFound, StoreBusy
from assistant.core.index import open_index
from assistant.core.ports import ChunkIndex, SearchQuery
from assistant.core.settings import ChunkingSettings, IndexSettings
from ingestion.publish import Cuts, Publisher
from tests.fakes import FakeEmbedder

DOCUMENT = Document("doc-1", "contrato.pdf", "0" * 64, "legal", DocumentStatus.READING)
SETTINGS = ChunkingSettings(max_tokens=40)  # pyright: ignore[reportCallIssue]
ALL = Access("anna", None)


class Counts:
    """The part of a catalogue that publishing needs; ``gone`` documents are not found."""

    def __init__(self) -> None:
        self.noted: dict[str, tuple[int, int]] = {}
        self.gone: set[str] = set()

    def corrected(self, document_id: str, page: PageReading) -> PageReading:
        return page

    def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
        if document_id in self.gone:
            raise NotFound("no such document")
        self.noted[document_id] = (chunks, embedded)

    def half_embedded(self) -> list[str]:
        return [document_id for document_id, (chunks, embedded) in self.noted.items() if embedded < chunks]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ChunkIndex]:
    opened = open_index(IndexSettings(), tmp_path, FakeEmbedder())
    yield opened
    opened.close()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def publisher(index: ChunkIndex, counts: Counts) -> Publisher:
    return Publisher(counts, index, FakeEmbedder(), SETTINGS)


def paragraphs(number: int, *texts: str, heading: str = "") -> PageReading:
    blocks = [Block(BlockKind.HEADING, heading, Box(0, 0, 1, 0.1), 1.0, Reader.TEXT, level=1)] if heading else []
    blocks += [Block(BlockKind.PARAGRAPH, text, Box(0, 0.1, 1, 0.2), 1.0, Reader.TEXT) for text in texts]
    return PageReading(number, Reader.TEXT, PageStatus.READ, 1.0, tuple(blocks), Receipt("read"), 0.0)


def long_page(number: int, count: int) -> PageReading:
    """A page that makes ``count`` chunks."""
    return paragraphs(number, *(f"párrafo {number}.{at} " + "palabra " * 30 for at in range(count)))


def finish(
    publisher: Publisher, pages: Sequence[PageReading], cuts: Cuts | None = None, loaded: list[int] | None = None
) -> None:
    def load(number: int) -> PageReading:
        if loaded is not None:
            loaded.append(number)
        return pages[number - 1]

    publisher.finish_document(DOCUMENT, [page.number for page in pages], load, cuts or Cuts())


def found(index: ChunkIndex, text: str) -> list[Chunk]:
    return [hit.chunk for hit in index.search(SearchQuery(text, None, ALL))]


def test_a_page_is_answerable_as_soon_as_it_is_published(publisher: Publisher, index: ChunkIndex, counts: Counts):
    publisher.publish_page(DOCUMENT, paragraphs(3, "La fianza asciende a dos mensualidades."), Cuts())
    (only,) = found(index, "¿A cuánto asciende la fianza?")
    assert (only.page, only.text) == (3, "La fianza asciende a dos mensualidades.")
    assert counts.noted["doc-1"] == (1, 0)


def test_all_chunks_of_all_pages_are_points(publisher: Publisher, index: ChunkIndex, counts: Counts):
    pages = [long_page(number, 5) for number in range(1, 8)]
    cuts = Cuts()
    for page in pages:
        publisher.publish_page(DOCUMENT, page, cuts)
    assert index.count("doc-1") == 35
    finish(publisher, pages, cuts)
    finish(publisher, pages)
    assert index.count("doc-1") == 35
    assert counts.noted["doc-1"] == (35, 0)


def test_chunks_are_counted_once_a_second_and_at_the_end(index: ChunkIndex, counts: Counts):
    now = [100.0]
    publisher = Publisher(counts, index, FakeEmbedder(), SETTINGS, clock=lambda: now[0])
    pages = [long_page(number, 2) for number in range(1, 4)]
    publisher.publish_page(DOCUMENT, pages[0], Cuts())
    now[0] += 0.9
    publisher.publish_page(DOCUMENT, pages[1], Cuts())
    assert counts.noted["doc-1"] == (2, 0)
    now[0] += 0.2
    publisher.publish_page(DOCUMENT, pages[2], Cuts())
    assert counts.noted["doc-1"] == (6, 0)
    finish(publisher, pages[:2])
    assert counts.noted["doc-1"] == (4, 0)


def test_pages_in_any_order_end_as_if_in_order(publisher: Publisher, index: ChunkIndex):
    pages = [
        paragraphs(1, "Objeto del contrato.", heading="1 Objeto"),
        paragraphs(2, "Sigue el objeto."),
        paragraphs(3, "Duración de un año.", heading="2 Plazo"),
        paragraphs(4, "Prórroga tácita."),
    ]
    cuts, loaded = Cuts(), list[int]()
    for page in (pages[3], pages[1], pages[2], pages[0]):
        publisher.publish_page(DOCUMENT, page, cuts)
    assert found(index, "prórroga")[0].headings == ()
    finish(publisher, pages, cuts, loaded)
    assert loaded == [2, 3, 4]
    assert found(index, "prórroga")[0].headings == ("2 Plazo",)
    assert found(index, "sigue")[0].headings == ("1 Objeto",)
    assert index.count("doc-1") == 4


def test_pages_that_came_in_order_are_not_cut_again(publisher: Publisher, index: ChunkIndex):
    pages = [paragraphs(n, f"Cláusula {n}.", heading=f"{n} Título") for n in range(1, 7)]
    cuts, loaded = Cuts(), list[int]()
    for page in (pages[0], pages[1], pages[3], pages[2], pages[4], pages[5]):
        publisher.publish_page(DOCUMENT, page, cuts)
    finish(publisher, pages, cuts, loaded)
    assert loaded == [4]  # it hands on what it handed on before, so the fifth stands
    assert index.count("doc-1") == 6
    assert found(index, "cláusula 5")[0].headings == ("5 Título",)


def test_a_page_read_anew_leaves_nothing_of_its_former_reading(publisher: Publisher, index: ChunkIndex):
    publisher.publish_page(DOCUMENT, long_page(1, 6), Cuts())
    publisher.publish_page(DOCUMENT, long_page(2, 2), Cuts())
    better = [paragraphs(1, "Una sola línea bien leída."), long_page(2, 2)]
    publisher.publish_page(DOCUMENT, better[0], Cuts())
    finish(publisher, better)
    assert index.count("doc-1") == 3
    assert not [chunk for chunk in found(index, "párrafo") if chunk.page == 1]


def test_vectors_follow_in_batches_and_a_stop_is_heard(publisher: Publisher, index: ChunkIndex, counts: Counts):
    publisher.publish_page(DOCUMENT, long_page(1, 30), Cuts())
    stops = iter([False, True])
    assert publisher.embed_pending(20, lambda: next(stops)) == 8
    assert counts.noted["doc-1"] == (30, 8)
    done = 8
    while embedded := publisher.embed_pending(16):
        done += embedded
    assert done == 30
    assert counts.noted["doc-1"] == (30, 30)
    assert index.unembedded(5) == []
    assert publisher.embed_pending(16) == 0


def test_publishing_again_keeps_vectors_and_a_changed_page_gets_new_ones(publisher: Publisher, index: ChunkIndex):
    pages = [long_page(1, 3), long_page(2, 3)]
    finish(publisher, pages)
    publisher.embed_pending(100)
    finish(publisher, pages)
    assert index.unembedded(10) == []
    pages[1] = long_page(2, 2)
    pages[1] = replace(pages[1], blocks=(replace(pages[1].blocks[0], text="corregido"), pages[1].blocks[1]))
    finish(publisher, pages)
    assert {chunk.text.split()[0] for chunk in index.unembedded(10)} == {"corregido"}
    assert index.count("doc-1", embedded=True) == index.count("doc-1") - 1


def test_a_document_deleted_while_it_is_embedded_stays_deleted(index: ChunkIndex, counts: Counts):
    publisher: Publisher

    class Deleting(FakeEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
            counts.gone.add("doc-1")
            publisher.withdraw("doc-1")
            return super().embed_passages(texts)

    publisher = Publisher(counts, index, Deleting(), SETTINGS)
    publisher.publish_page(DOCUMENT, long_page(1, 4), Cuts())
    assert publisher.embed_pending(16) == 4
    assert index.count("doc-1") == 0
    assert publisher.embed_pending(16) == 0


def test_withdrawing_leaves_no_point(publisher: Publisher, index: ChunkIndex):
    publisher.publish_page(DOCUMENT, long_page(1, 4), Cuts())
    publisher.publish_page(replace(DOCUMENT, id="doc-2"), long_page(1, 4), Cuts())
    publisher.withdraw("doc-1")
    publisher.withdraw("doc-1")
    assert (index.count("doc-1"), index.count("doc-2")) == (0, 4)


def test_a_point_that_stays_is_an_error(counts: Counts, index: ChunkIndex):
    class Forgetful:
        def __getattr__(self, name: str) -> object:
            return getattr(index, name)

        def delete(self, document_id: str, keep: frozenset[str] | None = None) -> None:
            pass

    publisher = Publisher(counts, Forgetful(), FakeEmbedder(), SETTINGS)  # pyright: ignore[reportArgumentType]
    publisher.publish_page(DOCUMENT, long_page(1, 2), Cuts())
    with pytest.raises(StoreBusy, match="2 passages"):
        publisher.withdraw("doc-1")


def test_a_long_document_is_finished_in_flat_memory(publisher: Publisher, index: ChunkIndex):
    def read() -> None:
        publisher.finish_document(DOCUMENT, range(1, 401), lambda number: long_page(number, 2), Cuts())

    read()
    tracemalloc.start()
    read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.count("doc-1") == 800
    assert peak < 2e6  # the ids of 800 chunks, and one page


def test_who_counts_last_is_right_though_others_changed_the_index_meanwhile(index: ChunkIndex, counts: Counts) -> None:
    """Publishing and embedding count side by side: what was counted before the other's change is not the last word."""
    other = Publisher(counts, index, FakeEmbedder(), SETTINGS)

    class Overtaken(Counts):
        def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
            if not counts.noted:
                other.embed_pending(10)  # adds a vector and writes (1, 1), after (1, 0) was counted here
            counts.count_chunks(document_id, chunks, embedded)

    Publisher(Overtaken(), index, FakeEmbedder(), SETTINGS).publish_page(DOCUMENT, paragraphs(1, "Una sola."), Cuts())
    assert counts.noted == {DOCUMENT.id: (1, 1)}


def test_vectors_that_nobody_lived_to_count_are_counted(index: ChunkIndex, counts: Counts) -> None:
    publisher = Publisher(counts, index, FakeEmbedder(), SETTINGS)
    publisher.publish_page(DOCUMENT, paragraphs(1, "Una sola."), Cuts())
    assert counts.noted == {DOCUMENT.id: (1, 0)}
    waiting = index.unembedded(10)
    index.add_vectors(waiting, FakeEmbedder().embed_passages([chunk.searchable_text for chunk in waiting]))
    publisher.recount()
    assert counts.noted == {DOCUMENT.id: (1, 1)}
