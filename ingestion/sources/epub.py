"""Books (EPUB 2 and 3): their chapters in reading order, each beginning a page, with headings from the contents."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError

from assistant.core.domain import BlockKind
from assistant.core.errors import EncryptedFile, PeritoError, UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources import xmlparts
from ingestion.sources.drawn import SectionSource
from ingestion.sources.inlays import inlay_of
from ingestion.sources.markup import Resources, decode_markup, markup_parts
from ingestion.sources.markup.resources import Load
from ingestion.sources.markup.tree import Tree
from ingestion.sources.package import Package
from ingestion.sources.sections import Part, Section, sections

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_DOCTYPE = re.compile(rb"<!DOCTYPE[^\[>]*>", re.IGNORECASE)  # older books have one; one with entities is refused
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # fonts are only disguised
_MOST_CHAPTERS = 5_000
_HEADINGS_LOOKED_AT = 3  # parts at a chapter's beginning among which its own heading stands


class EpubSource(SectionSource):
    """A book. UnreadableFile, EncryptedFile (protected against copying), TooLarge, EmptyFile."""

    def __init__(self, path: Path, name: str, limits: LimitSettings) -> None:
        self._package = Package(path, name, limits)
        try:
            book = Book(self._package, limits)
            super().__init__(name, "application/epub+zip", book.sections(), limits)
        except BaseException:
            self._package.close()
            raise
        self.damage = " ".join(f"{problem}." for problem in dict.fromkeys(self._package.problems))

    def close(self) -> None:
        self._package.close()


class Book:
    """What a book's own lists say of it."""

    def __init__(self, package: Package, limits: LimitSettings) -> None:
        self._package = package
        self._limits = limits
        self._refuse_protected()
        self._root = self._listed()
        opf = self._tree(self._root)
        self._folder = posixpath.dirname(self._root)
        self._items = {item.get("id", ""): item for item in _all(opf, "item")}
        self._spine = [ref.get("idref", "") for ref in _all(opf, "itemref")][:_MOST_CHAPTERS]
        self._about = [element for element in _all(opf, "metadata") for element in element]
        self._contents = self._ncx(opf) or self._nav()

    def sections(self) -> Iterator[Section]:
        """The book's pages."""
        chapters = (self._chapter(self._items[idref]) for idref in self._spine if idref in self._items)
        first = list(self._title())
        for parts in chapters:
            yield from sections(chain(first, parts))
            first = []
        if first:
            yield from sections(first)

    def _title(self) -> Iterator[Part]:
        """Who wrote it and what it is called, before everything."""
        title = ": ".join(self._meta("title"))
        if title:
            yield Part(BlockKind.HEADING, title, level=1)
        rest = ", ".join([*self._meta("creator"), *self._meta("publisher"), *self._meta("date")[:1]])
        if rest:
            yield Part(BlockKind.PARAGRAPH, rest)

    def _meta(self, name: str) -> list[str]:
        return [" ".join((each.text or "").split()) for each in self._about if _local(each) == name and each.text]

    def _chapter(self, item: Element) -> Iterator[Part]:
        """The parts of a chapter, below its heading in the contents where it has none itself."""
        part = self._path(item.get("href", ""))
        kind = item.get("media-type", "")
        try:
            if kind.startswith("image/"):
                inlay = inlay_of(partial(self._package.data, part), self._limits)
                yield from [Part(BlockKind.FIGURE, "", inlay=inlay)] if inlay else []
                return
            text = decode_markup(self._package.data(part))
        except PeritoError as error:
            self._package.problems.append(error.message)
            return
        seen = markup_parts(text or "", self._limits, self._beside(part), titled=False)
        begin = list(islice(seen, _HEADINGS_LOOKED_AT))
        named = self._contents.get(part)
        if named and named[1] not in self._meta("title") and not any(each.kind is BlockKind.HEADING for each in begin):
            yield Part(BlockKind.HEADING, named[1], level=named[0])
        yield from begin
        yield from seen

    def _beside(self, part: str) -> Resources:
        """What lies in the book, as seen from one of its parts."""
        folder = posixpath.dirname(part)

        def find(address: str) -> Load | None:
            if re.match(r"[a-zA-Z][\w+.-]*:|//", address):
                return None
            wanted = posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0]))).lstrip("/")
            return partial(self._package.data, wanted) if wanted in self._package else None

        return find

    # -- its lists ----------------------------------------------------------------------------

    def _refuse_protected(self) -> None:
        listed = self._package.tree_if_sound(_ENCRYPTION)
        methods = {each.get("Algorithm", "") for each in _all(listed, "EncryptionMethod")}
        if methods - set(_FONTS):
            raise EncryptedFile(
                f"{self._package.name} is protected against copying (DRM)", "Ask its publisher for a copy without that"
            )

    def _listed(self) -> str:
        """Where the book's list stands."""
        paths = (each.get("full-path", "") for each in _all(self._tree(_CONTAINER), "rootfile"))
        found = next((path for path in paths if path in self._package), "")
        if not found:
            raise UnreadableFile(f"{self._package.name} is damaged: the list of its chapters is missing")
        return found

    def _ncx(self, opf: Element) -> dict[str, tuple[int, str]]:
        """The contents of a book of the second version: part to level and title."""
        told = next((spine.get("toc", "") for spine in _all(opf, "spine")), "")
        item = self._items.get(told) or next(
            (each for each in self._items.values() if each.get("media-type") == "application/x-dtbncx+xml"), None
        )
        tree = self._tree_if_sound(self._path(item.get("href", ""))) if item is not None else None
        found: dict[str, tuple[int, str]] = {}
        pending = [(each, 1) for each in _all(tree, "navMap")][::-1]
        while pending:
            element, level = pending.pop()
            points = [each for each in element if _local(each) == "navPoint"]
            for point in points:
                self._note(found, point, level)
            pending += [(point, min(6, level + 1)) for point in reversed(points)]
        return found

    def _note(self, found: dict[str, tuple[int, str]], point: Element, level: int) -> None:
        label = next((each for each in point if _local(each) == "navLabel"), None)
        title = " ".join("".join(label.itertext()).split()) if label is not None else ""
        content = next((each for each in point if _local(each) == "content"), None)
        if title and content is not None:
            found.setdefault(self._path(content.get("src", "")), (level, title))

    def _nav(self) -> dict[str, tuple[int, str]]:
        """The contents of a book of the third version, which are a page."""
        item = next((each for each in self._items.values() if "nav" in each.get("properties", "").split()), None)
        part = self._path(item.get("href", "")) if item is not None else ""
        if part not in self._package:
            return {}
        page = Tree(decode_markup(self._package.data(part)) or "")
        folder = posixpath.dirname(part)
        found: dict[str, tuple[int, str]] = {}
        for link in page.all("nav[epub\\:type=toc] a, nav[role=doc-toc] a") or page.all("nav a"):
            title = " ".join(link.text().split())
            if title:
                found.setdefault(_joined(folder, link.attributes.get("href") or ""), (1, title))
        return found

    def _path(self, href: str) -> str:
        return _joined(self._folder, href)

    def _tree(self, part: str) -> Element:
        return self._parsed(part, self._package.data(part))

    def _tree_if_sound(self, part: str) -> Element | None:
        return self._sound(lambda: self._tree(part)) if part in self._package else None

    def _sound(self, read: Callable[[], Element]) -> Element | None:
        try:
            return read()
        except UnreadableFile as error:
            if "is refused" in error.message:
                raise
            self._package.problems.append(error.message)
            return None

    def _parsed(self, part: str, data: bytes) -> Element:
        try:
            return xmlparts.tree(io.BytesIO(_DOCTYPE.sub(b"", data, count=1)))
        except xmlparts.ForbiddenXmlError:
            message = f"{self._package.name} is refused: {part} declares XML entities, which no book does"
            raise UnreadableFile(message, "Do not open it; ask whoever sent it") from None
        except (ParseError, ValueError, LookupError) as error:
            raise UnreadableFile(f"{self._package.name} is damaged: {part} cannot be read ({error})") from None


def _joined(folder: str, href: str) -> str:
    path = unquote(href.partition("#")[0])
    return posixpath.normpath(posixpath.join(folder, path)).lstrip("/") if path else ""


def _local(element: Element) -> str:
    return element.tag.rpartition(":")[2] if isinstance(element.tag, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance] - comments


def _all(tree: Element | None, name: str) -> Iterator[Element]:
    """The elements of that name, whatever their namespace."""
    return (each for each in tree.iter() if _local(each) == name) if tree is not None else iter(())
