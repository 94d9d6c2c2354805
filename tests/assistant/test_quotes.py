"""What may be quoted."""

from __future__ import annotations

from assistant.quotes import quotable

TABLE = "| Country | EUR m |\n|---|--:|\n| Syria | 33.42 |\n| Lebanon | 2.57 |"


def test_a_row_is_quoted_under_its_header_and_compared_with_its_columns() -> None:
    syria, lebanon = quotable(TABLE)
    assert syria.text == "| Country | EUR m |\n|---|--:|\n| Syria | 33.42 |"
    assert lebanon.matched == "Country: Lebanon; EUR m: 2.57"
    assert all(line in TABLE for line in lebanon.text.split("\n"))


def test_a_table_without_a_header_gives_its_rows() -> None:
    assert [piece.text for piece in quotable("| a | b |\n| c | d |")] == ["| a | b |", "| c | d |"]


def test_sentences_stand_verbatim() -> None:
    text = "The rent is\n950 €. It is due  on the 1st."
    assert [piece.text for piece in quotable(text)] == ["The rent is\n950 €.", "It is due  on the 1st."]


def test_the_lines_of_a_receipt_stay_together_up_to_a_length() -> None:
    receipt = "Contoso\n123 Main Street\n2 Surface Pro 6 $1,998.00\nTotal $2,516.28"
    (whole,) = quotable(receipt)
    assert whole.text == receipt and not whole.is_sentence
    pieces = quotable("\n".join(f"{n} Surface Pro {n} $1,998.00" for n in range(40)))
    assert len(pieces) > 2 and all(len(piece.text) <= 350 for piece in pieces)


def test_a_heading_goes_with_its_sentence_and_a_sentence_stands_alone() -> None:
    pieces = quotable("Plazo\n\nDel 1 al 31 de enero. Otra cosa es el lugar.")
    assert [piece.text for piece in pieces] == ["Plazo\n\nDel 1 al 31 de enero.", "Otra cosa es el lugar."]


def test_text_after_a_table_is_no_row() -> None:
    assert quotable(f"{TABLE}\n\nSource: FEMIP.")[-1].text == "Source: FEMIP."
