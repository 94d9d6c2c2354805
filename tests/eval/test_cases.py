"""Evaluation cases from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.core.errors import BadRequest, NotFound
from eval.cases import Case, load_cases
from tests.documents import shared


def test_the_public_set_is_read_as_it_is() -> None:
    cases = load_cases(shared("datasets/doc_qa.open.jsonl"))
    assert len(cases) == 35
    first = cases[0]
    assert (first.id, first.document, first.page) == ("docqa-008", "es_aeat_modelo190_instrucciones.pdf", 4)
    assert first.evidence.startswith("en el plazo comprendido")
    assert not first.unanswerable


def test_yaml_with_and_without_a_head(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- question: How much?\n  file: x/lease.pdf\n  page: 2\n  answer: 950\n")
    (tmp_path / "b.yml").write_text("cases:\n  - question: ¿Cuánto?\n    unanswerable: true\n")
    one, two = load_cases(tmp_path)
    assert (one.document, one.page, one.answer, one.id) == ("lease.pdf", 2, "950", "case-1")
    assert two.unanswerable and two.document == ""


@pytest.mark.parametrize("mark", ['"answer_kind": "unanswerable"', '"answerable": false', '"unanswerable": true'])
def test_marks_of_what_has_no_answer(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f'{{"question": "Who?", "answer": null, {mark}}}\n')
    assert load_cases(file)[0].unanswerable


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", '{"question": "Who?"}\n{"quest": "Who?"}\n', "Case 2"),
        ("a.jsonl", "not json\n", "cannot be read"),
        ("a.yaml", "a: [1", "cannot be read"),
        ("a.yaml", "cases: text\n", "no list"),
        ("a.jsonl", "", "no cases"),
        ("a.jsonl", '{"question": "Who?", "page": 0}\n', "page"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=says):
        load_cases(tmp_path / name)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_cases(tmp_path / "none.jsonl")


def test_a_case_is_its_question_at_least() -> None:
    assert Case(question="Who?").document == ""  # pyright: ignore[reportCallIssue]
