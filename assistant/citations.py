"""Citations in a model's text: found in any of the notations models use, checked, renumbered.

A number that is no source is removed, also while the text streams: an opening bracket is held back until
it is clear what it is. Citations are renumbered in order of first use, so that readers see [1] first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from assistant.sentences import sentence_spans

_WORD = r"(?:sources?|fuentes?|documents?|documentos?|docs?|refs?|passages?|pasajes?|n[.º°]|no\.|[#^s])\s*[:#.]?\s*"
_LIST = rf"(?:{_WORD})?\d{{1,3}}(?:\s*(?:,|;|&|[-–]|\b(?:y|and|e|a|to)\b)\s*(?:{_WORD})?\d{{1,3}})*"
_CITATION = re.compile(rf"([ \t]*)[\[［【]\s*({_LIST})\s*(?:†[^\[\]［］【】]{{0,60}})?[\]］】]", re.IGNORECASE)
_OPEN = re.compile(r"[\[［【][^\[\]［］【】\n]{0,80}$")
_RANGE = re.compile(r"(\d{1,3})\s*(?:[-–]|\b(?:a|to)\b)\s*(?:\D{0,12})(\d{1,3})", re.IGNORECASE)
_OURS = re.compile(r"\s*\[(\d{1,3})\]")
_LONGEST_RANGE = 10


def numbers_cited(notation: str) -> list[int]:
    """The numbers inside a citation's brackets; "2-4" is 2, 3, 4."""
    found: list[int] = []
    position = 0
    for span in _RANGE.finditer(notation):
        found += map(int, re.findall(r"\d+", notation[position : span.start()]))
        first, last = int(span[1]), int(span[2])
        found += range(first, last + 1) if first <= last < first + _LONGEST_RANGE else (first, last)
        position = span.end()
    found += map(int, re.findall(r"\d+", notation[position:]))
    return list(dict.fromkeys(found))


@dataclass
class CitationStream:
    """Streams a model's text with its citations checked against ``sources`` (how many there are)."""

    sources: int
    order: list[int] = field(default_factory=list[int])  # source numbers (from 1) in order of first use
    _held: str = ""

    def feed(self, piece: str) -> str:
        """The text that may be shown now."""
        text = _CITATION.sub(self._checked, self._held + piece)
        shown = _settled(text)
        self._held = text[len(shown) :]
        return shown

    def finish(self) -> str:
        """The rest; to be called once, at the end."""
        rest, self._held = self._held, ""
        return rest.rstrip()

    def _checked(self, match: re.Match[str]) -> str:
        """Our notation, with the blanks before it; nothing at all where no number is a source."""
        shown: list[str] = []
        for number in numbers_cited(match[2]):
            if 1 <= number <= self.sources:
                if number not in self.order:
                    self.order.append(number)
                shown.append(f"[{self.order.index(number) + 1}]")
        return match[1] + "".join(shown) if shown else ""


def _settled(text: str) -> str:
    """The part that later text cannot change: without an open bracket at the end, which may become a citation,
    and without trailing blanks, which go where a citation is removed."""
    open_bracket = _OPEN.search(text)
    return text[: open_bracket.start() if open_bracket else len(text)].rstrip(" \t")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence without its citations, and their numbers in order."""

    text: str
    numbers: tuple[int, ...]


def cited_sentences(text: str) -> list[CitedSentence]:
    """The sentences of a text in our notation. A citation belongs to the sentence it stands in or follows."""
    bare, marks = _without_marks(text)
    spans = sentence_spans(bare)
    numbers: list[list[int]] = [[] for _ in spans]
    for position, number in marks:
        before = [index for index, span in enumerate(spans) if span.start < position] or [0]
        if spans and number not in numbers[before[-1]]:
            numbers[before[-1]].append(number)
    return [CitedSentence(bare[s.start : s.end], tuple(n)) for s, n in zip(spans, numbers, strict=True)]


def _without_marks(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without citations, and for each where it stood in that text, with its number."""
    pieces: list[str] = []
    marks: list[tuple[int, int]] = []
    length = position = 0
    for mark in _OURS.finditer(text):
        pieces.append(text[position : mark.start()])
        length += len(pieces[-1])
        marks.append((length, int(mark[1])))
        position = mark.end()
    return "".join([*pieces, text[position:]]), marks
