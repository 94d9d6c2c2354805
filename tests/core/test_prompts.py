"""Prompt files: all there, strictly rendered, told apart by their hash."""

from __future__ import annotations

import hashlib
from importlib import resources

import pytest

from assistant.core.errors import Misconfigured
from assistant.core.prompts import Prompt, load_prompt

ANSWER = {"question", "sources", "language"}


@pytest.mark.parametrize(
    ("name", "variables"),
    [("answer", ANSWER), ("answer_picture", ANSWER), ("read_page", set[str]()), ("read_region", set[str]())],
)
def test_every_prompt_has_the_variables_its_user_fills(name: str, variables: set[str]) -> None:
    prompt = load_prompt(name)
    assert prompt.variables == variables
    text = prompt.render(**{variable: f"<{variable}>" for variable in variables})
    assert "{{" not in text
    assert all(f"<{variable}>" in text for variable in variables)


def test_no_prompt_file_is_left_out_above() -> None:
    files = {file.name for file in resources.files("prompts").iterdir() if file.name.endswith(".md")}
    assert files == {"README.md", "answer.md", "answer_picture.md", "read_page.md", "read_region.md"}


def test_missing_and_unknown_variables_are_errors_that_name_them() -> None:
    with pytest.raises(Misconfigured, match="answer is missing language, sources and knows no sorces"):
        load_prompt("answer").render(question="?", sorces="")


def test_what_is_filled_in_is_not_rendered_again() -> None:
    prompt = Prompt("p", "{{ question }} / {{sources}}")
    assert prompt.render(question="{{ sources }}", sources=r"\1 {{ question }}") == r"{{ sources }} / \1 {{ question }}"


def test_the_hash_follows_the_text() -> None:
    file = resources.files("prompts") / "answer.md"
    expected = hashlib.sha256(file.read_text("utf-8").strip().encode()).hexdigest()
    assert load_prompt("answer").hash == expected[:12]
    assert Prompt("p", "a").hash != Prompt("p", "b").hash


@pytest.mark.parametrize("name", ["nothing", "../pyproject", "README", ""])
def test_what_is_no_prompt_is_refused(name: str) -> None:
    with pytest.raises(Misconfigured, match="no prompt"):
        load_prompt(name)
