"""A letter as pages: who wrote to whom and when, what was written, and what hangs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from assistant.core.domain import BlockKind
from assistant.core.settings import LimitSettings
from ingestion.sources.drawn import SectionSource
from ingestion.sources.enclosed import Enclosed, plain_path, shown_size, told_apart
from ingestion.sources.markup import NO_RESOURCES, Resources, markup_parts
from ingestion.sources.markup.resources import Load
from ingestion.sources.sections import Part, plain_parts, sections

_MUCH_LESS = 0.5  # of the plain text's letters, below which the HTML only says that there is one


@dataclass(frozen=True, slots=True)
class Letter:
    """``headers``: those people look at, in order, with their names. ``html`` and ``text`` are the same in two
    forms, or one of them is empty. ``beside`` is what the HTML may show, by its addresses. ``notes`` are
    sentences about what of it cannot be read."""

    subject: str
    headers: tuple[tuple[str, str], ...]
    html: str = ""
    text: str = ""
    beside: Mapping[str, Load] = field(default_factory=dict[str, Load])
    enclosed: tuple[Enclosed, ...] = ()
    notes: tuple[str, ...] = ()


class LetterSource(SectionSource):
    """A mail. What hangs on it is ``enclosed``."""

    def __init__(self, letter: Letter, name: str, media_type: str, limits: LimitSettings) -> None:
        self.enclosed: Sequence[Enclosed] = _named_apart(letter.enclosed)
        self.damage = " ".join(letter.notes)
        super().__init__(name, media_type, sections(_parts(letter, self.enclosed, limits)), limits)


def _named_apart(enclosed: Sequence[Enclosed]) -> list[Enclosed]:
    paths = told_apart([plain_path(each.about.path) for each in enclosed])
    return [replace(each, about=replace(each.about, path=path)) for each, path in zip(enclosed, paths, strict=True)]


def _parts(letter: Letter, enclosed: Sequence[Enclosed], limits: LimitSettings) -> Iterator[Part]:
    if letter.subject:
        yield Part(BlockKind.HEADING, letter.subject, level=1)
    lines = [f"{name}: {value}" for name, value in letter.headers if value]
    if enclosed:
        hanging = (f"{each.about.path} ({shown_size(each.about.size)})" for each in enclosed)
        lines.append("Attachments: " + ", ".join(hanging))
    if lines:
        yield Part(BlockKind.PARAGRAPH, "\n".join(lines))
    yield from _body(letter, limits)
    for note in letter.notes:
        yield Part(BlockKind.PARAGRAPH, note)


def _body(letter: Letter, limits: LimitSettings) -> list[Part]:
    """The HTML where it says as much as the plain text."""
    plain = list(plain_parts(letter.text))
    if not letter.html:
        return plain
    beside = _find_in(letter.beside) if letter.beside else NO_RESOURCES
    seen = [
        replace(part, level=min(6, part.level + 1)) if part.level else part
        for part in markup_parts(letter.html, limits, beside, titled=False)
    ]
    return plain if _letters(seen) < _MUCH_LESS * _letters(plain) else seen


def _find_in(beside: Mapping[str, Load]) -> Resources:
    def find(address: str) -> Load | None:
        return beside.get(address) or beside.get(unquote(address))

    return find


def _letters(parts: Sequence[Part]) -> int:
    return sum(character.isalnum() for part in parts for character in part.text)
