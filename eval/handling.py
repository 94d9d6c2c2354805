"""What a good reader does with each file of a folder of real documents, and whether ours did.

Two columns of the folder's own tables are held against an outcome: ``gt/expected_handling*.tsv`` says in a sentence
what becomes of a broken or hostile file; ``triage_p1`` of ``manifest*.tsv`` is a person's judgement which reader the
first page is for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assistant.core.domain import Reader

# Readers that may have read a page which a person gave to another: without a VLM, what is for it is read by OCR.
ROUTES = {
    "text": {Reader.TEXT, Reader.MIXED},
    "text+fields": {Reader.TEXT, Reader.MIXED},
    "text+vlm": {Reader.TEXT, Reader.MIXED},
    "ocr": {Reader.OCR},
    "vlm": {Reader.OCR},  # the VLM comes after OCR was judged
    "none": {Reader.NONE, Reader.OCR},
}
REFUSALS = re.compile(r"^no crash|^say that|refus|skip|no content|password|encrypt|cannot be read")
LOCKED = re.compile(r"password|encrypt")


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one file, by its path in the folder. ``sentence`` or ``routes`` (joined by "|") may be empty."""

    file: str
    kind: str
    sentence: str = ""
    routes: str = ""

    @property
    def said(self) -> str:
        return self.sentence or (f"page 1 by {self.routes}" if self.routes else "read")


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """A page as it ended. ``reason`` is its error, or the deciding sentence of its receipt."""

    number: int
    reader: Reader
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file: ``status`` of its document, or "refused"; ``code`` of the refusal; ``text`` of all
    pages, where somebody looked; ``within``: what is wrong with documents that were found in it."""

    status: str
    error: str = ""
    code: str = ""
    pages: Sequence[PageOutcome] = ()
    text: str = ""
    within: Sequence[str] = ()

    @property
    def refused(self) -> bool:
        """Nothing of it can be found, and it says why."""
        return self.status in ("refused", "failed") and bool(self.error)

    @property
    def reason(self) -> str:
        """Why it ended so, in its own words."""
        receipts = [page.reason for page in self.pages if page.reason]
        return " ".join([self.error, *self.within]).strip() or next(iter(receipts), "")


def expectations(folder: Path) -> list[Expected]:
    """One for each document of the manifest that is there, in its order."""
    sentences = {row["file"]: row["expected"] for row in _rows(folder, "gt/expected_handling*.tsv")}
    found: list[Expected] = []
    for row in _rows(folder, "manifest*.tsv"):
        file, routes = row["file"], row["triage_p1"].strip().strip("-")
        if not file.startswith("datasets/") and (folder / file).is_file():
            found.append(Expected(file, row["kind"], sentences.get(file, ""), routes))
    return found


def differences(expected: Expected, outcome: Outcome) -> list[str]:
    """What came out otherwise, in words; nothing where all is as expected."""
    if expected.sentence:
        return _from_sentence(expected.sentence, outcome)
    if outcome.status != "complete":
        return [outcome.status]
    first = next((page.reader for page in outcome.pages if page.number == 1), Reader.NONE)
    wanted = set[Reader]().union(*(ROUTES[label] for label in expected.routes.split("|") if label))
    return [f"page 1 by {first}"] if wanted and first not in wanted else []


def _from_sentence(sentence: str, outcome: Outcome) -> list[str]:
    if (named := re.search(r"say that .*? is (?:an )?(\w+)", sentence)) and named[1] not in outcome.error:
        return [f"does not say: {named[1]}"]
    if outcome.refused:
        if not REFUSALS.search(sentence):
            return ["not read"]
        locked = outcome.code == "encrypted_file"
        return ["refused, but not for being locked"] if LOCKED.search(sentence) and not locked else []
    if sentence.startswith(("refuse", "ask for a password")) and " or " not in sentence:
        return ["read"]
    return [what for what, holds in _demands(sentence) if not holds(outcome)]


def _demands(sentence: str) -> Iterator[tuple[str, Callable[[Outcome], bool]]]:
    """What a sentence asks of a file that is read: how it is called where it does not hold, and whether it does."""
    for words in _words(sentence):
        yield f"without “{words}”", lambda outcome, words=words: _letters(words) in _letters(outcome.text)
    if "blank" in sentence:
        yield "not blank", lambda outcome: all(page.status == "blank" for page in outcome.pages)
    if count := re.search(r"(\d+) pages?\b", sentence):
        yield f"not {count[0]}", lambda outcome, count=int(count[1]): len(outcome.pages) == count
    if "OCR" in sentence or "do not index" in sentence:
        untrusting = {Reader.OCR, Reader.NONE}
        yield "its text layer was believed", lambda outcome: {page.reader for page in outcome.pages} <= untrusting
    if "limit" in sentence:
        yield "says nothing of what was left out", lambda outcome: bool(outcome.error or outcome.within)


def _words(sentence: str) -> list[str]:
    """What has to stand in the text."""
    quoted = [part for text in re.findall(r'"([^"]+)"', sentence) for part in text.split(" / ")]
    decoded = re.findall(r"^decode: (.+)$", sentence)
    answered = re.findall(r"^answer (.+?)(?: with|;)", sentence)
    rows = [row for text in re.findall(r"^\d+ rows, (.+)$", sentence) for row in text.split(", ")]
    return [*quoted, *decoded, *answered, *rows]


def _letters(text: str) -> str:
    """Letters and digits alone: numbers may be written with other marks, cells apart."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _rows(folder: Path, pattern: str) -> Iterator[dict[str, str]]:
    for table in sorted(folder.glob(pattern)):
        with table.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")
