"""Numbers, dates and names across notations and languages."""

from __future__ import annotations

import pytest

from assistant.facts import Date, FactSheet, dates, names, number_readings, numbers


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("33.007,20", {"33007.2"}),
        ("33,007.20", {"33007.2"}),
        ("1,249", {"1249", "1.249"}),
        ("2.776.284", {"2776284"}),
        ("22 527 176", {"22527176"}),
        ("0.125", {"0.125"}),
        ("007", {"7"}),
        ("3,4", {"3.4"}),
    ],
)
def test_a_number_as_written(written: str, values: set[str]) -> None:
    assert number_readings(written) == values


@pytest.mark.parametrize(
    "text",
    ["18th January, 1972", "18 de enero de 1972", "January 18, 1972", "18/01/1972", "1972-01-18", "18 January 1972"],
)
def test_one_date_in_six_notations(text: str) -> None:
    (readings,) = dates(f"Firmado el {text}.")
    assert Date(1972, 1, 18) in readings


def test_a_date_that_may_be_two() -> None:
    assert dates("04/05/2026") == [frozenset({Date(2026, 5, 4), Date(2026, 4, 5)})]


def test_words_count_as_numbers_in_both_languages() -> None:
    assert numbers("four calendar days") == numbers("cuatro días naturales")


def test_a_date_is_not_three_numbers() -> None:
    assert numbers("el 14 de mayo de 2026 pagó 12 euros") == [frozenset({"12"})]


def test_names_are_capitalised_inside_a_sentence() -> None:
    assert names("Ayer vino Ana López a Madrid. Después salió con CCNI y ES1000.") == [
        "Ana",
        "López",
        "Madrid",
        "CCNI",
        "ES1000",
    ]


@pytest.mark.parametrize(
    ("claim", "missing"),
    [
        ("The budget is 12,400 euros.", []),
        ("The budget is 14,200 euros.", ["number 14200"]),
        ("It was decided on March 3, 2026.", []),
        ("It was decided on March 4, 2026.", ["date 2026-3-4"]),
        ("The person responsible is Lucía Ferrer.", []),
        ("The person responsible is Marta Ferrer.", ["name Marta"]),
    ],
)
def test_what_a_claim_says_that_its_source_does_not(claim: str, missing: list[str]) -> None:
    source = FactSheet(
        "Acta de la reunión del 3 de marzo de 2026. Se aprueba un presupuesto de 12.400 euros. "
        "Responsable: Lucía Ferrer."
    )
    assert source.missing(claim) == missing


def test_names_may_be_spelt_otherwise_in_another_language() -> None:
    source = FactSheet("Syria received EUR 33.42 m")
    assert source.missing("El país es Siria.") == ["name Siria"]
    assert source.missing("El país es Siria.", other_language=True) == []
