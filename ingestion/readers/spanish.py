"""The opening marks ¡ and ¿, which PP-OCRv6 cannot write or mistakes: restored from their pair by rule.

The models have no "¡" at all and write "i", "!", "j" or nothing for it. A mark is only put back on pages in
Spanish, where a "!" or "?" closes a sentence that nothing opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ingestion.readers.lines import Line

_COMMON_WORDS = (
    "de la el que y en los las del por con para una un se no su al es lo como más pero sus le ya o este sí "
    "porque esta entre cuando muy sin sobre también me hasta hay donde quien desde nos ni contra"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_LEAST_WORDS = 2  # common Spanish words on the page
_LEAST_SHARE = 0.18  # of all its words
_BRANDS = re.compile(r"^i(?:Phone|Pad|Pod|OS|Mac|Cloud|Tunes|Message|Watch)", re.IGNORECASE)
# A sentence that ends in the mark and has no opening one, from the end of the one before it on.
_SENTENCE = re.compile(
    r"(?P<lead>^|[.!?:;…]\s+|[—–(\"“«]\s*)(?P<body>[^.!?¡¿…]+?)(?P<close>[!?])"
    r"(?=[\s\"')\]»”’,;:.]|$)"
)
_MISREAD = re.compile(r"(?:^|(?<=\s))[!?ij|](?=[A-ZÁÉÍÓÚÑÜ])|(?:^|(?<=\s))[!?](?=[a-záéíóúñü])")
_ASKING = re.compile(
    r"(?:^|(?<=[\s,]))(?:[Pp]or qué|[Qq]ué|[Cc]ómo|[Cc]uándo|[Dd]ónde|[Aa]dónde|[Qq]uién(?:es)?|[Cc]uál(?:es)?|"
    r"[Cc]uánt[oa]s?)\b"
)


def is_spanish(text: str) -> bool:
    """Whether the text is mostly Spanish, by its commonest words, or by letters that hardly any other has."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    common = sum(word in _COMMON for word in words)
    if common >= _LEAST_WORDS and common >= _LEAST_SHARE * len(words):
        return True
    return bool(words) and ("¿" in text or "ñ" in text.lower()) and common >= 1


def with_opening_marks(lines: Sequence[Line]) -> list[Line]:
    """The lines of a page with their opening marks."""
    if not any("!" in line.text or "?" in line.text for line in lines):
        return list(lines)
    if not is_spanish(" ".join(line.text for line in lines)):
        return list(lines)
    found: list[Line] = []
    open_mark = False  # whether a sentence was opened on an earlier line and not closed yet
    for line in lines:
        text = line.text if open_mark else restore_marks(line.text)
        marks = [character for character in text if character in "¡¿!?"]
        open_mark = marks[-1] in "¡¿" if marks else open_mark
        found.append(replace(line, text=text))
    return found


def restore_marks(text: str) -> str:
    """A Spanish line with "¡" and "¿" where its closing marks miss them."""
    text = _with_misread_opened(text)
    return _SENTENCE.sub(_opened, text)


def _with_misread_opened(text: str) -> str:
    """Where a closing mark follows, "iQué", "!Qué" and "jQué" begin with an opening one."""

    def opened(match: re.Match[str]) -> str:
        rest = text[match.start() :]
        close = re.search(r"[!?]", rest[1:])
        if close is None or _BRANDS.match(rest):
            return match[0]
        return "¡" if close[0] == "!" else "¿"

    return _MISREAD.sub(opened, text)


def _opened(match: re.Match[str]) -> str:
    lead, body, close = match["lead"], match["body"], match["close"]
    if not (body[-1:].isalpha() or body[-1:] in "\"')]»”’"):
        return match[0]
    if close == "!":
        return f"{lead}¡{body}!" if body[:1].isupper() else match[0]
    asking = _ASKING.search(body)
    if asking is None:
        return match[0]
    return f"{lead}{body[: asking.start()]}¿{body[asking.start() :]}?"
