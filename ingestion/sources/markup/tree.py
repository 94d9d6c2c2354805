"""HTML as a tree, and which of it a person sees. The only place that knows the parser.

Lexbor follows the HTML standard, runs nothing and fetches nothing. What a style sheet in the file or an element
itself hides is no content: the page shows nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from ingestion.sources.markup.resources import NO_RESOURCES, Resources

Node = LexborNode
TEXT = "-text"

_DEEPEST = 256  # elements within each other; the parser's time grows with the square of the depth
_MOST_EMPTY = 10_000  # tags like <path/>: in HTML, outside of drawings, they nest as well
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]{0,60})[^<>]*>")
# Void elements, and those that end where the next of their kind begins: they do not nest by themselves.
_FLAT = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dd", "dt", "td", "th", "tr", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "rp",
    "rt", "html", "head", "body", "!doctype"
})  # fmt: skip
# XHTML may write these empty as <title/>; read as HTML, everything after would be their text.
_EMPTY = re.compile(
    r"<(title|script|style|textarea|iframe|noscript|xmp|noembed|noframes|a|div|span|p)(\s[^<>]{0,500})?/>",
    re.IGNORECASE,
)

_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|opacity\s*:\s*0(?:\.0+)?\s*(?:;|!|$)|(?:left|top|text-indent)\s*:\s*-\d{3,}|mso-hide\s*:\s*all",
    re.IGNORECASE,
)
_SHOWING = re.compile(r"display\s*:\s*(?!none)[a-z]|visibility\s*:\s*visible", re.IGNORECASE)
_WHITE = re.compile(
    r"(?:^|;)\s*color\s*:\s*(?:#fff(?:fff)?\b|white\b|rgba?\(\s*255\s*,\s*255\s*,\s*255\b)", re.IGNORECASE
)
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_TINY = re.compile(r"font-size\s*:\s*(?:0(?:\.0+)?(?:[a-z]{2,3}|%)?|[01](?:\.\d+)?p[xt])\s*(?:;|!|$)", re.IGNORECASE)
_BRACE = re.compile(r"[{}]")
_MOST_RULES = 400
_MOST_SHEETS = 50


class Tree:
    """A parsed text. ``hides`` tells which elements show nothing."""

    def __init__(self, text: str, beside: Resources = NO_RESOURCES) -> None:
        parser = LexborHTMLParser(
            _flattened(_EMPTY.sub(r"<\1\2></\1>", text)).encode("utf-8", "replace").decode("utf-8")
        )
        self._parser = parser
        self._holding: dict[str, frozenset[int]] = {}
        self._styles = "\n".join((*(node.text() for node in parser.css("style")), *self._linked_sheets(beside)))
        self._hidden = self._hidden_by_sheet()

    def _linked_sheets(self, beside: Resources) -> Iterator[str]:
        """Style sheets that lie beside the text in the same file."""
        for link in self._parser.css("link[rel=stylesheet]")[:_MOST_SHEETS]:
            load = beside(link.attributes.get("href") or "")
            if load is not None:
                yield load().decode("utf-8", "replace")

    @property
    def body(self) -> Node | None:
        return self._parser.body or self._parser.root

    @property
    def title(self) -> str:
        node = self._parser.css_first("head title")
        return " ".join(node.text().split()) if node is not None else ""

    def first(self, selector: str) -> Node | None:
        """The first element that a selector finds."""
        return self._parser.css_first(selector)

    def all(self, selector: str) -> list[Node]:
        """All elements that a selector finds."""
        return list(self._parser.css(selector))

    def holding(self, selector: str) -> frozenset[int]:
        """Ids (``mem_id``) of the elements that hold one that a selector finds; found once for the whole tree."""
        known = self._holding.get(selector)
        if known is None:
            held: set[int] = set()
            for node in self._parser.css(selector):
                above = node.parent
                while above is not None and above.mem_id not in held:
                    held.add(above.mem_id)
                    above = above.parent
            known = self._holding[selector] = frozenset(held)
        return known

    def hides(self, node: Node) -> bool:
        """Whether the element and what stands in it cannot be seen."""
        if node.mem_id in self._hidden:
            return True
        attributes = node.attributes
        if "hidden" in attributes:
            return True
        style = attributes.get("style") or ""
        if not style:
            return False
        return _HIDING.search(style) is not None or self._is_tiny(node, style) or self._is_white(node, style)

    def _is_tiny(self, node: Node, style: str) -> bool:
        """Type of no size, unless it is a frame whose contents set their own (as templates of mail have)."""
        return _TINY.search(style) is not None and node.mem_id not in self.holding("[style*=font-size]")

    def _is_white(self, node: Node, style: str) -> bool:
        """White text where nothing in the file gives it another ground than the white of a page."""
        if not _WHITE.search(style) or self._styles:
            return False
        place: Node | None = node
        for _ in range(_DEEPEST):
            if place is None:
                return True
            if place.attributes and (
                "bgcolor" in place.attributes
                or "background" in place.attributes
                or "background" in (place.attributes.get("style") or "")
            ):
                return False
            place = place.parent
        return False

    def _hidden_by_sheet(self) -> frozenset[int]:
        """What the file's own style sheets hide. A sheet that would hide most of the page waits for a script
        to show it: there the whole is taken as seen."""
        hiding, showing = _hiding_selectors(self._styles)
        found = {node.mem_id: node for selector in hiding for node in self._select(selector)}
        for selector in showing if found else []:
            for node in self._select(selector):
                found.pop(node.mem_id, None)
        kept = {key: node for key, node in found.items() if not _SHOWING.search(node.attributes.get("style") or "")}
        body = self.body
        if body is None or not kept:
            return frozenset()
        letters = sum(len(node.text()) for node in kept.values())
        return frozenset() if letters > 0.5 * len(body.text()) else frozenset(kept)

    def _select(self, selector: str) -> list[Node]:
        try:
            return list(self._parser.css(selector))
        except (SelectolaxError, ValueError):
            return []


def children(node: Node) -> Iterator[Node]:
    """Elements and texts directly below."""
    child = node.first_child
    while child is not None:
        if child.tag is not None and (child.tag == TEXT or not child.tag.startswith(("-", "_", "!"))):
            yield child
        child = child.next


def _hiding_selectors(sheet: str) -> tuple[list[str], list[str]]:
    """Selectors of the rules that hide, and of those that show. Rules for other media do not count."""
    hiding: list[str] = []
    showing: list[str] = []
    for selector, body in _rules(_CSS_COMMENT.sub(" ", sheet)):
        if ":" in selector or len(selector) > 1000:
            continue  # a state (hover), or something drawn beside an element (before)
        if _HIDING.search(body):
            hiding.append(selector)
        elif _SHOWING.search(body):
            showing.append(selector)
    return hiding[:_MOST_RULES], showing[:_MOST_RULES]


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Selector and body of the rules, without blocks that begin with @ (print, small screens, animations)."""
    depth = start = opened = 0
    for match in _BRACE.finditer(sheet):
        if match[0] == "{":
            depth += 1
            opened = match.end() if depth == 1 else opened
        elif depth:
            depth -= 1
            if depth == 0:
                selector = sheet[start : opened - 1].rsplit(";", 1)[-1].strip()
                if selector and "@" not in selector:
                    yield selector, sheet[opened : match.start()]
                start = match.end()


def _flattened(text: str) -> str:
    """The text without the tags that would nest deeper than any page needs."""
    depth = empty = 0

    def tag(match: re.Match[str]) -> str:
        nonlocal depth, empty
        if match[2].lower() in _FLAT:
            return match[0]
        if match[0].endswith("/>"):
            empty += 1
            return match[0] if empty <= _MOST_EMPTY else ""
        if not match[1]:
            depth += 1
            return match[0] if depth <= _DEEPEST else ""
        depth -= 1 if depth else 0
        return match[0] if depth < _DEEPEST else ""

    return _TAG.sub(tag, text)
