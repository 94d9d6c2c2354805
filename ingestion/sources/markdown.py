"""Markdown as parts: headings, paragraphs, lists, tables. Comments and tags of embedded HTML are left out:
a reader of the rendered page would not see them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assistant.core.domain import BlockKind
from ingestion.sources.sections import Part, table_part
from ingestion.tables import table_of

if TYPE_CHECKING:
    from markdown_it.token import Token

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSEEN = re.compile(r"<(script|style|template|head)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
_FRONT_MATTER = re.compile(r"\A---\n(.{0,5000}?)\n---\n", re.DOTALL)


def markdown_parts(text: str) -> Iterator[Part]:
    """The top-level blocks of a Markdown text in order."""
    from markdown_it import MarkdownIt

    front = _FRONT_MATTER.match(text)
    if front:
        yield Part(BlockKind.PARAGRAPH, front.group(1).strip())
        text = text[front.end() :]
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(text)
    lines = text.splitlines()
    for group in _top_level(tokens):
        part = _part(group, lines)
        if part and part.text.strip():
            yield part


def _top_level(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Tokens grouped by the outermost block they belong to."""
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield group
            group = []


def _part(group: list[Token], lines: list[str]) -> Part | None:
    first = group[0]
    source = _source(first, lines)
    if first.type == "heading_open":
        return Part(BlockKind.HEADING, _inline(group), level=int(first.tag[1:]))
    if first.type in ("bullet_list_open", "ordered_list_open"):
        return Part(BlockKind.LIST, _without_html(source))
    if first.type == "table_open":
        return _table(group)
    if first.type == "html_block":
        return Part(BlockKind.PARAGRAPH, _without_html(first.content).strip())
    if first.type in ("fence", "code_block"):
        return Part(BlockKind.PARAGRAPH, source.rstrip())
    if first.type == "hr":
        return None
    return Part(BlockKind.PARAGRAPH, _without_html(source).strip())


def _source(token: Token, lines: list[str]) -> str:
    start, end = token.map or (0, 0)
    return "\n".join(lines[start:end]).rstrip()


def _inline(group: list[Token]) -> str:
    return " ".join(_plain(token) for token in group if token.type == "inline").strip()


def _plain(token: Token) -> str:
    """The text of an inline token without marks."""
    texts: list[str] = []
    for child in token.children or []:
        if child.type in ("text", "code_inline"):
            texts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            texts.append(" ")
        elif child.type == "image":
            texts.append(child.content)
    return "".join(texts)


def _without_html(text: str) -> str:
    return html.unescape(_TAG.sub("", _COMMENT.sub("", _UNSEEN.sub("", text))))


def _table(group: list[Token]) -> Part:
    rows: list[list[str]] = []
    for token in group:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(_plain(token).strip())
    return table_part(table_of(rows))
