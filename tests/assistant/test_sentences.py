"""Where sentences end."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.sentences import sentence_spans, sentences
from tests.documents import shared


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("El Sr. Pérez pagó 1.250,50 € el 3 de enero. Nadie lo vio.", 2),
        ("P. J. Cross signed it. He left at 5 p.m.", 2),
        ("See fig. 3 and art. 5 of No. 12.", 1),
        ("¿Quién firma? ¡Nadie! Fin…", 3),
        ("Sociedad Anónima S.A. con domicilio en la Avda. de América.", 1),
        ("Version 3.2.1 is at www.example.org today.", 1),
        ('He said "Go!" Then he left.', 2),
    ],
)
def test_stops_that_end_a_sentence_and_stops_that_do_not(text: str, expected: int) -> None:
    assert len(sentences(text)) == expected


def test_blocks_end_sentences_without_a_stop() -> None:
    text = "# Plazos\n\nDel 1 al 31\n- por Internet\n- en papel\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    assert sentences(text) == ["Plazos", "Del 1 al 31", "por Internet", "en papel", "| a | b |", "| 1 | 2 |"]


def test_a_wrapped_line_does_not_end_a_sentence() -> None:
    assert sentences("The rent is due\non the first day. It is 950 €.") == [
        "The rent is due\non the first day.",
        "It is 950 €.",
    ]


@given(st.text(alphabet=st.sampled_from("ab A.!?\n-#|1,¿"), max_size=80))
def test_spans_are_verbatim_in_order_and_lose_no_word(text: str) -> None:
    spans = sentence_spans(text)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    kept = sum(character.isalpha() for span in spans for character in text[span.start : span.end])
    assert kept == sum(character.isalpha() for character in text)


def test_an_answer_is_rarely_torn_apart() -> None:
    """Of XQuAD's answers, which stand verbatim in one sentence as people see it."""
    folder = shared("datasets/xquad")
    passages = {p["id"]: p["text"] for p in map(json.loads, (folder / "passages.open.jsonl").read_text().splitlines())}
    questions = list(map(json.loads, (folder / "questions.open.jsonl").read_text().splitlines()))
    cut = {passage_id: sentences(text) for passage_id, text in passages.items()}
    torn = [q for q in questions if not any(q["answer"] in sentence for sentence in cut[q["passage"]])]
    assert len(torn) <= 0.01 * len(questions), [q["answer"] for q in torn]
