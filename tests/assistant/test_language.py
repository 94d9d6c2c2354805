"""Which language a question is in, and which of its words count."""

from __future__ import annotations

import json

import pytest

from assistant.language import content_words, detect_language, fold, root
from tests.documents import shared


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("¿En qué plazo debe presentarse?", "es"),
        ("cuanto costo la harina de almendra", "es"),
        ("Resumen del documento", "es"),
        ("¿Total?", "es"),
        ("What is Modelo 190?", "en"),
        ("how much is the IVA", "en"),
        ("balance", "en"),
        ("1234", "en"),
    ],
)
def test_the_language_of_short_questions(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_the_language_of_real_questions() -> None:
    """1,612 questions of XQuAD, asked in both languages."""
    lines = shared("datasets/xquad/questions.open.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    wrong = [q["question"] for q in questions if detect_language(q["question"]) != q["lang"]]
    assert len(wrong) <= 0.005 * len(questions), wrong


def test_without_a_sign_the_conversation_decides() -> None:
    assert detect_language("2024?", default="es") == "es"


def test_words_are_compared_without_accents_and_endings() -> None:
    assert fold("Ñandú ÁRBOL") == "nandu arbol"
    assert root(fold("presentación")) == root(fold("presentarse"))
    assert root("payments") == root("payment")
    assert root("33.007,20") == "33.007,20"


def test_content_words_leave_out_what_every_sentence_has() -> None:
    assert content_words("¿Cuál es el importe de la factura 12-B?") == ["importe", "factura", "12-b"]
