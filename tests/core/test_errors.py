"""One tree of errors, as its docstring draws it; each says what happened and what to do, across processes too."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest

from assistant.core import errors
from assistant.core.errors import NotFound, PeritoError, PermanentError, TransientError, UnreadableFile


def all_errors(root: type[PeritoError] = PeritoError) -> Iterator[type[PeritoError]]:
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from all_errors(child)


ALL = sorted(all_errors(), key=lambda kind: kind.__name__)
LEAVES = [kind for kind in ALL if not kind.__subclasses__()]


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn = re.findall(r"^( *)[+·]? ?([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)
    names = {name for _, name in drawn}
    assert {kind.__name__ for kind in ALL} <= names
    parents = {"+ ": PeritoError}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"( *)([+·]) ([A-Z]\w+)", line):
            indent, mark, name = found.groups()
            kind = getattr(errors, name)
            parent = parents[indent + "+ "]
            assert parent in kind.__bases__, name
            if mark == "+":
                parents[indent + "  + "] = kind


@pytest.mark.parametrize("kind", LEAVES)
def test_trying_again_helps_or_it_does_not(kind: type[PeritoError]) -> None:
    assert issubclass(kind, PermanentError) != issubclass(kind, TransientError)


def test_codes_are_the_names_in_snake_case_and_differ() -> None:
    assert NotFound("x").code == "not_found"
    assert UnreadableFile("x").code == "unreadable_file"
    codes = [kind("x").code for kind in ALL]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize(
    ("message", "advice", "said"),
    [
        ("It broke", "Mend it", "It broke. Mend it."),
        ("It broke.", "Mend it.", "It broke. Mend it."),
        ("Page 3 is damaged…", "", "Page 3 is damaged…"),
        ("It broke", "Is it plugged in?", "It broke. Is it plugged in?"),
        ("It broke", "", "It broke."),
    ],
)
def test_an_error_speaks_in_sentences(message: str, advice: str, said: str) -> None:
    assert str(NotFound(message, advice)) == said


@pytest.mark.parametrize("kind", ALL)
def test_usual_advice_stands_in_for_none(kind: type[PeritoError]) -> None:
    assert kind("It broke").advice == kind.advice_default.rstrip(".")
    assert kind("It broke", "Do this").advice == "Do this"


@pytest.mark.parametrize("kind", ALL)
def test_errors_survive_a_process_boundary(kind: type[PeritoError]) -> None:
    error = kind("Página 3 dañada", "Ask ¿quién?")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.advice, str(copy), copy.code) == (error.message, error.advice, str(error), error.code)
