"""Lists of text documents: items as lines, and lines that follow each other as one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assistant.core.domain import BlockKind
from ingestion.sources.office.docxstyles import Marker
from ingestion.sources.sections import Part


def item(marker: Marker, text: str) -> str:
    """An item with its number or bullet, indented by its depth."""
    indent = "  " * marker.depth
    first, *more = text.split("\n")
    return "\n".join([f"{indent}{marker.text or '-'} {first}", *(f"{indent}  {line}" for line in more)])


def joined_lists(parts: Iterable[Part]) -> Iterator[Part]:
    """Items that follow each other as one list."""
    held: list[str] = []
    for part in parts:
        if part.kind is BlockKind.LIST:
            held.append(part.text)
            continue
        if held:
            yield Part(BlockKind.LIST, "\n".join(held))
            held = []
        yield part
    if held:
        yield Part(BlockKind.LIST, "\n".join(held))
