"""Questions made ready to search for."""

from __future__ import annotations

import pytest

from assistant.core.errors import BadRequest
from assistant.core.ports import Message
from assistant.language import content_words
from assistant.question import MAX_CHARACTERS, Courtesy, understand


@pytest.mark.parametrize("text", ["", "   ", "???", "\u200b\u202e"])
def test_nothing_to_ask(text: str) -> None:
    with pytest.raises(BadRequest):
        understand(text)


def test_far_too_long() -> None:
    with pytest.raises(BadRequest, match="4,000"):
        understand("a" * (MAX_CHARACTERS + 1))


def test_blanks_and_invisible_characters_go() -> None:
    assert understand("  ¿Qué\u200b  dice?\n").text == "¿Qué dice?"


def test_a_follow_up_borrows_the_words_of_the_turn_before() -> None:
    history = [
        Message("user", "How much was the rent in February?"),
        Message("assistant", "It was 950 €."),
    ]
    question = understand("and for March?", history)
    assert question.is_follow_up
    assert {"march", "rent", "february"} <= set(question.search.casefold().replace("?", "").split())


def test_follow_ups_of_follow_ups_reach_back_to_a_whole_question() -> None:
    history = [Message("user", "¿Cuál fue el importe de la factura de Iberdrola?"), Message("user", "¿y en mayo?")]
    assert "iberdrola" in understand("¿y en junio?", history).search
    assert understand("¿y en junio?", history).language == "es"


def test_a_long_conversation_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def counted(text: str) -> list[str]:
        nonlocal read
        read += len(text)
        return content_words(text)

    monkeypatch.setattr("assistant.question.content_words", counted)
    history = [Message("user", "¿y? " + "a " * 50_000)] * 50
    assert understand("¿y en junio?", history).is_follow_up is False
    assert read <= 3 * 20 * MAX_CHARACTERS


@pytest.mark.parametrize(
    "text", ["When was the contract with Acme signed in Vigo?", "¿Qué modelo declara los arrendamientos urbanos?"]
)
def test_a_whole_question_stays_itself(text: str) -> None:
    assert understand(text, [Message("user", "How much is the rent?")]).search == text


def test_the_first_turn_has_nothing_to_lean_on() -> None:
    assert understand("and for March?").search == "and for March?"


@pytest.mark.parametrize("text", ["Hola", "¡Hola, Perito!", "hola, buenos días", "Good morning.", "hi"])
def test_a_greeting_asks_for_nothing(text: str) -> None:
    assert understand(text).courtesy is Courtesy.GREETING


@pytest.mark.parametrize("text", ["gracias", "¡Muchas gracias!", "ok, thanks", "Thank you very much."])
def test_thanks_ask_for_nothing(text: str) -> None:
    assert understand(text).courtesy is Courtesy.THANKS


@pytest.mark.parametrize(
    "text", ["Hola, ¿cuánto es la renta?", "good", "Who is greeted with hello?", "¿Quién da las gracias?", "Perito"]
)
def test_what_is_asked_politely_is_a_question(text: str) -> None:
    assert understand(text).courtesy is None


def test_a_follow_up_leans_on_the_question_before_the_thanks() -> None:
    history = [Message("user", "What did Iberdrola earn in May?"), Message("assistant", "…"), Message("user", "thanks")]
    assert "iberdrola" in understand("and in June?", history).search
