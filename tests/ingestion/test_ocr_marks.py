"""¡ and ¿ come back where Spanish has them, and nowhere else."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ingestion.readers.lines import Line, quad_of
from ingestion.readers.spanish import is_spanish, restore_marks, with_opening_marks
from tests.documents import shared


@pytest.mark.parametrize(
    ("read", "right"),
    [
        ("iHola, mundo!", "¡Hola, mundo!"),
        ("!Qué bien!", "¡Qué bien!"),
        ("jCuidado! Hay un escalón.", "¡Cuidado! Hay un escalón."),
        ("Hola, mundo!", "¡Hola, mundo!"),
        ("No lo sé. iMira eso! Es de la casa.", "No lo sé. ¡Mira eso! Es de la casa."),
        ("¡Hola!", "¡Hola!"),
        ("¿Cómo está?", "¿Cómo está?"),
        ("Cómo está usted?", "¿Cómo está usted?"),
        ("?Dónde vive?", "¿Dónde vive?"),
        ("Si no viene, cuándo lo hará?", "Si no viene, ¿cuándo lo hará?"),
        ("El iPhone no es para mí!", "¡El iPhone no es para mí!"),
        ("iPhone 15 nuevo!", "iPhone 15 nuevo!"),  # no misread mark
        ("de los que vinieron?", "de los que vinieron?"),  # its beginning stands on another line
        ("a != b, 5! = 120", "a != b, 5! = 120"),
        ("IMPORTANTE", "IMPORTANTE"),
    ],
)
def test_marks_are_restored_from_their_pair(read: str, right: str) -> None:
    assert restore_marks(read) == right


def test_other_languages_are_left_alone() -> None:
    lines = [Line("What a day! Who knows?", 0.9, quad_of(0, 0, 9, 9)), Line("iMac on sale!", 0.9, quad_of(0, 9, 9, 18))]
    assert [line.text for line in with_opening_marks(lines)] == [line.text for line in lines]


def test_spanish_is_told_from_other_languages_on_real_paragraphs() -> None:
    rows = [json.loads(row) for row in shared("datasets/xquad/passages.open.jsonl").read_text("utf-8").splitlines()]
    language = next(key for key in ("lang", "language") if key in rows[0])
    text = next(key for key in ("text", "passage", "context") if key in rows[0])
    right = [is_spanish(row[text]) == (row[language] == "es") for row in rows]
    assert np.mean(right) > 0.99


def test_a_sentence_over_two_lines_is_opened_once() -> None:
    texts = ["En la plaza de la villa: ¡Qué lástima que", "Madrid quede tan lejos de la costa!", "Hasta pronto!"]
    lines = [Line(text, 0.9, quad_of(0, 10 * i, 90, 10 * i + 9)) for i, text in enumerate(texts)]
    assert [line.text for line in with_opening_marks(lines)] == [*texts[:2], "¡Hasta pronto!"]
