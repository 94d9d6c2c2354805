"""What may be quoted: a passage cut into sentences, runs of lines and table rows, verbatim.

A document is data. What is written in it to steer a model ("ignore all previous instructions …") is left to the
fence of the prompt where a model writes; where we quote, nobody is there to disregard it, so it is passed over. Only
plain attempts are known here; the rest is for whoever reads the quote and sees its page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from assistant.sentences import Span, is_table_row, sentence_spans

_LONGEST = 300  # characters of lines quoted together
_WRAPPED = 500  # a stretch with a stop at its end is a wrapped sentence up to this length
_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
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
    """``text`` stands verbatim in the passage; a table's row comes under its header's lines. ``matched`` is
    what a question is compared with: the text, or the row as "column: cell" pairs. ``is_sentence``: it speaks for
    itself; a row or a run of lines needs its headings to be understood."""

    text: str
    matched: str
    is_sentence: bool = True


def quotable(passage: str) -> list[Quotable]:
    """The pieces of ``passage`` in order.

    Lines without a stop (headings, list items, receipts, forms) are kept together, and with the sentence that
    follows them, as long as they are short: alone they say too little.
    """
    pieces: list[Quotable] = []
    header: list[str] = []
    run: Span | None = None
    for span in _units(passage):
        unit = passage[span.start : span.end]
        if is_table_row(unit):
            if run:
                pieces.append(_run(passage, run))
                run = None
            if rule := _rule_below(passage, span.end):
                header = [unit, rule]
            elif header:
                pieces.append(Quotable("\n".join([*header, unit]), _labelled(header[0], unit), False))
            else:
                pieces.append(Quotable(unit, " ".join(_cells(unit)), False))
            continue
        header = []
        if run and span.end - run.start > _LONGEST:
            pieces.append(_run(passage, run))
            run = None
        run = Span(run.start if run else span.start, span.end)
        if _CLOSED.search(unit):
            pieces.append(_run(passage, run))
            run = None
    return [*pieces, _run(passage, run)] if run else pieces


def _run(passage: str, span: Span) -> Quotable:
    text = passage[span.start : span.end]
    return Quotable(text, text, bool(_CLOSED.search(text)))


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


def _rule_below(passage: str, end: int) -> str:
    """The line of dashes under a table's header, or nothing where the next line is another."""
    line = passage[end:].removeprefix("\n").partition("\n")[0].strip()
    return line if _RULE.fullmatch(line) else ""


def _labelled(header: str, row: str) -> str:
    columns, cells = _cells(header), _cells(row)
    columns += [""] * (len(cells) - len(columns))
    pairs = zip(columns, cells, strict=False)
    return "; ".join(f"{column}: {cell}" if column else cell for column, cell in pairs if cell)


def _cells(row: str) -> list[str]:
    return [cell.strip().replace("<br>", " ") for cell in row.strip().strip("|").split("|")]


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
