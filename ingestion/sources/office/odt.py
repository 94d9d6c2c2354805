"""OpenDocument texts as sections, running heads and feet once each."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from assistant.core.domain import BlockKind
from assistant.core.settings import LimitSettings
from ingestion.sources.drawn import SectionSource
from ingestion.sources.office.flow import running
from ingestion.sources.office.lists import joined_lists
from ingestion.sources.office.odftext import CONTENT, STYLES, OdfStyles, OdfText
from ingestion.sources.package import Package
from ingestion.sources.sections import Part, sections
from ingestion.sources.xmlparts import kid, kids

_MEDIA = "application/vnd.oasis.opendocument.text"
_HEADS = ("style:header", "style:header-left", "style:header-first")
_FEET = ("style:footer", "style:footer-left", "style:footer-first")


class OdtSource(SectionSource):
    """A text, read when it is opened; the package is closed with it."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self._package = package
        super().__init__(package.name, _MEDIA, sections(joined_lists(_parts(package, limits))), limits)
        self.damage = " ".join(f"{problem}." for problem in package.problems)

    def close(self) -> None:
        self._package.close()


def _parts(package: Package, limits: LimitSettings) -> Iterator[Part]:
    content, shared = package.tree(CONTENT), package.tree_if_sound(STYLES)
    styles = OdfStyles()
    for root in (shared, content):
        for name in ("office:styles", "office:automatic-styles"):
            styles.take(kid(root, name))
    walk = OdfText(package, styles, limits)
    masters = list(kids(kid(shared, "office:master-styles"), "style:master-page"))
    yield from _running(walk, masters, _HEADS, BlockKind.HEADER)
    body = kid(content, "office:body", "office:text")
    yield from walk.parts(iter(body if body is not None else ()))
    yield from walk.ending()
    yield from _running(walk, masters, _FEET, BlockKind.FOOTER)


def _running(walk: OdfText, masters: list[Element], names: tuple[str, ...], kind: BlockKind) -> Iterator[Part]:
    return running((walk.parts(iter(head)) for master in masters for head in kids(master, *names)), kind)
