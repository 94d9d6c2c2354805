"""Which sentences answer, and whether any does: with the real embedder."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest

from assistant.core.domain import Chunk, Hit, Reader
from assistant.evidence import RELEVANT, Evidence, Yardstick
from assistant.matching import Asked, wanted_kind
from tests.assistant.test_answering import embedder, weigher
from tests.documents import shared
from tests.fakes import FakeEmbedder


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("¿Cuántos diputados hay?", "number"),
        ("How much is the rent?", "number"),
        ("When was it signed?", "date"),
        ("¿En qué plazo se presenta?", "date"),
        ("Who signs?", "name"),
        ("¿Dónde está?", "name"),
        ("What is a lease?", ""),
    ],
)
def test_what_a_question_wants(question: str, kind: str) -> None:
    assert wanted_kind(question) == kind


def test_what_the_question_names_itself_is_no_answer() -> None:
    asked = Asked.of("How many people signed Agreement 12?", [])
    assert not asked.is_held_by("Agreement 12 is about ports.")
    assert asked.is_held_by("Agreement 12 was signed by four people.")
    assert not asked.learns_from("Agreement 12")


def test_rare_words_weigh_more() -> None:
    asked = Asked.of("rent in Vigo", ["the rent is high", "the rent is low", "a flat in Vigo"])
    assert asked.weights["vigo"] > asked.weights["rent"]
    assert asked.coverage(frozenset({"vigo"})) > 0.5


def test_the_yardstick_puts_embedders_on_one_scale() -> None:
    """Unrelated texts lie about 0, answers about 1, for an embedder that spreads from 0.75 to 0.9 and for one that
    spreads from 0 to 1."""
    for model in (embedder(), FakeEmbedder()):
        yardstick = Yardstick.of(model)
        question = "When was the house in Vigo sold?"
        scale = yardstick.for_question(model.embed_query(question))

        def likeness(text: str) -> float:
            vector = model.embed_passages([text])[0]  # noqa: B023 - called at once
            return scale(sum(a * b for a, b in zip(model.embed_query(question), vector, strict=True)))  # noqa: B023

        assert likeness("The house in Vigo was sold in May.") > 0.7
        assert abs(likeness("Water boils at one hundred degrees.")) < 0.5


async def weighed(question: str, passages: list[tuple[str, str]]) -> tuple[Evidence, list[str]]:
    vector = embedder().embed_query(question)
    hits = [
        Hit(_chunk(name, text), 1.0, dense=sum(a * b for a, b in zip(vector, v, strict=True)))
        for (name, text), v in zip(passages, (passage_vector(text) for _, text in passages), strict=True)
    ]
    hits.sort(key=lambda hit: -(hit.dense or 0))
    return await weigher().weigh(question, vector, hits), [hit.chunk.document_id for hit in hits]


@lru_cache
def passage_vector(text: str) -> list[float]:
    return embedder().embed_passages([text])[0]


def _chunk(name: str, text: str) -> Chunk:
    return Chunk(name, name, name, "default", 1, 0, text, (), Reader.TEXT, 1.0)


async def test_public_questions_with_and_without_their_paragraph() -> None:
    """Six questions of an article the weights were not fitted on, with its paragraphs in the same language: answered
    from the right one; over another article's paragraphs: refused."""
    folder = shared("datasets/xquad")
    passages = [json.loads(line) for line in (folder / "passages.open.jsonl").read_text().splitlines()]
    questions = [json.loads(line) for line in (folder / "questions.open.jsonl").read_text().splitlines()]
    titles = sorted({p["title"] for p in passages})
    article, other = titles[1], titles[3]
    for language in ("es", "en"):
        own = [(p["id"], p["text"]) for p in passages if p["title"] == article and p["lang"] == language][:2]
        foreign = [(p["id"], p["text"]) for p in passages if p["title"] == other and p["lang"] == language][:2]
        asked = [q for q in questions if q["passage"] in dict(own)][:3]
        right = refused = 0
        for q in asked:
            evidence, order = await weighed(q["question"], own)
            right += evidence.is_relevant and order[evidence.quotes[0].source] == q["passage"]
            refused += not (await weighed(q["question"], foreign))[0].is_relevant
        assert right >= 2, (language, right)
        assert refused == 3, (language, refused)


async def test_nothing_is_no_evidence() -> None:
    evidence, _ = await weighed("How much is the rent?", [])
    assert not evidence.is_relevant and not evidence.is_worth_asking
    assert evidence.best == [] and evidence.order(3) == [0, 1, 2]


async def test_quotes_come_best_first_and_do_not_repeat() -> None:
    text = "The rent is 950 euros. The rent is 950 euros. The rent is due on the first day. Cats sleep a lot."
    evidence, _ = await weighed("How much is the rent?", [("a", text)])
    scores = [quote.score for quote in evidence.quotes]
    assert scores == sorted(scores, reverse=True)
    assert [quote.text for quote in evidence.best].count("The rent is 950 euros.") == 1
    assert evidence.score >= RELEVANT


async def test_a_row_is_read_under_its_documents_title() -> None:
    """SROIE receipt 004 (truth: gt/sroie/004.json): "receipt" stands in the file's name only, the total in a row."""
    rows = "| item | RM |\n| --- | --- |\n| WHISTLE KEY RING | 3.80 |\n| TOTAL | 30.90 |\n| CASH | 50.90 |"
    for question, row in (
        ("How much was the total on the receipt?", "30.90"),
        ("What was the cash on the receipt?", "50.90"),
    ):
        vector = embedder().embed_query(question)
        chunk = Chunk("c", "d", "receipt.jpg", "default", 1, 0, rows, (), Reader.OCR, 0.9)
        similar = sum(a * b for a, b in zip(vector, embedder().embed_passages([rows])[0], strict=True))
        evidence = await weigher().weigh(question, vector, [Hit(chunk, 1.0, similar, 2.0)])
        assert evidence.is_relevant
        assert row in evidence.best[0].text


MAIL = "From: Ana Ruiz\nTo: Luis Vega\nSubject: the flat in Calle Mayor\n\nThe rent of the flat is 950 euros a month."


async def test_lines_above_a_sentence_are_shown_only_where_they_answer_too() -> None:
    evidence, _ = await weighed("How much is the rent of the flat?", [("a", MAIL)])
    assert evidence.best[0].text == "The rent of the flat is 950 euros a month."
    evidence, _ = await weighed("In which street is the flat of Ana Ruiz?", [("a", MAIL)])
    assert "Calle Mayor" in evidence.best[0].text and evidence.best[0].text.startswith("From: Ana Ruiz")
