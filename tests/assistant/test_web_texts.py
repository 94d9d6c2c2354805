"""What the chat says: the same things in both languages, and answers as links that can be taken back."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from assistant.core import errors
from assistant.core.domain import Answer, Box, Citation, Reader, TimeSpan
from assistant.core.errors import PeritoError
from assistant.core.shapes import CitationShape
from assistant.web import conversation
from assistant.web.boxes import PATTERN, read_boxes, write_boxes
from assistant.web.spanish import SPANISH_REASONS
from assistant.web.texts import ENGLISH, SPANISH, explain, texts_for, without_links
from compose.tables import citation_line
from tests.documents import ROOT

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
UI = ROOT / "assistant" / "web" / "ui"


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}")
    else:
        yield path, tree


def test_both_languages_say_everything_and_fill_in_the_same() -> None:
    for field in fields(ENGLISH):
        english, spanish = (
            {path: text for path, text in leaves(getattr(texts, field.name)) if not path.startswith(".sentences.")}
            for texts in (ENGLISH, SPANISH)
        )
        assert english.keys() == spanish.keys()
        for path, text in english.items():
            assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", spanish[path])), path


def test_the_pages_own_texts_are_there_in_both_languages() -> None:
    english, spanish = (
        dict(leaves(json.loads((UI / ".chainlit" / "translations" / f"{name}.json").read_text("utf-8"))))
        for name in ("en-US", "es")
    )
    assert english.keys() == spanish.keys()
    same = {path for path in english if english[path] == spanish[path]}
    assert len(same) < 8  # "Chat", "S", "Debug" …


def test_the_page_asks_for_no_label_that_is_not_there() -> None:
    for element in (UI / "public" / "elements").glob("*.jsx"):
        asked = set(re.findall(r"\blabels\.(\w+)", element.read_text("utf-8")))
        assert asked <= ENGLISH.labels.keys(), element.name


def test_nothing_in_the_page_comes_from_elsewhere() -> None:
    for file in (path for path in UI.rglob("*") if path.suffix in (".css", ".js", ".jsx", ".json", ".toml", ".md")):
        assert not re.search(r"https?://(?!www\.w3\.org)", file.read_text("utf-8")), file.name


@pytest.mark.parametrize(
    ("tag", "language"), [("es", "es"), ("es-MX", "es"), ("ES-es", "es"), ("en-GB", "en"), ("fr", "en"), (None, "en")]
)
def test_the_browsers_language_decides(tag: str | None, language: str) -> None:
    assert texts_for(tag).language == language


def kinds(kind: type[PeritoError]) -> Iterator[type[PeritoError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from kinds(child)


@pytest.mark.parametrize("kind", [kind for kind in kinds(PeritoError) if not kind.__subclasses__()])
def test_every_error_is_explained_in_a_sentence(kind: type[PeritoError]) -> None:
    error = kind("The file x.pdf is odd", "Do something about it")
    assert "x.pdf" in explain(error, ENGLISH)
    assert explain(error, SPANISH).endswith(".")
    assert "--" not in explain(kind("The file x.pdf is odd"), ENGLISH)  # nobody types options into a chat


def test_every_reason_of_a_receipt_has_its_translation() -> None:
    """The sentences of the modules that judge pages, whether they stand there whole or are put together."""
    said: set[str] = set()
    for file in [*(ROOT / "ingestion" / "triage").glob("*.py"), ROOT / "ingestion" / "readers" / "speech.py"]:
        tree = ast.parse(file.read_text("utf-8"))
        docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)}
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} - docstrings
        said |= {text for text in strings if isinstance(text, str) and re.fullmatch(r"[A-Z][^\n]+\.", text)}
    assert len(said) > 20
    assert said == set(SPANISH_REASONS)


CITED = Citation(1, "a.pdf", "abc", 3, (Box(0.1, 0.25, 0.5, 1.0),), Reader.OCR, 0.9, "quote")
PICTURE = Citation(2, "attached picture", "", 1, (Box(0, 0, 1, 1),), Reader.OCR, 0.9, "quote")


def answer(text: str, *citations: Citation) -> Answer:
    return Answer("question", text, False, (), citations)


def test_numbers_become_links_and_numbers_again() -> None:
    text = "First [1], then [2][1], and [7] is no source."
    linked = conversation.with_links(text, answer(text, CITED, PICTURE), ["picture-id"])
    assert r"[\[1\]](/api/documents/abc/pages/3/image?boxes=0.1,0.25,0.5,1)" in linked
    assert r"[\[2\]](/api/attachments/picture-id?source=2)" in linked
    assert "[7]" in linked and r"\[7\]" not in linked
    assert without_links(linked) == text


def test_numbers_that_a_quoted_text_or_a_file_name_brings_along_are_no_links() -> None:
    link = r"[\[1\]](/api/documents/abc/pages/3/image?boxes=0.1,0.25,0.5,1)"
    quotes = "Quotes:\n\n“Edgar (or Eadgar; [1] c. 944) was King. [1]” [1]\n\n“Died 975\n[1]\nat Winchester” [1]"
    quoted = replace(answer(quotes, CITED), quoted=True)
    assert conversation.with_links(quotes, quoted) == quotes.replace("” [1]", f"” {link}")
    whole = "What stands there:\n\nA note [1] and more\n\n[1]"
    quoted = replace(answer(whole, CITED), quoted=True)
    assert conversation.with_links(whole, quoted) == whole.removesuffix("[1]") + link
    nearest = "Nothing found.\n\n- a [1].pdf, page 3 [1]\n- b.pdf, page 9 [7]"
    refused = replace(answer(nearest, CITED), refused=True)
    assert conversation.with_links(nearest, refused) == nearest.replace("3 [1]", f"3 {link}")


def test_a_source_without_a_page_is_no_link() -> None:
    assert conversation.with_links("See [2].", answer("See [2].", PICTURE)) == "See [2]."
    assert conversation.source_props(answer("", CITED, PICTURE))["items"][-1]["number"] == 1


def test_a_source_of_a_recording_shows_its_time() -> None:
    said = replace(CITED, reader=Reader.SPEECH, time=TimeSpan(723.0, 761.0))
    items = conversation.source_props(answer("", said, CITED))["items"]
    assert [item["time"] for item in items] == ["12:03–12:41", ""]
    assert citation_line(CitationShape.of(said)).startswith("[1] a.pdf, 12:03–12:41 (speech, 90%)")


def test_what_was_said_is_remembered_without_links_and_not_for_ever() -> None:
    said = [("user", f"Question {n}") for n in range(20)] + [("assistant", r"So [\[1\]](/x)."), ("user", "  ")]
    kept = conversation.remembered(said)
    assert (kept[-1].role, kept[-1].text) == ("assistant", "So [1].")
    assert len(kept) == conversation.REMEMBERED_MESSAGES


def test_boxes_survive_the_way_through_a_url() -> None:
    boxes = (Box(0, 0, 1, 1), Box.of(0.12345, 0.5, 0.99999, 0.75))
    assert re.match(PATTERN, write_boxes(boxes))
    back = read_boxes(write_boxes(boxes))
    assert all(
        abs(a - b) < 1e-4 for one, other in zip(back, boxes, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_the_folder_of_the_page_holds_nothing_that_was_left_behind() -> None:
    assert not [path for path in UI.rglob("*") if path.name in (".files", "__pycache__") or path.suffix == ".pyc"]
    assert Path(UI / "public" / "logo_dark.svg").read_text().startswith("<svg")
