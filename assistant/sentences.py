"""Text cut into sentences, as spans of the text itself, so that a quote is verbatim.

Made for Markdown as the readers give it: paragraphs, headings, list items and table rows each end a
sentence; inside a paragraph a stop ends one unless it belongs to an abbreviation, an initial, a decimal
number or an ordinal. English and Spanish abbreviations are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ABBREVIATIONS = frozenset(
    """
    a.c. a.d. a.m. p.m. aprox approx apdo apt art arts av avda avs bros c/ cap caps capt cf ch cía cia cit co
    col corp cte d da dept dir dis doc dña don dr dra dras dres dto ed eds edit ee.uu ej ejem e.g eg esq etc
    excmo exc ext fig figs fr gen gob gral gov hnos hon i.e ie ilmo inc ing izq jr lic lit ltd ltda lám máx min
    mín mons mr mrs ms mt mtro mtra n nº núm nums no nos núms op ord p pág págs pp ph.d prof profa prov pto ptas
    pza rep rev rte s s.a s.l sr sra sras sres srta sec secc sen sgt sig sigs st ste sta sto supp tel teléf tit
    tít trad ud uds u.s v vd vds vid vol vols vs jan feb mar apr jun jul aug sep sept oct nov dec ene abr ago
    dic
    """.split()  # noqa: SIM905
)
_STOP = re.compile(r"[.!?…。！？]+[\"'”’»)\]]*")
_BLOCK_BREAK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+•·▪–][ \t]|\d{1,3}[.)][ \t]|[a-z]\)[ \t]|#{1,6}[ \t]|\|))")
_LAST_WORD = re.compile(r"[^\s(\[«“\"¿¡]+$")
_MARKER = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|[-*+•·▪–][ \t]+(?:\[[ xX]\][ \t]+)?)")


class Span(NamedTuple):
    """A stretch ``text[start:end]``."""

    start: int
    end: int


def sentence_spans(text: str) -> list[Span]:
    """The sentences of ``text`` in order, without surrounding blanks, list bullets or heading marks.

    ``text[start:end]`` is verbatim; spans do not overlap; none is empty.
    """
    spans: list[Span] = []
    for start, end in _blocks(text):
        for span in _within_block(text, start, end):
            if any(character.isalnum() for character in text[span.start : span.end]):
                spans.append(span)
    return spans


def sentences(text: str) -> list[str]:
    """``sentence_spans`` as strings."""
    return [text[span.start : span.end] for span in sentence_spans(text)]


def is_table_row(text: str) -> bool:
    """Whether a line is a row of a Markdown pipe table."""
    stripped = text.strip()
    return stripped.startswith("|") and stripped.count("|") >= 2


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Paragraphs, headings, list items and table rows. A heading ends with its line."""
    start = 0
    for found in _BLOCK_BREAK.finditer(text):
        yield from _split_heading(text, start, found.start())
        start = found.end()
    yield from _split_heading(text, start, len(text))


def _split_heading(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    line_end = text.find("\n", start, end)
    if line_end != -1 and (text.startswith("#", start) or is_table_row(text[start:line_end])):
        yield start, line_end
        start = line_end + 1
    yield start, end


def _within_block(text: str, start: int, end: int) -> Iterator[Span]:
    if is_table_row(text[start:end]):
        yield _trimmed(text, start, end)
        return
    if marker := _MARKER.match(text, start, end):
        start = marker.end()
    begin = start
    for stop in _STOP.finditer(text, start, end):
        if _ends_sentence(text, begin, stop, end):
            yield _trimmed(text, begin, stop.end())
            begin = stop.end()
    if text[begin:end].strip():
        yield _trimmed(text, begin, end)


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return Span(start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip())))


def _ends_sentence(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Whether the stop found closes a sentence, judged by the word before and the text after."""
    after = text[stop.end() : end]
    if after and not after[0].isspace():
        return False  # 3.14, www.example.org, p.m.
    rest = after.lstrip()
    if not rest:
        return True
    if stop.group()[0] in "!?…。！？":
        return not rest[0].islower()
    word = _LAST_WORD.search(text[begin : stop.start()])
    before = word.group().casefold() if word else ""
    if before.strip(".") in ABBREVIATIONS or before in ABBREVIATIONS:
        return before in ("etc", "n", "no", "mar") and rest[0].isupper()  # these end sentences as well
    if len(before) == 1 and before.isalpha():
        return False  # an initial: "P. J. Cross"
    if before.isdigit() and len(before) <= 3 and begin == stop.start() - len(before):
        return False  # "3. Presentación": a numbered item, not a sentence of its own
    return not rest[0].islower()
