"""The walk over what a person sees of an HTML text: headings, paragraphs, lists, tables, figures, captions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from assistant.core.domain import BlockKind
from assistant.core.settings import LimitSettings
from ingestion.sources.inlays import inlay_of
from ingestion.sources.markup.cells import is_data, is_one_line, read_cells
from ingestion.sources.markup.resources import NO_RESOURCES, Resources, find_picture
from ingestion.sources.markup.tree import TEXT, Node, Tree, children
from ingestion.sources.sections import Part, table_part

_UNSEEN = frozenset({
    "script", "style", "template", "noscript", "head", "iframe", "object", "embed", "audio", "video", "canvas",
    "button", "datalist", "map"
})  # fmt: skip
_MENUS = frozenset({
    "navigation", "menu", "menubar", "toolbar", "search", "dialog", "alertdialog", "tablist"
})  # fmt: skip
# What pages themselves mark as no part of them when printed, and the links a wiki sets beside its headings.
_NOT_PRINTED = frozenset({
    "noprint", "no-print", "d-print-none", "hidden-print", "print-hidden", "print-hide", "mw-editsection",
    "mw-jump-link"
})  # fmt: skip
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figure", "footer", "form", "header", "hgroup", "html", "legend", "li", "main", "optgroup", "p",
    "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr"
})  # fmt: skip
_COMPLEX = "table, h1, h2, h3, h4, h5, h6, pre, figure, img, svg, blockquote"
_DEEPEST = 120  # elements within each other that are walked; what lies deeper comes as bare text
_MAIN_SHARE = 0.3  # of the page's letters, from which what is marked as its main part is all that is read
_MOST_INLAYS = 2_000  # pictures in one text
_BREAK = "\x1e"  # stands for a line break while white space is not settled yet
_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_BREAKS = re.compile(rf" ?{_BREAK} ?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffe\uffff\u200b\u00ad]")
_RAISED = str.maketrans("0123456789+-()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789+-()", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎")
_SHORT_SIGN = re.compile(r"[0-9+\-()n]{1,3}")
_FILE_NAME = re.compile(r"[\w %.-]+\.(?:png|jpe?g|gif|svg|webp|bmp)", re.IGNORECASE)


def markup_parts(
    text: str, limits: LimitSettings, beside: Resources = NO_RESOURCES, *, titled: bool = True
) -> Iterator[Part]:
    """What a person sees of an HTML text, in order. Menus and, where the page says which its main part is, what
    stands around that are left out; the foot of a page comes as a footer. Its title comes first where nothing
    in it is a first heading, unless it is not ``titled``."""
    tree = Tree(text, beside)
    root = _main(tree) or tree.body
    if root is None:
        return
    walk = Walk(tree, limits, beside)
    walk.into(root)
    walk.end_paragraph()
    if titled and tree.title and not any(part.level == 1 for part in walk.parts):
        yield Part(BlockKind.HEADING, _settled(tree.title), level=1)
    yield from walk.parts


def _main(tree: Tree) -> Node | None:
    """The element that the page calls its main part, where it holds a good share of its text."""
    found = [node for node in tree.all("main, [role=main]") if not tree.hides(node)]
    if len(found) != 1 or tree.body is None:
        return None
    letters = len(found[0].text().split()), len(tree.body.text().split())
    return found[0] if letters[0] >= _MAIN_SHARE * letters[1] else None


class Walk:
    """Collects parts. ``into`` walks an element; ``end_paragraph`` ends the running text."""

    def __init__(self, tree: Tree, limits: LimitSettings, beside: Resources) -> None:
        self.parts: list[Part] = []
        self._tree = tree
        self._limits = limits
        self._beside = beside
        self._running: list[str] = []
        self._kind = BlockKind.PARAGRAPH
        self._inlays = 0
        self._special: dict[str, Callable[[Node, int], None]] = {
            **dict.fromkeys(_HEADINGS, self._heading),
            **dict.fromkeys(("pre", "listing", "xmp"), self._preformatted),
            **dict.fromkeys(("ul", "ol", "menu"), self._list),
            **dict.fromkeys(("del", "s", "strike"), self._struck),
            "br": self._break,
            "hr": self._rule,
            "dl": self._terms,
            "table": self._table,
            "img": self._image,
            "svg": self._drawing,
            "math": self._formula,
            "sup": self._raised,
            "sub": self._lowered,
            "input": self._field,
            "select": self._choice,
            "footer": self._footer,
            "figcaption": lambda node, depth: self._as(BlockKind.CAPTION, node, depth),
        }

    def into(self, node: Node, depth: int = 0) -> None:
        """Everything below ``node``."""
        for child in children(node):
            if child.tag == TEXT:
                self._running.append(child.text_content or "")
            elif not self._is_left_out(child):
                self._element(child, child.tag or "", depth)

    def end_paragraph(self) -> None:
        """What was running becomes a part."""
        text = _settled("".join(self._running))
        self._running.clear()
        if text:
            self.parts.append(Part(self._kind, text))

    def _is_left_out(self, node: Node) -> bool:
        if node.tag in _UNSEEN or node.tag == "nav" or self._tree.hides(node):
            return True
        attributes = node.attributes
        if not _NOT_PRINTED.isdisjoint((attributes.get("class") or "").split()):
            return True
        return (attributes.get("role") or "").lower() in _MENUS or (node.tag == "ul" and _is_language_menu(node))

    def _element(self, node: Node, tag: str, depth: int) -> None:
        if depth > _DEEPEST:
            self._running.append(bare_text(node, self._tree))
            return
        special = self._special.get(tag)
        if special is not None:
            special(node, depth)
        elif tag in _BLOCKS:
            self._block(node, depth)
        else:
            self.into(node, depth + 1)

    def _block(self, node: Node, depth: int) -> None:
        self.end_paragraph()
        self.into(node, depth + 1)
        self.end_paragraph()

    def _as(self, kind: BlockKind, node: Node, depth: int) -> None:
        """Its paragraphs are of another kind."""
        self.end_paragraph()
        former, self._kind = self._kind, kind
        self._block(node, depth)
        self._kind = former

    def _footer(self, node: Node, depth: int) -> None:
        within = node.parent is not None and node.parent.tag not in ("body", "div", "html")
        if within or self._kind is not BlockKind.PARAGRAPH:
            self._block(node, depth)
        else:
            self._as(BlockKind.FOOTER, node, depth)

    def _heading(self, node: Node, depth: int) -> None:
        if node.css_first("img, table, svg") is not None:
            first = len(self.parts)
            self._block(node, depth)
            self.parts[first:] = [
                Part(BlockKind.HEADING, part.text, level=int((node.tag or "h6")[1]))
                if part.kind is BlockKind.PARAGRAPH
                else part
                for part in self.parts[first:]
            ]
            return
        self.end_paragraph()
        text = self.inline(node, depth).replace("\n", " ")
        if text:
            self.parts.append(Part(BlockKind.HEADING, text, level=int((node.tag or "h6")[1])))

    def inline(self, node: Node, depth: int = 0) -> str:
        """The text of an element on its own, its blocks joined by line breaks."""
        inner = Walk(self._tree, self._limits, self._beside)
        inner._inlays = _MOST_INLAYS  # pictures within are read for their alternative text only
        inner.into(node, depth + 1)
        inner.end_paragraph()
        return "\n".join(part.text for part in inner.parts if part.text)

    def _break(self, node: Node, depth: int) -> None:  # noqa: ARG002 - all special elements are called alike
        self._running.append(_BREAK)

    def _rule(self, node: Node, depth: int) -> None:  # noqa: ARG002
        self.end_paragraph()

    def _preformatted(self, node: Node, depth: int) -> None:  # noqa: ARG002
        self.end_paragraph()
        text = _CONTROLS.sub("", bare_text(node, self._tree)).replace("\r\n", "\n").strip("\n").rstrip()
        if text.strip():
            code = node.css_first("code, samp, kbd") is not None
            self.parts.append(Part(BlockKind.PARAGRAPH, f"```\n{text}\n```" if code else text))

    def _list(self, node: Node, depth: int) -> None:
        if node.mem_id in self._tree.holding(_COMPLEX):
            self._block(node, depth)
            return
        self.end_paragraph()
        text = "\n".join(self._list_lines(node, depth, ""))
        if text.strip():
            kind = BlockKind.LIST if self._kind is BlockKind.PARAGRAPH else self._kind
            self.parts.append(Part(kind, text))

    def _list_lines(self, node: Node, depth: int, indent: str) -> Iterator[str]:
        number = _number(node.attributes.get("start"))
        for item in children(node):
            if item.tag == TEXT or self._is_left_out(item):
                continue
            if item.tag in ("ul", "ol"):
                yield from self._list_lines(item, depth + 1, indent + "  ")
                continue
            number = _number(item.attributes.get("value"), number)
            mark = f"{number}. " if node.tag == "ol" else "- "
            number += 1
            yield from self._item_lines(item, depth, indent, mark)

    def _item_lines(self, item: Node, depth: int, indent: str, mark: str) -> Iterator[str]:
        """The item's own text after its mark, then the lists within it."""
        held = Walk(self._tree, self._limits, self._beside)
        nested: list[Node] = []
        for child in children(item):
            if child.tag in ("ul", "ol") and depth <= _DEEPEST:
                nested.append(child)
            elif child.tag == TEXT:
                held._running.append(child.text_content or "")
            elif not self._is_left_out(child):
                held._element(child, child.tag or "", depth + 1)
        held.end_paragraph()
        text = " ".join(part.text.replace("\n", " ") for part in held.parts)
        if text:
            yield indent + mark + text
        for inner in nested:
            if not self._is_left_out(inner):
                yield from self._list_lines(inner, depth + 1, indent + "  " if text else indent)

    def _terms(self, node: Node, depth: int) -> None:
        """A list of terms: each with what is said about it on one line."""
        if node.mem_id in self._tree.holding(_COMPLEX):
            self._block(node, depth)
            return
        self.end_paragraph()
        lines: list[str] = []
        for child in (n for group in children(node) for n in (children(group) if group.tag == "div" else (group,))):
            if child.tag == TEXT or self._is_left_out(child):
                continue
            text = self.inline(child, depth).replace("\n", " ")
            if text and child.tag == "dd" and lines and lines[-1].endswith(":"):
                lines[-1] += f" {text}"
            elif text:
                lines.append(f"- {text}" + (":" if child.tag == "dt" and not text.endswith(":") else ""))
        if lines:
            self.parts.append(Part(BlockKind.LIST, "\n".join(lines)))

    def _table(self, node: Node, depth: int) -> None:
        if not is_data(node, self._tree):
            self._block(node, depth) if not is_one_line(node, self._tree) else self._one_line(node, depth)
            return
        self.end_paragraph()
        for child in children(node):
            if child.tag == "caption" and (caption := self.inline(child, depth)):
                self.parts.append(Part(BlockKind.CAPTION, caption))
        table = read_cells(node, self._tree, lambda cell: self.inline(cell, depth).replace("\n", " "))
        if not table.is_empty:
            self.parts.append(table_part(table))
        for picture in node.css("img"):
            self._shown_picture(picture)

    def _one_line(self, node: Node, depth: int) -> None:
        """A row that only sets a mark or a number before its text."""
        self.end_paragraph()
        self._running.append(self.inline(node, depth).replace("\n", " "))
        self.end_paragraph()

    def _image(self, node: Node, depth: int) -> None:  # noqa: ARG002
        if self._shown_picture(node):
            return
        said = _settled(node.attributes.get("alt") or "")
        if said and not _FILE_NAME.fullmatch(said):
            self._running.append(said if self._stands_alone(node) else f" {said} ")

    def _shown_picture(self, node: Node) -> bool:
        """The picture as a figure, where its file lies in this one."""
        address = node.attributes.get("src") or node.attributes.get("xlink:href") or node.attributes.get("href") or ""
        load = find_picture(address, self._beside) if self._inlays < _MOST_INLAYS else None
        inlay = inlay_of(load, self._limits) if load else None
        if inlay is None:
            return False
        self._inlays += 1
        self.end_paragraph()
        said = _settled(node.attributes.get("alt") or node.attributes.get("title") or "")
        self.parts.append(Part(BlockKind.FIGURE, "" if _FILE_NAME.fullmatch(said) else said, inlay=inlay))
        return True

    def _stands_alone(self, node: Node) -> bool:
        return node.parent is not None and not _settled(node.parent.text())

    def _drawing(self, node: Node, depth: int) -> None:  # noqa: ARG002
        """A vector drawing is not drawn; what is written in it is read."""
        for picture in node.css("image"):
            self._shown_picture(picture)
        said = [_settled(part.text()) for part in node.css("title, desc, text")]
        text = "\n".join(dict.fromkeys(filter(None, said)))
        if len(said) > 1 and text:
            self.end_paragraph()
            self.parts.append(Part(BlockKind.FIGURE, text))
        else:
            self._running.append(text)

    def _formula(self, node: Node, depth: int) -> None:  # noqa: ARG002
        tex = node.css_first("annotation[encoding*=tex]")
        said = (node.attributes.get("alttext") or (tex.text() if tex is not None else "")).strip()
        self._running.append(f"${said}$" if said else bare_text(node, self._tree))

    def _raised(self, node: Node, depth: int) -> None:
        text = self.inline(node, depth)
        is_sign = _SHORT_SIGN.fullmatch(text) is not None and node.css_first("a") is None
        self._running.append(text.translate(_RAISED) if is_sign else text)

    def _lowered(self, node: Node, depth: int) -> None:
        text = self.inline(node, depth)
        self._running.append(text.translate(_LOWERED) if _SHORT_SIGN.fullmatch(text) else text)

    def _struck(self, node: Node, depth: int) -> None:
        text = self.inline(node, depth)
        self._running.append(f"~~{text}~~" if text else "")

    def _field(self, node: Node, depth: int) -> None:  # noqa: ARG002
        """What was filled in."""
        kind = (node.attributes.get("type") or "text").lower()
        if kind in ("text", "email", "tel", "number", "date", "url", "datetime-local", "month", "week", "time"):
            self._running.append(f" {node.attributes.get('value') or ''} ")

    def _choice(self, node: Node, depth: int) -> None:  # noqa: ARG002
        chosen = node.css("option[selected]")
        self._running.append(" " + ", ".join(option.text() for option in chosen) + " ")


def _is_language_menu(node: Node) -> bool:
    """Whether a list only offers the page in other languages."""
    links = len(node.css("a"))
    return links >= 3 and links == len(node.css("a[hreflang]"))


def bare_text(node: Node, tree: Tree) -> str:
    """All text below an element that is seen, as it is written; without recursion."""
    texts: list[str] = []
    stack = [node]
    while stack:
        place = stack.pop()
        if place.tag == TEXT:
            texts.append(place.text_content or "")
        elif place.tag == "br":
            texts.append("\n")
        elif place is node or (place.tag not in _UNSEEN and not tree.hides(place)):
            stack += reversed(list(children(place)))
    return "".join(texts)


def _settled(text: str) -> str:
    """White space as a page shows it: runs are one space, breaks stay."""
    shown = _BREAKS.sub("\n", _SPACE.sub(" ", text.replace("\u00a0", " ")))
    lines = [line.strip() for line in _CONTROLS.sub("", shown).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _number(text: str | None, otherwise: int = 1) -> int:
    try:
        return int(text) if text else otherwise
    except ValueError:
        return otherwise
