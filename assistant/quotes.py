"""What may be quoted: a passage cut into sentences and table rows, verbatim."""

from __future__ import annotations

import re
from dataclasses import dataclass

from assistant.sentences import is_table_row, sentence_spans

_LONGEST = 400  # characters; a longer stretch without a stop is cut at its lines
_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")


@dataclass(frozen=True, slots=True)
class Quotable:
    """``text`` stands verbatim in the passage; a table's row comes under its header's lines. ``matched`` is
    what a question is compared with: the sentence, or the row as "column: cell" pairs."""

    text: str
    matched: str


def quotable(passage: str) -> list[Quotable]:
    """The pieces of ``passage`` in order."""
    pieces: list[Quotable] = []
    header: list[str] = []
    for span in sentence_spans(passage):
        sentence = passage[span.start : span.end]
        if not is_table_row(sentence):
            header = []
            pieces += [Quotable(piece, piece) for piece in _short(sentence)]
        elif rule := _rule_below(passage, span.end):
            header = [sentence, rule]
        elif header:
            pieces.append(Quotable("\n".join([*header, sentence]), _labelled(header[0], sentence)))
        else:
            pieces.append(Quotable(sentence, " ".join(_cells(sentence))))
    return pieces


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


def _short(sentence: str) -> list[str]:
    """A stretch without stops (a receipt, a form) is cut at its lines; a sentence that was only wrapped stays."""
    lines = [line.strip() for line in sentence.split("\n") if line.strip()]
    if len(lines) <= 1 or (len(sentence) <= _LONGEST and sentence.rstrip()[-1] in '.!?…:;)»”"'):
        return [sentence]
    return lines
