"""The facts of a text that can be checked one by one: numbers, dates and names.

They come back in forms that compare equal across notations and across English and Spanish: "33.007,20"
and "33,007.20"; "18th January, 1972" and "18 de enero de 1972"; "four" and "cuatro".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from assistant.language import STOP_WORDS, fold, root, tokens

NumberReadings = frozenset[str]
"""The values a number as written may stand for, as plain decimals: "1,249" is 1249 or 1.249."""


class Date(NamedTuple):
    """A date or a part of one; 0 stands for what was not said."""

    year: int
    month: int
    day: int

    def agrees_with(self, other: Date) -> bool:
        """Whether nothing that both say differs, and they have something in common to say."""
        pairs = list(zip(self, other, strict=True))
        return all(not (a and b) or a == b for a, b in pairs) and any(a and b for a, b in pairs)


DateReadings = frozenset[Date]
"""The dates a date as written may stand for: "04/05/2026" is 4 May or April 5."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "january/jan/enero/ene",
            "february/feb/febrero",
            "march/mar/marzo",
            "april/apr/abril/abr",
            "may/mayo",
            "june/jun/junio",
            "july/jul/julio",
            "august/aug/agosto/ago",
            "september/sept/sep/septiembre/setiembre",
            "october/oct/octubre",
            "november/nov/noviembre",
            "december/dec/diciembre/dic",
        ],
        start=1,
    )
    for name in names.split("/")
}
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"\b(\d{1,2})(?:st|nd|rd|th|º|o)?"
_YEAR = r"(\d{3,4})\b"
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}})[-/.](?P<isom>\d{{1,2}})[-/.](?P<isod>\d{{1,2}})\b"
    rf"|\b(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\5(?P<y>\d{{4}}|\d{{2}})\b"
    rf"|{_DAY}(?:\s+(?:de|of))?\s+{_MONTH}(?:,?\s+(?:de(?:l)?\s+)?{_YEAR})?"
    rf"|\b{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?(?!\d)"
    rf"|\b{_MONTH},?\s+(?:de(?:l)?\s+|of\s+)?{_YEAR}",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,'’]\d+)*")
_NUMBER_WORDS = {
    word: str(value)
    for value, words in enumerate(
        """
    two/dos three/tres four/cuatro five/cinco six/seis seven/siete eight/ocho nine/nueve ten/diez eleven/once
    twelve/doce thirteen/trece fourteen/catorce fifteen/quince sixteen/dieciseis seventeen/diecisiete
    eighteen/dieciocho nineteen/diecinueve twenty/veinte
    """.split(),  # noqa: SIM905
        start=2,
    )
    for word in words.split("/")
    if word != "once"  # the English adverb is commoner than the Spanish eleven
}
_CAPITALISED = re.compile(r"[^\W_]+(?:[&'’.-][^\W_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:]\s+|[\n|•\"“«(]\s*)[¿¡\"“«(]*$")


def dates(text: str) -> list[DateReadings]:
    """The dates of ``text`` in order; a year alone is a number, not a date."""
    return [readings for _, _, readings in _date_spans(text)]


def numbers(text: str) -> list[NumberReadings]:
    """The numbers of ``text`` in order, written in digits or (two to twenty) in words; dates left out."""
    found: list[tuple[int, NumberReadings]] = []
    rest = list(text)
    for start, end, _ in _date_spans(text):
        rest[start:end] = " " * (end - start)
    for match in _NUMBER.finditer("".join(rest)):
        found.append((match.start(), number_readings(match.group())))
    for match in re.finditer(r"[^\W\d_]+", text):
        if value := _NUMBER_WORDS.get(fold(match.group())):
            found.append((match.start(), frozenset({value})))
    return [readings for _, readings in sorted(found, key=lambda item: item[0])]


def number_readings(written: str) -> NumberReadings:
    """The values that ``written`` may stand for in English or Spanish notation."""
    bare = re.sub(r"[ \u00a0\u202f'’]", "", written)
    separators = re.findall(r"[.,]", bare)
    if not separators:
        return frozenset({_plain(bare)})
    groups = re.split(r"[.,]", bare)
    thousands = 1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(set(separators)) == 2:
        whole, _, fraction = bare.rpartition(separators[-1])
        return frozenset({_plain(re.sub(r"[.,]", "", whole), fraction)})
    if len(separators) == 1:
        decimal = _plain(groups[0], groups[1])
        return frozenset({decimal, _plain("".join(groups))} if thousands and groups[0] != "0" else {decimal})
    return frozenset({_plain("".join(groups))}) if thousands else frozenset({".".join(groups)})


