"""A table as HTML that can do nothing: its cells with their spans and their text, whatever else was in it.

Readers make tables' HTML, a vision model among them, from documents that anybody wrote.
"""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markupsafe import Markup

KEPT = frozenset(("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "br", "sup", "sub", "b", "i"))
VOID = frozenset(("br",))
HIDDEN = frozenset(("script", "style", "template", "title"))
SPANS = ("colspan", "rowspan")
MOST_SPAN = 1000  # as browsers have it for columns
MOST_CHARACTERS = 400_000


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._open: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN:
            self._hidden += 1
        if tag in KEPT and not self._hidden:
            self.out.append(f"<{tag}{_spans(attrs)}>")
            if tag not in VOID:
                self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag in self._open and not self._hidden:
            while self._open:
                self.out.append(f"</{self._open[-1]}>")
                if self._open.pop() == tag:
                    break

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.out.append(escape(data))

    def closed(self) -> str:
        self.close()
        self.out += [f"</{tag}>" for tag in reversed(self._open)]
        return "".join(self.out)


def _spans(attrs: list[tuple[str, str | None]]) -> str:
    kept = ((name, value) for name, value in attrs if name in SPANS and re.fullmatch(r"[1-9]\d{0,3}", value or ""))
    return "".join(f' {name}="{min(int(value or 1), MOST_SPAN)}"' for name, value in kept)


def harmless(html: str) -> Markup:
    """``html`` less everything but a table's own tags and text."""
    cells = _Cells()
    cells.feed(html[:MOST_CHARACTERS])
    return Markup(cells.closed())


def from_markdown(text: str) -> Markup:
    """A pipe table as HTML; what is none comes back as a paragraph of text."""
    rendered = MarkdownIt("zero", {"html": False}).enable("table").render(text[:MOST_CHARACTERS])
    return harmless(rendered) if "<table>" in rendered else Markup('<p class="said">{}</p>').format(text)
