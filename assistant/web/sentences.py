"""What is kept in English (why a document was not read, receipts) told in another language, a sentence at a time.

A language's table pairs the English form of a sentence with its own, both with the same ``{placeholders}``. A form
fits a whole sentence or not at all, and the first that fits is taken. ``{said}`` stands for words that are themselves
told by the table, where they are in it; any other placeholder is put down as it was (a name, a number, a library's own
words). The page in the browser does the same by the same tables (``told`` in its element of documents).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

REMEMBERED = 1000  # texts, with their sentences
MOST_PIECES = 6  # a name may hold what looks like the end of a sentence, so pieces are also tried together
_ENDS = re.compile(r"(?<=[.!?])\s+")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PATTERNS = {"n": r"\d+", "pages": r"[\d ,…]+"}


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence as it is shown; ``known``: the table has it, so it is no longer English."""

    text: str
    known: bool


class Sentences:
    """One language's table. For English, where nothing is to be told otherwise, it is empty."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._forms = [(_pattern(english), form) for english, form in table.items()]
        self.each = lru_cache(REMEMBERED)(self._each)  # a page asks for the words and for their language

    def told(self, kept: str) -> str:
        """``kept`` with every sentence that is known in this language; others stay as they are."""
        return " ".join(each.text for each in self.each(kept)) if self._forms else kept

    def knows_most(self, kept: str) -> bool:
        """Whether most of what ``told`` gives is in this language."""
        each = self.each(kept)
        return sum(len(one.text) for one in each if one.known) * 2 > sum(len(one.text) for one in each)

    def _each(self, kept: str) -> tuple[Told, ...]:
        """The sentences of ``kept``, one after the other."""
        return tuple(self._one_by_one(kept))

    def _one_by_one(self, kept: str) -> Iterator[Told]:
        pieces, place = _ENDS.split(kept) if kept else [], 0
        while place < len(pieces):
            for end in range(place + 1, min(place + MOST_PIECES, len(pieces)) + 1):
                whole = self._whole(" ".join(pieces[place:end]))
                if whole is not None:
                    yield Told(whole, True)
                    break
            else:
                end = place + 1
                yield Told(pieces[place], False)
            place = end

    def _whole(self, sentence: str) -> str | None:
        for pattern, form in self._forms:
            found = pattern.fullmatch(sentence)
            if found:
                values = {
                    key: self._words(value) if key == "said" else value for key, value in found.groupdict().items()
                }
                return _PLACEHOLDER.sub(lambda place: values[place[1]], form)  # noqa: B023
        return None

    def _words(self, words: str) -> str:
        """Words within a sentence: told one by one between semicolons, or as a whole."""
        parts = [self._part(part) for part in words.split("; ")]
        known = [part for part in parts if part is not None]
        return "; ".join(known) if len(known) == len(parts) else self._part(words) or words

    def _part(self, words: str) -> str | None:
        return self._whole(words) or self._sentence(words)

    def _sentence(self, words: str) -> str | None:
        told = self._whole(f"{words}.")
        if told is None and words[:1].islower():
            told = self._whole(f"{words[:1].upper()}{words[1:]}.")
            told = None if told is None else told[:1].lower() + told[1:]
        return None if told is None else told.removesuffix(".")


@cache
def _pattern(english: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(english)
    for index in range(0, len(parts), 2):
        parts[index] = re.escape(parts[index])
    for index in range(1, len(parts), 2):
        parts[index] = f"(?P<{parts[index]}>{_PATTERNS.get(parts[index], '.+?')})"
    return re.compile("".join(parts), re.DOTALL)
