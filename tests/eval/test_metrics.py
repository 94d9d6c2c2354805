"""Metrics, each on answers whose score is plain to see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.core.domain import Answer, Box, Citation, Reader, Sentence
from eval.cases import Case
from eval.metrics import page_hit, passage_hit, refusal
from eval.metrics.cer import Errors, errors, errors_by_line, errors_in_region, normalised
from eval.metrics.faithfulness import Faithfulness
from tests.documents import shared

LEASE = "The monthly rent of the flat in Vigo is 950 euros. The deposit is two months' rent."


def case(**values: object) -> Case:
    return Case.model_validate({"question": "How much is the rent?", **values})


def answer(*sentences: Sentence, refused: bool = False, page: int = 2, text: str = LEASE) -> Answer:
    cited = Citation(1, "lease.pdf", "d1", page, (Box(0, 0, 1, 1),), Reader.TEXT, 1.0, text)
    said = " ".join(sentence.text for sentence in sentences)
    return Answer("How much is the rent?", said, refused, sentences, (cited,))


def test_page_hit() -> None:
    known = case(file="contracts/lease.pdf", page=2)
    assert page_hit.score(known, answer()) == 1
    assert page_hit.score(known, answer(page=3)) == 0
    assert page_hit.score(known, answer(refused=True)) == 0
    assert page_hit.score(case(file="other.pdf", page=2), answer()) == 0


def test_page_hit_needs_a_page() -> None:
    assert page_hit.score(case(file="lease.pdf"), answer()) is None
    assert page_hit.score(case(file="lease.pdf", page=2, unanswerable=True), answer()) is None


def test_passage_hit() -> None:
    assert passage_hit.score(case(evidence="the flat in  Vigo is 950 euros"), answer()) == 1
    assert passage_hit.score(case(evidence="the flat in Vigo is 960 euros"), answer()) == 0
    assert passage_hit.score(case(evidence="the flat in Vigo is 950 euros"), answer(refused=True)) == 0
    assert passage_hit.score(case(), answer()) is None


def test_a_letter_misread_is_forgiven_a_digit_is_not() -> None:
    assert passage_hit.holds("The rnonthly rent of the fiat is 950 euros", "monthly rent of the flat is 950 euros")
    assert not passage_hit.holds("The monthly rent of the flat is 956 euros", "monthly rent of the flat is 950 euros")


def test_refusal() -> None:
    assert refusal.score(case(), answer()) == 1
    assert refusal.score(case(unanswerable=True), answer()) == 0
    pairs = [
        (case(unanswerable=True), answer(refused=True)),
        (case(unanswerable=True), answer()),
        (case(), answer(refused=True)),
        (case(), answer()),
        (case(), answer()),
    ]
    found = refusal.Refusals.over(pairs)
    assert (found.precision, found.recall) == (0.5, 0.5)
    assert found.answered == pytest.approx(2 / 3)
    nothing = refusal.Refusals.over([(case(), answer())])
    assert (nothing.precision, nothing.recall) == (None, None)


def test_faithfulness() -> None:
    said = (
        Sentence("The rent is 950 euros a month.", (1,)),
        Sentence("The rent is 1,200 euros a month.", (1,)),
        Sentence("The deposit is two months' rent.", (1,)),
        Sentence("Have a nice day."),
    )
    assert Faithfulness().score(case(), answer(*said)) == 0.5
    assert Faithfulness().score(case(), answer(*said, refused=True)) is None


def test_character_errors() -> None:
    assert errors("abcd", "abxd") == Errors(1, 4)
    assert errors("abcd", "abxd").rate == 0.25
    assert errors("", "abc").rate is None
    assert Errors(1, 4) + Errors(2, 6) == Errors(3, 10)


def test_what_is_no_error() -> None:
    assert normalised("“Año” – ﬁn\n\n  ſi") == '"Año" - fin si'
    assert errors("the competi-\ntive service", "the competitive service").edits == 0
    assert errors("a b c", "| a | b |\n|---|---|\n| c |").edits == 0
    assert errors("a b", "<table><tr><td>a</td><td>b</td></tr></table>").edits == 0


def test_a_part_of_a_page_is_found_in_it() -> None:
    assert errors_in_region("hello world", "before hello world after") == Errors(0, 11)
    assert errors_in_region("hello world", "before hello wurld after") == Errors(1, 11)
    assert errors_in_region("hello world", "") == Errors(11, 11)


def test_lines_in_any_order() -> None:
    assert errors_by_line(["TOTAL 12.00", "TEO HENG"], "TEO HENG\nTOTAL l2.00") == Errors(1, 19)


@given(st.text(alphabet="abc d", max_size=30), st.text(alphabet="abc d", max_size=30))
def test_a_part_is_never_worse_than_the_whole(wanted: str, read: str) -> None:
    assert errors_in_region(wanted, read).edits <= max(errors(wanted, read).edits, len(normalised(wanted)))
    assert errors_in_region(wanted, f"x {wanted} y").edits == 0


def test_a_real_reading_against_another() -> None:
    """A page's text with one letter of it exchanged has one error."""
    truth = shared("gt/text_layer/es_modelo721_p1_300dpi.png.txt").read_text("utf-8")
    assert errors(truth, truth.replace("o", "0", 1)).edits == 1
