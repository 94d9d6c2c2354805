"""What a question's words ask for, and whether a text holds it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from assistant.facts import dates, names, numbers
from assistant.language import STOP_WORDS, Language, content_words, detect_language, fold, root

_KINDS = (
    (
        "date",
        re.compile(
            r"\bwhen\b|\bcuando\b|\bfechas?\b|\bplazo\b"
            r"|\b(?:what|which|que) (?:dates?|days?|years?|months?|dias?|anos?|mes|meses|ejercicio)\b"
        ),
    ),
    ("number", re.compile(r"\bhow (?:many|much|old|long|tall|far)\b|\bcuant[oa]s?\b|\bpercentage\b|\bporcentaje\b")),
    ("name", re.compile(r"\bwho(?:m|se)?\b|\bquien(?:es)?\b|\bwhere\b|\bdonde\b")),
)
_TIME = re.compile(
    r"\b\d{1,2}[:.]\d{2}\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|\b(?:lunes|martes|miercoles|jueves|viernes|sabados?|domingos?)\b"
    r"|\b(?:days?|weeks?|months?|hours?|dias?|semanas?|mes|meses|horas?)\b"
)
_FOCUS = 4.0
_YEAR = re.compile(r"1\d{3}|20\d{2}")


@dataclass(frozen=True, slots=True)
class Asked:
    """``weights``: the question's roots, each with how rare it is in the texts it is held against;
    ``names`` and ``numbers`` what it names; ``wants`` the kind of thing that answers it, where its words tell."""

    weights: dict[str, float]
    names: tuple[frozenset[str], ...]  # each as the roots it is made of
    numbers: tuple[frozenset[str], ...]
    wants: str  # "number", "date", "name" or ""
    language: Language
    known: frozenset[str]  # roots and digits of the question: what it names itself is no answer

    @classmethod
    def of(cls, question: str, texts: Sequence[str], focus: str = "") -> Asked:
        """``focus`` is the part of a completed follow-up that was asked now; its words weigh more than those
        borrowed from the turn before."""
        own = sorted(text_roots(question))
        weights = rarity(own, [text_roots(text) for text in texts])
        weights |= {word: _FOCUS * weights[word] for word in text_roots(focus) if word in weights}
        return cls(
            weights,
            tuple(dict.fromkeys(text_roots(name) for name in names(question))),
            tuple(dict.fromkeys(text_roots(number) for number in re.findall(r"\d[\d.,]*\d|\d", question))),
            wanted_kind(question),
            detect_language(question),
            frozenset(own) | frozenset(re.findall(r"\d+", question)),
        )

    def coverage(self, present: frozenset[str]) -> float:
        """The share of the question's words in ``present``, by weight; 0 for a question without words."""
        total = sum(self.weights.values())
        return sum(weight for word, weight in self.weights.items() if word in present) / total if total else 0.0

    def share_of_names(self, present: frozenset[str]) -> float:
        """The share of the question's names in ``present``; 1 for a question without any."""
        return _share(self.names, present)

    def share_of_numbers(self, present: frozenset[str]) -> float:
        """The share of the question's numbers in ``present``; 1 for a question without any."""
        return _share(self.numbers, present)

    def learns_from(self, sentence: str) -> bool:
        """Whether ``sentence`` says anything that the question does not say itself."""
        return not text_roots(sentence) <= self.known

    def is_held_by(self, sentence: str) -> bool:
        """Whether ``sentence`` holds the kind of thing asked for, other than what the question itself names."""
        if self.wants == "number":
            return any(not readings & self.known for readings in numbers(sentence))
        if self.wants == "date":
            years = (value for readings in numbers(sentence) for value in readings if value not in self.known)
            return bool(dates(sentence) or _TIME.search(fold(sentence))) or any(
                _YEAR.fullmatch(value) for value in years
            )
        if self.wants == "name":
            return any(not text_roots(name) <= self.known for name in names(sentence))
        return True


def rarity(roots: Iterable[str], texts: Sequence[frozenset[str]]) -> dict[str, float]:
    """How much each root tells texts apart: the fewer have it, the more (an inverse document frequency)."""
    return {word: math.log(1 + (len(texts) + 1) / (sum(word in text for text in texts) + 0.5)) for word in roots}


def wanted_kind(question: str) -> str:
    """The kind of thing that answers ``question``, or "" where its words do not tell."""
    folded = fold(question)
    return next((kind for kind, pattern in _KINDS if pattern.search(folded)), "")


@lru_cache(maxsize=4096)
def text_roots(text: str) -> frozenset[str]:
    """The roots of the words that carry meaning; what is put together is taken apart ("modelo145.pdf")."""
    return frozenset(root(part) for word in content_words(text) for part in _parts(word))


def _parts(word: str) -> list[str]:
    parts = [part for part in re.findall(r"[^\W\d_]+|\d+", word) if part not in STOP_WORDS]
    return [part for part in parts if len(part) > 1 or part.isdigit()] or [word]


def _share(wanted: Sequence[frozenset[str]], present: frozenset[str]) -> float:
    return sum(part <= present for part in wanted) / len(wanted) if wanted else 1.0
