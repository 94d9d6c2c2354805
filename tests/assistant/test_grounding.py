"""Sentences held against what they cite."""

from __future__ import annotations

import pytest

from assistant.core.domain import Chunk, Reader, Verdict
from assistant.grounding import flattened, judge
from eval.check_faithfulness import run
from tests.documents import SHARED, needs_shared

MINUTES = (
    "Acta de la reunión del 3 de marzo de 2026. Se aprueba un presupuesto de 12.400 euros para la reforma del archivo. "
    "Responsable: Lucía Ferrer. El alquiler de la sala cuesta 300 euros al mes."
)


def passage(text: str) -> Chunk:
    return Chunk("1", "d", "acta.pdf", "default", 1, 0, text, (), Reader.TEXT, 1.0)


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("Se aprueba un presupuesto de 12.400 euros para la reforma del archivo.", Verdict.QUOTED),
        ("“se aprueba un presupuesto de 12.400 euros”", Verdict.QUOTED),
        ("El presupuesto aprobado para la reforma del archivo es de 12.400 euros.", Verdict.SUPPORTED),
        ("El presupuesto aprobado para la reforma del archivo es de 99.000 euros.", Verdict.UNSUPPORTED),
        ("El presupuesto aprobado para la reforma del archivo es de 300 euros.", Verdict.UNSUPPORTED),
        ("La responsable de la reforma es Marta Ferrer.", Verdict.UNSUPPORTED),
        ("El ministro inauguró ayer un puente muy largo sobre el río.", Verdict.UNSUPPORTED),
        ("The approved budget is 12,400 euros.", Verdict.SUPPORTED),
        ("The approved budget is 13,400 euros.", Verdict.UNSUPPORTED),
        ("The meeting was held on March 3, 2026.", Verdict.SUPPORTED),
        ("The meeting was held on March 13, 2026.", Verdict.UNSUPPORTED),
    ],
)
def test_verdicts(sentence: str, verdict: Verdict) -> None:
    assert judge(sentence, [passage(MINUTES)]).verdict is verdict


def test_a_row_under_its_header_is_quoted_though_other_rows_stand_between() -> None:
    table = passage("| Country | EUR m |\n|---|---|\n| Syria | 33.42 |\n| Lebanon | 2.57 |")
    assert judge("| Country | EUR m |\n|---|---|\n| Lebanon | 2.57 |", [table]).verdict is Verdict.QUOTED
    assert judge("| Country | EUR m |\n|---|---|\n| Lebanon | 33.42 |", [table]).verdict is not Verdict.QUOTED


def test_without_a_citation_nothing_is_judged() -> None:
    assert judge("Se aprueba un presupuesto.", []).verdict is Verdict.UNCITED


def test_an_unsupported_sentence_says_what_is_wrong() -> None:
    assert judge("El presupuesto es de 99.000 euros.", [passage(MINUTES)]).against == ("number 99000",)


def test_two_sources_stand_behind_one_sentence() -> None:
    both = [passage("The rent of the flat is 950 euros."), passage("The deposit for the flat is 1,900 euros.")]
    sentence = "The rent of the flat is 950 euros and the deposit is 1,900 euros."
    assert judge(sentence, both).verdict is Verdict.SUPPORTED
    assert judge(sentence, both[:1]).verdict is Verdict.UNSUPPORTED


def test_across_languages_the_meaning_is_compared_where_an_embedder_is_given() -> None:
    unrelated = "Los gatos duermen casi todo el día en lugares cálidos."
    sentence = "The committee rejects the proposal."
    assert judge(sentence, [passage(unrelated)], likeness=lambda one, other: 0.1).verdict is Verdict.UNSUPPORTED
    assert judge(sentence, [passage(unrelated)], likeness=lambda one, other: 0.9).verdict is Verdict.SUPPORTED


def test_flattening_keeps_numbers_apart() -> None:
    assert flattened("Total: 1.250,50 €.") == "total 1.250,50 €"
    assert flattened("12.400 euros.") != flattened("12,400 euros")


@needs_shared
def test_the_rule_tells_exchanged_answers_better_than_looking_whether_they_occur() -> None:
    """Half of the answers are exchanged for another phrase of the passage, so occurrence alone is right at 0.5."""
    rows = {str(row[0]): row for row in run(SHARED).rows}
    product = next(row for name, row in rows.items() if "product" in name)
    accuracy, doubted = product[1], product[3]
    assert isinstance(accuracy, float) and accuracy > 0.65
    assert isinstance(doubted, float) and doubted < 0.1
