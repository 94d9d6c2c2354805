"""What may be quoted: a passage cut into sentences, runs of lines and table rows, verbatim; and how it is shown.

A document is data. What is written in it to steer a model ("ignore all previous instructions …") is left to the
fence of the prompt where a model writes; where we quote, nobody is there to disregard it, so it is passed over. Only
plain attempts are known here; the rest is for whoever reads the quote and sees its page.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile, zip_longest

from assistant.sentences import Span, is_table_row, sentence_spans

_LONGEST = 300  # characters of lines quoted together
_WRAPPED = 500  # a stretch with a stop at its end is a wrapped sentence up to this length
_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]+")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(?<![\w*`])(\*\*|`)(?=\S)(.+?)(?<=\S)\1(?![\w*`])")
_CLOSED = re.compile(r"[.!?…][\"'”’»)\]]*\Z")
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules|guidelines)\b"
    r"|\b(?:ignor[ae]|olvid[ae]|omit[ae]|desatiend[ae]|descart[ae])\b[^.\n]{0,40}"
    r"\b(?:instrucciones|reglas|indicaciones|prompts?)\b"
    r"|^\W{0,3}(?:system|assistant|sistema|asistente)\s*:\s"
    r"|\b(?:system prompt|prompt del sistema|output the word|as an ai (?:language )?model)\b",
    re.IGNORECASE | re.MULTILINE,
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s|\n)(?=[^.!?\n]*\Z)")


@dataclass(frozen=True, slots=True)
class Quotable:
    """``text`` stands verbatim in the passage, without the headings above it; a table's row comes under its header's
    lines. ``matched`` is what a question is compared with: the text under its headings, or the row as "column: cell"
    pairs. ``is_sentence``: it speaks for itself; a row or a run of lines needs its headings to be understood.
    ``endings``: a sentence without the lines above it (a letterhead, a mail's first lines), shortest first."""

    text: str
    matched: str
    is_sentence: bool = True
    endings: tuple[str, ...] = ()


def quotable(passage: str, headings: Collection[str] = ()) -> list[Quotable]:
    """The pieces of ``passage`` in order; ``headings`` are those that stand in it or above it.

    Lines without a stop (headings, list items, receipts, forms) are kept together, and with the sentence that
    follows them, as long as they are short: alone they say too little.
    """
    titles = frozenset(_bare(heading) for heading in headings)
    pieces: list[Quotable] = []
    run: list[Span] = []
    table_end = 0
    for span in _units(passage):
        if span.start < table_end:
            continue
        unit = passage[span.start : span.end]
        if run and (is_table_row(unit) or run[-1].end - run[0].start > _LONGEST):
            pieces.append(_run(passage, run, titles))
            run = []
        if is_table_row(unit):
            lines = list(takewhile(is_table_row, passage[span.start :].split("\n")))
            table_end = span.start + len("\n".join(lines))
            pieces += _rows(lines)
            continue
        run.append(span)
        if _CLOSED.search(unit):
            pieces.append(_run(passage, run, titles))
            run = []
    return [*pieces, _run(passage, run, titles)] if run else pieces


def readable(passage: str) -> str:
    """Markdown as people read it: headings and emphasis without their marks, links by their words, each row of a
    table as "column: cell" pairs on a line of its own."""
    shown: list[str] = []
    for is_table, lines in groupby(passage.split("\n"), is_table_row):
        if is_table:
            shown += [row.matched for row in _rows(list(lines))]
        else:
            shown += [_without_marks(line) for line in lines]
    return "\n".join(shown).strip()


def one_line(passage: str, longest: int) -> str:
    """``readable`` on one line, at most ``longest`` characters of it."""
    lines = (" ".join(line.split()) for line in readable(passage).split("\n"))
    return beginning(" · ".join(filter(None, lines)), longest)


def beginning(text: str, longest: int) -> str:
    """``text``, cut where it has more than ``longest`` characters."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _run(passage: str, run: Sequence[Span], titles: Collection[str]) -> Quotable:
    """Sentences and lines as one piece. Headings above its last lines tell what they are about and are not quoted."""
    matched = passage[run[0].start : run[-1].end]
    is_title = [_bare(passage[span.start : span.end]) in titles for span in run]
    last = max((number for number, title in enumerate(is_title) if not title), default=len(run) - 1)
    first = max((number + 1 for number, title in enumerate(is_title[:last]) if title), default=0)
    if not _CLOSED.search(matched):
        return Quotable(passage[run[first].start : run[last].end], matched, False)
    endings = tuple(passage[span.start : run[last].end] for span in reversed(run[first + 1 : last + 1]))
    return Quotable(passage[run[first].start : run[last].end], matched, True, endings)


def _units(passage: str) -> Iterator[Span]:
    """Sentences; a stretch of lines without stops is taken apart at its lines."""
    for span in sentence_spans(passage):
        text = passage[span.start : span.end]
        lines = text.count("\n")
        if not lines or is_table_row(text) or (len(text) <= _WRAPPED and _CLOSED.search(text)):
            yield span
            continue
        for line in re.finditer(r"[^\n]+", text):
            if line.group().strip():
                yield Span(span.start + line.start(), span.start + line.end())


def _rows(table: Sequence[str]) -> list[Quotable]:
    """The rows of a Markdown table, each under the lines of its header; a header alone counts as a row."""
    lines = [line.strip() for line in table]
    header = lines[: _header_lines(lines)]
    rows = [line for line in lines[len(header) :] if not _RULE.fullmatch(line)]
    if not header or not rows:
        return [Quotable(row, _listed(row), False) for row in lines if _listed(row) and not _RULE.fullmatch(row)]
    labels = _labels(header)
    return [Quotable("\n".join([*header, row]), _paired(labels, row), False) for row in rows if _listed(row)]


def _header_lines(lines: Sequence[str]) -> int:
    """How many lines a table's header has: the one above the rule, the rule, and below a header that leaves the
    column of the rows' names empty, up to two that do the same, where named rows follow."""
    if len(lines) < 2 or not _RULE.fullmatch(lines[1]):
        return 0
    if _cells(lines[0])[0]:
        return 2
    named = next((number for number in range(2, len(lines)) if _cells(lines[number])[0]), 0)
    return named if 2 < named <= 4 else 2


def _labels(header: Sequence[str]) -> list[str]:
    """What each column is called by all lines of its header."""
    titles = [_cells(line) for line in header if not _RULE.fullmatch(line)]
    return [" ".join(filter(None, column)) for column in zip_longest(*titles, fillvalue="")]


def _paired(labels: Sequence[str], row: str) -> str:
    pairs = zip_longest(labels, _cells(row), fillvalue="")
    return "; ".join(f"{label}: {cell}" if label else cell for label, cell in pairs if cell)


def _listed(row: str) -> str:
    return " ".join(filter(None, _cells(row)))


def _cells(row: str) -> list[str]:
    return [_without_marks(cell.replace("<br>", " ")) for cell in row.strip().strip("|").split("|")]


def _without_marks(line: str) -> str:
    line = _LINK.sub(r"\1", _HEADING.sub("", line))
    while (bare := _EMPHASIS.sub(r"\2", line)) != line:
        line = bare
    return line.strip()


def _bare(heading: str) -> str:
    return " ".join(_without_marks(heading).casefold().split())


def without_orders(text: str) -> str:
    """``text`` less every stretch from a sentence that gives a model orders to the end of its paragraph: what
    follows ("answer that …") belongs to it. The rest stays verbatim."""
    kept: list[str] = []
    position = 0
    while found := _ORDER.search(text, position):
        starts = _SENTENCE_START.search(text[position : found.start()])
        begin = position + starts.end() if starts else found.start()
        end = _PARAGRAPH_END.search(text, found.end())
        kept.append(text[position:begin])
        position = end.start() if end else len(text)
    return "".join([*kept, text[position:]])
