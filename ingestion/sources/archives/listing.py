"""An archive as a document: a list of what lies in it, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assistant.core.domain import BlockKind
from assistant.core.errors import EmptyFile, EncryptedFile
from assistant.core.settings import LimitSettings
from ingestion.sources.archives.entries import losses
from ingestion.sources.drawn import SectionSource
from ingestion.sources.enclosed import Enclosed, shown_size
from ingestion.sources.sections import Part, sections, table_part
from ingestion.tables import table_of

LOCKED = "behind a password"
_MOST_LISTED = 20_000


class ArchiveSource(SectionSource):
    """What lies in an archive is ``enclosed``; those that are left out among it, which nobody may open."""

    def __init__(
        self, enclosed: Sequence[Enclosed], name: str, kind: str, media_type: str, problem: str, limits: LimitSettings
    ) -> None:
        """``kind``: what people call such an archive; ``problem``: a sentence about what could not be read of it."""
        if not enclosed and not problem:
            raise EmptyFile(f"There is no file in the archive {name}")
        if enclosed and all(each.about.left_out == LOCKED for each in enclosed):
            raise EncryptedFile(f"Everything in the archive {name} is {LOCKED}", "Unpack it and send what is in it")
        self.enclosed = enclosed
        self.damage = " ".join(filter(None, (problem, losses(enclosed))))
        super().__init__(name, media_type, sections(_parts(enclosed, name, kind, self.damage)), limits)


def _parts(enclosed: Sequence[Enclosed], name: str, kind: str, damage: str) -> Iterator[Part]:
    size = sum(each.about.size for each in enclosed)
    yield Part(BlockKind.HEADING, name, level=1)
    yield Part(BlockKind.PARAGRAPH, f"{kind} with {len(enclosed)} files, {shown_size(size)} unpacked.")
    if damage:
        yield Part(BlockKind.PARAGRAPH, damage)
    rows = [
        [each.about.path, shown_size(each.about.size), _fate(each.about.left_out)] for each in enclosed[:_MOST_LISTED]
    ]
    if rows:
        yield table_part(table_of([["File", "Size", "What became of it"], *rows]))
    if len(enclosed) > _MOST_LISTED:
        yield Part(BlockKind.PARAGRAPH, f"… and {len(enclosed) - _MOST_LISTED} more.")


def _fate(left_out: str) -> str:
    return f"left out: {left_out}" if left_out else "a document of its own"
