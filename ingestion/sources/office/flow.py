"""What Word's and OpenDocument's texts have in common once they are parts: cells, running heads and feet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assistant.core.domain import BlockKind
from ingestion.sources.sections import Part


def cell_text(parts: Iterable[Part], kept: list[Part]) -> str:
    """What a table's cell says; pictures in it go to ``kept``, a table in it is told row by row."""
    texts: list[str] = []
    for part in parts:
        if part.inlay is not None:
            kept.append(part)
        elif part.table is not None:
            texts += ["; ".join(text for text in row if text) for row in part.table.grid()]
        elif part.text:
            texts.append(part.text)
    return "\n".join(texts)


def running(contents: Iterable[Iterable[Part]], kind: BlockKind) -> Iterator[Part]:
    """Running heads or feet, each text once."""
    seen: set[str] = set()
    for content in contents:
        parts = list(content)
        text = "\n".join(part.text for part in parts if part.text.strip())
        if any(letter.isalpha() for letter in text) and text not in seen:
            yield Part(kind, text)
        seen.add(text)
        yield from (part for part in parts if part.inlay)
