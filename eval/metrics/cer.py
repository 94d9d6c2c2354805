"""Character error rate: the edits that turn a reading into the truth, for each character of the truth."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

_TYPOGRAPHY = str.maketrans("’‘“”–—‐ſ", "''\"\"---s")
_MARKUP = re.compile(
    r"<[^<>]{1,200}>"  # HTML of tables
    r"|^\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?)?\s*$|\|"  # pipe tables
    r"|^#{1,6} |\*\*",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Errors:
    """Edits and the length they are counted against; add them up for a set's rate."""

    edits: int
    characters: int

    @property
    def rate(self) -> float | None:
        return self.edits / self.characters if self.characters else None

    def __add__(self, other: Errors) -> Errors:
        return Errors(self.edits + other.edits, self.characters + other.characters)


def normalised(text: str) -> str:
    """What both sides are reduced to: one form of each character, plain quotation marks and dashes, no Markdown or
    HTML marks, words broken at a line's end joined, single blanks."""
    text = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))
    text = re.sub(r"(\w)-\n\s*(?=[a-zà-ÿ])", r"\1", _MARKUP.sub(" ", text))
    return " ".join(text.split())


def errors(truth: str, reading: str) -> Errors:
    """Against a text whose reading order is known."""
    wanted = normalised(truth)
    return Errors(Levenshtein.distance(wanted, normalised(reading)), len(wanted))


def errors_in_region(truth: str, reading: str) -> Errors:
    """Against a text that is only a part of the page: what was read before and after it is free. Exact where
    the part stands together in the reading."""
    wanted, read = normalised(truth), normalised(reading)
    return Errors(_nearest_stretch(wanted, read), len(wanted))


def errors_by_line(lines: Sequence[str], reading: str) -> Errors:
    """Against lines whose order is open (receipts, forms): each is looked for anywhere in the reading."""
    read = normalised(reading)
    found = [normalised(line) for line in lines]
    return Errors(sum(_nearest_stretch(line, read) for line in found if line), sum(map(len, found)))


def _nearest_stretch(wanted: str, read: str) -> int:
    """Edits from ``wanted`` to the stretch of ``read`` most like it, at most its length."""
    if not wanted or wanted in read:
        return 0
    found = fuzz.partial_ratio_alignment(wanted, read)
    if found is None or len(wanted) > len(read):
        return min(len(wanted), Levenshtein.distance(wanted, read))
    slack = max(2, len(wanted) // 20)
    starts = range(max(0, found.dest_start - slack), found.dest_start + slack + 1, max(1, slack // 4))
    ends = range(max(0, found.dest_end - slack), min(len(read), found.dest_end + slack) + 1, max(1, slack // 4))
    best = min(Levenshtein.distance(wanted, read[start:end]) for start in starts for end in ends if start < end)
    return min(best, len(wanted), Levenshtein.distance(wanted, read[found.dest_start : found.dest_end]))
