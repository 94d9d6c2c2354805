"""XML as trees with short names, from parts nobody vouches for.

A document type declaration is refused before anything of it is used, so there are no entities to expand and no
outside files to fetch; office formats never have one. Names come out as ``w:p`` whatever prefix the file chose,
and the same for the transitional and the strict form of Office Open XML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NoReturn
from xml.etree.ElementTree import Element, ParseError, iterparse
from xml.parsers import expat

_PIECE = 65_536
_LEAST_PRINTED = "http://schemas.openxmlformats.org/"
_STRICT = "http://purl.oclc.org/ooxml/"
_PREFIXES = {
    "wordprocessingml/2006/main": "w",
    "wordprocessingml/main": "w",
    "spreadsheetml/2006/main": "",
    "spreadsheetml/main": "",
    "presentationml/2006/main": "p",
    "presentationml/main": "p",
    "drawingml/2006/main": "a",
    "drawingml/main": "a",
    "drawingml/2006/chart": "c",
    "drawingml/chart": "c",
    "drawingml/2006/diagram": "dgm",
    "drawingml/diagram": "dgm",
    "drawingml/2006/picture": "pic",
    "drawingml/picture": "pic",
    "drawingml/2006/wordprocessingDrawing": "wp",
    "drawingml/wordprocessingDrawing": "wp",
    "drawingml/2006/spreadsheetDrawing": "xdr",
    "drawingml/spreadsheetDrawing": "xdr",
    "officeDocument/2006/math": "m",
    "officeDocument/math": "m",
    "officeDocument/2006/relationships": "r",
    "officeDocument/relationships": "r",
    "package/2006/relationships": "",
    "package/2006/content-types": "",
    "markup-compatibility/2006": "mc",
}
_OTHER = {
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.w3.org/1998/Math/MathML": "math",
    "http://purl.org/dc/elements/1.1/": "dc",
    "urn:schemas-microsoft-com:vml": "v",
    "urn:schemas-microsoft-com:office:office": "o",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingShape": "wps",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "tc",
    "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0": "fo",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0": "svg",
}
_OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns:"


class ForbiddenXmlError(ValueError):
    """The XML declares a document type, and with it entities."""


def tree(stream: BinaryIO) -> Element:
    """The root of an XML document. ForbiddenXmlError; ParseError when it is not well-formed."""
    root: Element | None = None
    for _, element in iterparse(_guarded(stream), events=("end",)):
        root = element
    if root is None:
        raise ParseError("no element in it")
    return named(root)


def pieces(stream: BinaryIO, container: str | None = None, without: str = "", until: str = "") -> Iterator[Element]:
    """The children of the element called ``container`` (None: of the root), one at a time and then forgotten, so
    that a document of any length takes little memory; a child called ``without`` comes empty, and where an element
    called ``until`` begins, nothing more is read. Errors as ``tree``; what came before one has been given."""
    for _, child in pieces_within(stream, container, without, until):
        yield child


def pieces_within(
    stream: BinaryIO, container: str | None = None, without: str = "", until: str = ""
) -> Iterator[tuple[Element, Element]]:
    """As ``pieces``, of every element called so that does not stand within another, each child with its parent
    (of which only name and attributes can be relied on)."""
    open_now: list[Element] = []
    start = 0  # how many are open when the container is the innermost; 0: it is not open
    for event, element in iterparse(_guarded(stream), events=("start", "end")):
        if event == "start":
            if until and short(element.tag) == until:
                return
            open_now.append(element)
            if not start and (container is None or short(element.tag) == container):
                start = len(open_now)
                _rename(element)
            continue
        open_now.pop()
        depth = len(open_now)
        if start and depth == start:
            yield open_now[-1], named(element)
            open_now[-1].remove(element)
        elif depth < start:
            start = 0
        elif depth and (not start or (depth == start + 1 and short(open_now[-1].tag) == without)):
            open_now[-1].remove(element)  # what is not asked for is not kept


def named(element: Element) -> Element:
    """``element`` and all below it with short names."""
    for node in element.iter():
        _rename(node)
    return element


def _rename(node: Element) -> None:
    node.tag = short(node.tag)
    if any(key.startswith("{") for key in node.attrib):
        node.attrib = {short(key): value for key, value in node.attrib.items()}


_known: dict[str, str] = {}


def short(name: str) -> str:
    """``{namespace}local`` as ``prefix:local``; ``local`` alone where the namespace is a sheet's or a package's."""
    found = _known.get(name)
    if found is None:
        found = _short(name)
        if len(_known) < 20_000:
            _known[name] = found
    return found


def _short(name: str) -> str:
    if not name.startswith("{"):
        return name
    space, _, local = name[1:].partition("}")
    prefix = _OTHER.get(space)
    for start in (_LEAST_PRINTED, _STRICT):
        if space.startswith(start):
            prefix = _PREFIXES.get(space.removeprefix(start))
    if prefix is None and space.startswith(_OPEN_DOCUMENT):
        prefix = space.removeprefix(_OPEN_DOCUMENT).partition(":")[0]
    if prefix is None:
        prefix = "other"
    return f"{prefix}:{local}" if prefix else local


class _Begun(Exception):
    """The root element was reached: no document type can follow."""


def _guarded(stream: BinaryIO) -> _Replayed:
    """The stream, from its beginning, once it is known to declare no document type."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> NoReturn:
        raise ForbiddenXmlError("it declares a document type")

    def begun(*_: object) -> NoReturn:
        raise _Begun

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = begun
    seen: list[bytes] = []
    try:
        while data := stream.read(_PIECE):
            seen.append(data)
            parser.Parse(data, False)
    except _Begun:
        pass
    except expat.ExpatError as error:
        raise ParseError(str(error)) from None
    return _Replayed(b"".join(seen), stream)


class _Replayed:
    """A stream whose first bytes were read already."""

    def __init__(self, seen: bytes, stream: BinaryIO) -> None:
        self._seen = seen
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if self._seen:
            seen, self._seen = self._seen, b""
            return seen
        return self._stream.read(size)


def kid(element: Element | None, *path: str) -> Element | None:
    """The first child called ``path[0]``, its first child called ``path[1]``, and so on; None where one is missing."""
    for name in path:
        if element is None:
            return None
        element = next((child for child in element if child.tag == name), None)
    return element


def kids(element: Element | None, *names: str) -> Iterator[Element]:
    """The children called one of ``names``, in order."""
    if element is not None:
        yield from (child for child in element if child.tag in names)


def value(element: Element | None, key: str, default: str = "") -> str:
    """An attribute, or ``default`` where it or the element is missing."""
    return default if element is None else element.get(key, default)


def number(element: Element | None, key: str, default: int = 0) -> int:
    """An attribute that should be a whole number, or ``default`` where it is none."""
    try:
        return int(float(value(element, key)))
    except (ValueError, OverflowError):
        return default