def _plain(whole: str, fraction: str = "") -> str:
    whole = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _date_spans(text: str) -> Iterator[tuple[int, int, DateReadings]]:
    for match in _DATE.finditer(text):
        if readings := _date_readings(match):
            yield match.start(), match.end(), readings


def _date_readings(match: re.Match[str]) -> DateReadings:
    named = match.groupdict()
    if named["iso"]:
        return _valid([Date(int(named["iso"]), int(named["isom"]), int(named["isod"]))])
    if named["a"]:
        first, second, year = int(named["a"]), int(named["b"]), int(named["y"])
        year += 0 if year >= 100 else (2000 if year < 70 else 1900)
        return _valid([Date(year, second, first), Date(year, first, second)])
    parts = [part for part in match.groups()[7:] if part]
    month = next(_MONTHS[part.lower()] for part in parts if not part.isdigit())
    year = next((int(part) for part in parts if part.isdigit() and len(part) >= 3), 0)
    day = next((int(part) for part in parts if part.isdigit() and len(part) <= 2), 0)
    return _valid([Date(year, month, day)])


def _valid(readings: list[Date]) -> DateReadings:
    return frozenset(date for date in readings if 1 <= date.month <= 12 and 0 <= date.day <= 31)


def names(text: str) -> list[str]:
    """The names of ``text`` in order, one word each: capitalised words inside sentences, words in capitals,
    identifiers of letters and digits. A capitalised word that opens a sentence counts only where another
    capitalised word follows it, since any word may stand there."""
    found: list[str] = []
    words = list(_CAPITALISED.finditer(text))
    for index, match in enumerate(words):
        word = match.group()
        if fold(word) in STOP_WORDS or fold(word) in _MONTHS or len(word) < 2:
            continue
        follows = words[index + 1].group() if index + 1 < len(words) else ""
        adjoining = follows and text[match.end() : words[index + 1].start()] == " "
        if _is_name(
            word, opens=bool(_SENTENCE_START.search(text[: match.start()])), follows=follows if adjoining else ""
        ):
            found.append(word)
    return found


def _is_name(word: str, opens: bool, follows: str) -> bool:
    if any(c.isdigit() for c in word):
        return any(c.isalpha() for c in word) and any(c.isupper() for c in word)
    if word.isupper():
        return True
    if not word[0].isupper():
        return False
    return not opens or (follows[:1].isupper() and fold(follows) not in STOP_WORDS)


class FactSheet:
    """The facts of a source, to hold claims against."""

    def __init__(self, text: str) -> None:
        self.numbers = frozenset(value for readings in numbers(text) for value in readings)
        self.digits = frozenset(re.findall(r"\d+", text))
        self.dates = frozenset(date for readings in dates(text) for date in readings)
        self.words = frozenset(tokens(text))
        self.roots = frozenset(root(word) for word in self.words)

    def has_number(self, readings: NumberReadings) -> bool:
        return bool(readings & self.numbers) or any(value in self.digits for value in readings)

    def has_date(self, readings: DateReadings) -> bool:
        return any(mine.agrees_with(theirs) for mine in readings for theirs in self.dates) or any(
            str(date.year) in self.digits and not date.month for date in readings
        )

    def has_name(self, name: str, other_language: bool = False) -> bool:
        """Whether ``name`` stands in the source; across languages a likeness is enough ("Siria", "Syria")."""
        folded = [part for part in tokens(name) if part]
        if all(part in self.words or root(part) in self.roots for part in folded):
            return True
        return other_language and all(any(_alike(part, word) for word in self.words) for part in folded)

    def missing(self, claim: str, other_language: bool = False) -> list[str]:
        """What ``claim`` says that the source does not, as short phrases; empty when all its facts stand there."""
        gone = [f"number {max(n, key=len)}" for n in numbers(claim) if not self.has_number(n)]
        gone += [f"date {'-'.join(map(str, sorted(d)[0]))}" for d in dates(claim) if not self.has_date(d)]
        return gone + [f"name {name}" for name in names(claim) if not self.has_name(name, other_language)]


def _alike(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 3 or one[:1] != other[:1]:
        return False
    return SequenceMatcher(None, one, other).ratio() >= 0.6
