"""From a question to passages: what is repeated goes, what adjoins is joined, what is forbidden is not seen."""

from __future__ import annotations

from dataclasses import replace

from assistant.core.domain import Access, BlockKind, Hit
from assistant.core.settings import RetrievalSettings
from assistant.retrieval import Retriever, joined, without_repetitions
from tests.fakes import EVERYONE, FakeCatalogue, FakeEmbedder, FakeIndex, FakeIngestion

LEASE = (
    "The rent of the flat in Vigo is 950 euros a month.\n\nIt is paid on the first day of each month.\n\n"
    "The deposit is two months.\n\nCats are not allowed."
)


def library(*texts: str, collection: str = "default") -> FakeIngestion:
    ingestion = FakeIngestion(FakeCatalogue(), FakeIndex())
    for number, text in enumerate(texts):
        ingestion.add(text, f"document-{number}.txt", collection)
    return ingestion


def retriever(ingestion: FakeIngestion, limit: int = 12) -> Retriever:
    return Retriever(ingestion.index, FakeEmbedder(), RetrievalSettings(limit=limit, sources=6))


def hits_of(ingestion: FakeIngestion) -> list[Hit]:
    return [Hit(chunk, 1.0 / n, dense=0.5) for n, chunk in enumerate(ingestion.index.stored.values(), start=1)]


async def test_the_passage_that_answers_comes_first() -> None:
    found = await retriever(library(LEASE, "Bees collect nectar.\n\nThey make honey.")).find(
        "How much is the rent in Vigo?", EVERYONE
    )
    assert "950 euros" in found.hits[0].chunk.text
    assert len(found.vector) == FakeEmbedder.dimension


async def test_what_may_not_be_seen_is_not_found() -> None:
    ingestion = library(LEASE, collection="secret")
    found = await retriever(ingestion).find("How much is the rent?", Access("eve", frozenset({"default"})))
    assert found.hits == ()
    nobody = await retriever(ingestion).find("How much is the rent?", Access("eve"))
    assert nobody.hits == ()


def test_a_copy_is_shown_once_but_forms_that_differ_in_a_number_both() -> None:
    text = "Invoice of the supplier Acme for the month of May, total amount of 1.250 euros payable in thirty days"
    ingestion = library(text, text.replace("1.250", "1.450"))
    ingestion.add(text + ".", "copy.txt")
    kept = without_repetitions(hits_of(ingestion))
    assert [hit.chunk.document for hit in kept] == ["document-0.txt", "document-1.txt"]


def test_neighbours_become_one_passage_with_both_places() -> None:
    first, second, *_ = hits_of(library(LEASE))
    (passage,) = joined([second, first])
    assert passage.chunk.text == f"{first.chunk.text}\n\n{second.chunk.text}"
    assert passage.chunk.anchors == first.chunk.anchors + second.chunk.anchors
    assert passage.chunk.id == second.chunk.id
    assert passage.score == second.score


def test_a_table_is_not_joined_to_its_neighbour() -> None:
    first, second, *_ = hits_of(library(LEASE))
    table = replace(second, chunk=replace(second.chunk, kind=BlockKind.TABLE))
    assert len(joined([first, table])) == 2


def test_passages_of_other_pages_stay_apart() -> None:
    first, second = hits_of(library("On the first page.\fOn the second page."))
    assert len(joined([first, second])) == 2


async def test_context_comes_from_the_same_page_only() -> None:
    ingestion = library("One.\n\nTwo.\n\nThree.\fFour.")
    two = next(hit for hit in hits_of(ingestion) if hit.chunk.text == "Two.")
    (wide,) = await retriever(ingestion).widened([two], EVERYONE)
    assert wide.chunk.text == "One.\n\nTwo.\n\nThree."
    three = next(hit for hit in hits_of(ingestion) if hit.chunk.text == "Three.")
    (edge,) = await retriever(ingestion).widened([three], EVERYONE)
    assert edge.chunk.text == "Two.\n\nThree."
