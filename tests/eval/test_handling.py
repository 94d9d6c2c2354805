"""Expectations as sentences, held against outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assistant.core.domain import Reader
from eval.handling import Expected, Outcome, PageOutcome, differences, expectations
from tests.documents import shared


def page(reader: Reader, status: str = "read") -> PageOutcome:
    return PageOutcome(1, reader, status, "why")


TEXT = Outcome("complete", pages=[page(Reader.TEXT)], text="Año: 2026.\n| Peña | 1.250,50 |")
OCR = Outcome("complete", pages=[page(Reader.OCR)])
BLANK = Outcome("complete", pages=[page(Reader.NONE, "blank")])
EMPTY = Outcome("refused", "It is empty.", "empty_file")
LOCKED = Outcome("refused", "It is locked.", "encrypted_file")
BROKEN = Outcome("failed", "Page 1 cannot be read.", pages=[page(Reader.NONE, "failed")])


@pytest.mark.parametrize(
    ("sentence", "right", "wrong"),
    [
        ("refuse: empty file", [EMPTY, BROKEN], [TEXT]),
        ("ask for a password (it is: test)", [LOCKED], [EMPTY, TEXT]),
        ("refuse: encrypted", [LOCKED], [EMPTY]),
        ("read or refuse; no crash", [TEXT, BROKEN], []),
        ("open; no crash", [TEXT], [BROKEN]),
        ("no crash", [TEXT, BROKEN], []),
        ("one blank page, no text", [BLANK], [TEXT, EMPTY]),
        ("decode: Año: 2026.", [TEXT], [OCR]),
        ("2 rows, Año 2026, Peña 1250.50", [TEXT], [OCR]),
        ("text layer is unusable: send to OCR", [OCR], [TEXT]),
        ("76 pages or a clear refusal", [EMPTY], [TEXT]),
        ("1 page with text", [TEXT], [EMPTY]),
        ("refuse or stop at a limit", [EMPTY, replace(TEXT, within=["b.zip: It is too large."])], [TEXT]),
        ("say that it is locked", [LOCKED], [TEXT, EMPTY]),
    ],
)
def test_a_sentence_says_what_is_right(sentence: str, right: list[Outcome], wrong: list[Outcome]) -> None:
    expected = Expected("a.pdf", "broken_or_hostile", sentence)
    assert [differences(expected, outcome) for outcome in right] == [[] for _ in right]
    assert all(differences(expected, outcome) for outcome in wrong)


def test_other_files_are_read_whole_by_the_reader_a_person_chose() -> None:
    assert differences(Expected("a.pdf", "forms", routes="text|vlm"), TEXT) == []
    assert differences(Expected("a.pdf", "forms", routes="ocr"), TEXT) == ["page 1 by text"]
    assert differences(Expected("a.docx", "office"), TEXT) == []
    assert differences(Expected("a.docx", "office"), EMPTY) == ["refused"]


def test_the_reason_is_the_outcomes_own() -> None:
    assert (EMPTY.reason, TEXT.reason) == ("It is empty.", "why")


def test_the_folders_own_tables_are_read() -> None:
    found = {one.file: one for one in expectations(shared("manifest.open.tsv").parent)}
    assert len(found) == 245
    assert found["broken_or_hostile/zero_byte.pdf"].said == "refuse: empty file"
    assert found["scan_clean/linn.png"].said.startswith("page 1 by ")
