"""A vision-language model's reply as blocks, or why it cannot be used.

``prompts/read_page.md`` asks for Markdown with HTML tables, ``[illegible]``, ``[figure]`` and
``[blank]``; this understands it, and recognises the ways in which such models fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assistant.core.domain import BlockKind
from ingestion.readers.htmltable import find_tables, read_table

if TYPE_CHECKING:
    from markdown_it.token import Token

LONGEST_PERIOD = 60  # words of a unit that is repeated over and over
FEWEST_REPEATS = 12
FEWEST_REPEATED_WORDS = 64
LONGEST_REFUSAL = 400  # characters: longer texts that begin with an apology are letters

_BLANK = re.compile(r"\s*\[?\s*blank\s*\]?\s*", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*```[a-z]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL | re.IGNORECASE)
_THINKING = re.compile(r"</?think(ing)?>|<\|(im_start|im_end|channel|vision_\w+|image_pad|endoftext)\|>", re.IGNORECASE)
_PREAMBLE = re.compile(
    r"\A\s*(sure|certainly|of course|here('s| is)|below is|the following is|claro|por supuesto|aquí (está|tienes)|"
    r"a continuación)\b[^\n]{0,120}:[ \t]*\n",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\A\W*((i['’]?m|i am|we['’]?re) (very )?(sorry|afraid|unable|not able)|sorry,|i (can ?not|can['’]?t|won['’]?t)|"
    r"unfortunately, i|as an ai|lo siento|lo lamento|no (puedo|me es posible)|como (modelo|ia|inteligencia))\b",
    re.IGNORECASE,
)
_ABOUT_THE_TASK = re.compile(
    r"\b(image|picture|page|document|text|transcri\w+|assist|help|request|imagen|página|documento|texto|ayudar\w*|"
    r"asistir\w*|solicitud)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^>\n]{1,200}>")
_DISPLAY_MATH = re.compile(r"\A\s*(\$\$.*\$\$|\\\[.*\\\])\s*\Z", re.DOTALL)
_FIGURE = re.compile(r"\A\s*\[figure\]\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A block before it has a place and a confidence. ``html`` for tables, ``level`` for headings."""

    kind: BlockKind
    text: str
    html: str | None = None
    level: int = 0


def fault_of(reply: str, *, truncated: bool, inked: bool) -> str:
    """Why the reply is not to be trusted, as a sentence; empty when nothing speaks against it.

    ``truncated``: it stopped at the token limit. ``inked``: there is something on the picture.
    """
    if _THINKING.search(reply):
        return "The model's reasoning or control tokens leaked into its reply"
    if unit := repeated_unit(reply):
        return f"The model repeated itself: {_shortened(unit)!r} over and over"
    if truncated:
        return "The model's reply was cut off at its token limit"
    if len(reply) <= LONGEST_REFUSAL and _REFUSAL.search(reply) and _ABOUT_THE_TASK.search(reply):
        return f"The model refused: {_shortened(reply)!r}"
    if inked and is_blank(reply):
        return "The model saw nothing on a page that is not empty"
    return ""


def is_blank(reply: str) -> bool:
    """Whether the reply says that nothing is there."""
    text = _unwrapped(reply)
    return not text or _BLANK.fullmatch(text) is not None


def repeated_unit(text: str) -> str:
    """A unit of up to ``LONGEST_PERIOD`` words that follows itself again and again, or nothing.

    A run counts when it has at least ``FEWEST_REPEATS`` repeats and ``FEWEST_REPEATED_WORDS`` words and
    its unit holds a letter: columns of equal numbers, dot leaders and empty cells are no loops.
    """
    words = _TAG.sub(" ", text).split()
    for period in range(1, min(LONGEST_PERIOD, len(words) // FEWEST_REPEATS) + 1):
        needed = max((FEWEST_REPEATS - 1) * period, FEWEST_REPEATED_WORDS - period)
        run = 0
        for end in range(period, len(words)):
            run = run + 1 if words[end] == words[end - period] else 0
            if run >= needed:
                unit = " ".join(words[end - period + 1 : end + 1])
                if any(char.isalpha() for char in unit):
                    return unit
    return ""


def pieces_of(reply: str) -> list[Piece]:
    """The reply's blocks in order. Never raises: what is no Markdown is a paragraph."""
    if is_blank(reply):
        return []
    found: list[Piece] = []
    for part, is_table in find_tables(_unwrapped(reply)):
        found.extend(_table_pieces(part) if is_table else _markdown_pieces(part))
    return found


def _table_pieces(html: str) -> Iterator[Piece]:
    table = read_table(html)
    if table.is_empty:
        return
    if table.caption:
        yield Piece(BlockKind.CAPTION, table.caption)
    yield Piece(BlockKind.TABLE, table.markdown(), html=table.html())


def _markdown_pieces(text: str) -> Iterator[Piece]:
    from markdown_it import MarkdownIt

    lines = text.splitlines()
    tokens = MarkdownIt("commonmark").enable("table").parse("\n".join(lines))
    for index, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip()
        yield from _piece(token, tokens[index:], source)


def _piece(token: Token, rest: Sequence[Token], source: str) -> Iterator[Piece]:
    if token.type == "heading_open":
        title = " ".join(rest[1].content.split())
        if title:
            yield Piece(BlockKind.HEADING, title, level=int(token.tag[1]))
    elif token.type in ("bullet_list_open", "ordered_list_open"):
        yield Piece(BlockKind.LIST, source)
    elif token.type == "table_open":
        yield from _table_pieces(_pipe_table_html(rest))
    elif token.type == "html_block":
        bare = _TAG.sub(" ", source).strip()
        if bare:
            yield Piece(BlockKind.PARAGRAPH, bare)
    elif token.type in ("fence", "code_block"):
        if token.content.strip():
            yield Piece(BlockKind.PARAGRAPH, token.content.strip())
    elif token.type != "hr" and source:
        yield _paragraph(source)


def _paragraph(source: str) -> Piece:
    if _DISPLAY_MATH.match(source):
        return Piece(BlockKind.EQUATION, source)
    if _FIGURE.match(source):
        return Piece(BlockKind.FIGURE, _FIGURE.sub("", source))
    return Piece(BlockKind.PARAGRAPH, source)


def _pipe_table_html(tokens: Sequence[Token]) -> str:
    """A Markdown table as HTML: the renderer's tags around the cells' own source."""
    from html import escape

    parts: list[str] = []
    for token in tokens:
        if token.type in ("tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close"):
            parts.append(f"<{'/' if token.nesting < 0 else ''}{token.tag}>")
        elif token.type == "inline":
            parts.append(escape(token.content))
        elif token.type == "table_close":
            break
    return f"<table>{''.join(parts)}</table>"


def _unwrapped(reply: str) -> str:
    """The reply without the code fence or the introduction that models like to put around it."""
    text = _PREAMBLE.sub("", reply)
    if (fence := _FENCE.match(text)) and "```" not in fence[1]:
        text = fence[1]
    return text.strip()


def _shortened(text: str, longest: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[:longest].rstrip() + "…"
