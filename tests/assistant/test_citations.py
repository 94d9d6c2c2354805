"""Citations in a model's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.citations import CitationStream, cited_sentences, numbers_cited


def streamed(text: str, sources: int, sizes: list[int] | None = None) -> tuple[str, list[int]]:
    stream = CitationStream(sources)
    shown, position = "", 0
    for size in [*(sizes or []), len(text)]:
        shown += stream.feed(text[position : position + size])
        position += size
    return shown + stream.finish(), stream.order


@pytest.mark.parametrize(
    ("text", "shown", "order"),
    [
        ("It is 950 € [2].", "It is 950 € [1].", [2]),
        ("Both [3][1] agree [3].", "Both [1][2] agree [1].", [3, 1]),
        ("A list [1, 3].", "A list [1][2].", [1, 3]),
        ("A range [1-3].", "A range [1][2][3].", [1, 2, 3]),
        ("Full width 【2】 and ［1］.", "Full width [1] and [2].", [2, 1]),
        ("With a mark 【3†source】.", "With a mark [1].", [3]),
        ("In words [Source 2] [fuente 1].", "In words [1] [2].", [2, 1]),
        ("[1 and 2] [3 y 1]", "[1][2] [3][1]", [1, 2, 3]),
        ("No such source [7].", "No such source.", []),
        ("One of them [7, 2].", "One of them [1].", [2]),
        ("None at all [0].", "None at all.", []),
        ("Other brackets [sic] [2024] [a] stay.", "Other brackets [sic] [2024] [a] stay.", []),
        ("An open one [2", "An open one [2", []),
    ],
)
def test_notations_models_use(text: str, shown: str, order: list[int]) -> None:
    assert streamed(text, 3) == (shown, order)


@given(st.lists(st.integers(1, 7), max_size=60))
def test_pieces_of_any_size_show_the_same(sizes: list[int]) -> None:
    text = (
        "The rent [2] is. Signed [1, 3] [9] twice. Bogus [12]. 【2-3†x】 and [Source 1] [sic] [20 24. [3]\nEnd [ 1 ]."
    )
    assert streamed(text, 3, sizes) == streamed(text, 3)


def test_a_number_that_is_no_source_is_never_shown_while_streaming() -> None:
    stream = CitationStream(2)
    shown = [stream.feed(piece) for piece in ["It is so", " [", "1", "4", "]", "."]]
    assert not any("[" in piece for piece in shown)
    assert "".join(shown) + stream.finish() == "It is so."


def test_a_long_range_is_no_range() -> None:
    assert numbers_cited("1-99") == [1, 99]


def test_a_citation_belongs_to_the_sentence_it_stands_in_or_follows() -> None:
    found = cited_sentences("First [1]. Second. [2] Third [1][3].\n\n- An item [2]\n- Another")
    assert [(s.text, s.numbers) for s in found] == [
        ("First.", (1,)),
        ("Second.", (2,)),
        ("Third.", (1, 3)),
        ("An item", (2,)),
        ("Another", ()),
    ]
