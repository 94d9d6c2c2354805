"""The pages that are left of a damaged PDF: in which order, which are lost, and what of each is lost."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Literal

from ingestion.sources.pdfium.fragments import Fragment, Fragments
from ingestion.sources.pdfium.syntax import Dictionary, read_dictionary, references

_DEEPEST = 64  # levels of the page tree
_MOST_PAGES = 100_000
_MOST_CHECKED = 256_000_000  # bytes of page contents that are inflated to see whether they are sound
_LARGEST_CHECKED = 16_000_000  # of one page
_TYPED = re.compile(rb"/Type[\s\0]{0,20}/(?:Pages?|Catalog)(?![A-Za-z])")
_DEFLATED = re.compile(rb"[\s\0\[]*+/(?:FlateDecode|Fl)(?![A-Za-z0-9])")
_OPERATOR = re.compile(  # of a content stream: ISO 32000-1, annex A
    rb"(?<![^\s\0\]>)])(?:BT|ET|BDC|BMC|BI|Tf|Td|Tm|Tj|TJ|cm|re|gs|rg|RG|cs|CS|sc|scn|Do|sh|[qQgGkKmlcvynWwdJjMif])"
    rb"(?=[\s\0/\[<(]|$)"
)
_ELSEWHERE = (
    b"Parent",
    b"P",
    b"StructParent",
    b"Metadata",
    b"PieceInfo",
    b"OPI",
    b"Dest",
    b"A",
    b"AA",
    b"Popup",
    b"IRT",
)
_FONT_KEYS = (
    *(b"Font", b"Encoding", b"ToUnicode", b"DescendantFonts", b"CharProcs"),
    *(b"FontDescriptor", b"FontFile", b"FontFile2", b"FontFile3"),
)
_NOT_NAMES_OF_FONTS = {b"Subtype", b"Font", b"XObject", b"ProcSet", b"ExtGState", b"ColorSpace"}
_SHORTEST = 16  # bytes: what unpacks to less before it fails was never deflated, or is no content

State = Literal["whole", "partial", "lost"]


class LeftPages:
    """``slots`` has the object number of each page in order, None for a page that is lost."""

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments
        self.catalogue = 0
        self.usual_box = b""  # the paper size of the first page that has its own
        self._pages: dict[int, int] = {}  # to its parent
        self._nodes: dict[int, int] = {}  # of the page tree, to its parent
        self._find()
        self.structure = {*self._nodes, self.catalogue}
        self._seen: set[int] = set()
        self._room = _MOST_PAGES
        self.total_known = True
        self.slots = self._in_order()
        self.mentioned: set[int] = set(filter(None, self.slots))
        self._unchecked = _MOST_CHECKED
        self._users: dict[int, list[int]] = defaultdict(list)  # of an object: those that are drawn with it
        self._fonts: set[int] = set()  # objects that say which characters a page shows
        self._follow()
        lost = {number for number in self.mentioned if self._is_lost(number)}
        self._hurt = self._drawn_with(lost)
        self._illegible = self._drawn_with(lost & self._fonts)

    # ---- order ----

    def _find(self) -> None:
        catalogues: list[int] = []
        for number, fragment in self._fragments.objects.items():
            head = b"" if fragment.stream else self._fragments.head(number)
            found = read_dictionary(head) if _TYPED.search(head) else None
            kind = found.name(b"Type") if found else b""
            if found is None:
                continue
            if kind == b"Catalog":
                catalogues.append(number)
            elif kind in (b"Page", b"Pages") and len(self._pages) < _MOST_PAGES:
                (self._pages if kind == b"Page" else self._nodes)[number] = _first(found.references(b"Parent"))
                self.usual_box = self.usual_box or found.entries.get(b"MediaBox", b"")
        root = self._fragments.root
        self.catalogue = root if root in catalogues else catalogues[-1] if catalogues else 0

    def _in_order(self) -> list[int | None]:
        self._orphans: dict[int, list[int]] = defaultdict(list)
        for number, parent in (*self._nodes.items(), *self._pages.items()):
            if parent not in self._nodes:
                self._orphans[parent].append(number)
        root = self._root()
        if root in self._nodes:
            return self._with_strays(self._leaves(root, 0))
        slots = [leaf for number in self._tops() for leaf in self._leaves(number, 0)]
        promised = min(self._fragments.promised, _MOST_PAGES)
        self.total_known = promised >= len(slots) > 0
        return slots + [None] * (promised - len(slots))

    def _root(self) -> int:
        found = self._fragments.dictionary(self.catalogue)
        named = _first(found.references(b"Pages")) if found else 0
        if named:
            return named
        tops = [number for number in self._nodes if self._is_top(number)]
        return tops[-1] if len(tops) == 1 else 0

    def _is_top(self, number: int) -> bool:
        return self._nodes[number] == 0

    def _tops(self) -> list[int]:
        """What is left without a parent, in the order in which the file has the pages."""
        tops: dict[int, None] = {}
        for page in self._pages:
            top = page
            for _ in range(_DEEPEST):
                parent = self._nodes.get(top, 0) if top in self._nodes else self._pages[top]
                if parent not in self._nodes:
                    break
                top = parent
            tops[top] = None
        return list(tops)

    def _leaves(self, number: int, depth: int) -> list[int | None]:
        """The pages below a node in order. A lost kid is one lost page, or all that call it their parent."""
        if number in self._pages or self._is_untyped_page(number):
            self._room -= 1
            self._seen.add(number)
            return [number] if self._room >= 0 else []
        if number in self._nodes:
            if number in self._seen or depth >= _DEEPEST:
                return []
            self._seen.add(number)
            return self._below(number, depth)
        self._room -= 1
        strays = self._orphans.pop(number, [])
        under = [leaf for stray in strays if stray not in self._seen for leaf in self._leaves(stray, depth + 1)]
        return under or ([None] if self._room >= 0 else [])

    def _below(self, number: int, depth: int) -> list[int | None]:
        found = self._fragments.dictionary(number)
        leaves: list[int | None] = []
        gap = -1
        for kid in found.references(b"Kids") if found else ():
            if self._room < 0:
                break
            leaves += self._leaves(kid, depth + 1)
            if kid not in self._pages and kid not in self._nodes:
                gap = len(leaves)
        lost = min((found.integer(b"Count") or 0) if found else 0, _MOST_PAGES) - len(leaves)
        if gap >= 0 and lost > 0:  # a lost kid stood for several pages
            leaves[gap:gap] = [None] * lost
            self._room -= lost
        return leaves

    def _is_untyped_page(self, number: int) -> bool:
        found = self._fragments.dictionary(number) if number in self._fragments.objects else None
        return found is not None and b"Type" not in found.entries and b"Contents" in found.entries

    def _with_strays(self, slots: list[int | None]) -> list[int | None]:
        """Pages whose whole branch of the tree is lost take the places of lost pages."""
        strays = [page for page, parent in self._pages.items() if page not in self._seen and parent not in self._nodes]
        waiting = iter(strays)
        return [slot or next(waiting, None) for slot in slots]

    # ---- what is lost of a page ----

    def inherited(self, page: Dictionary, key: bytes) -> bytes:
        """An entry of the page's surviving parents; empty when none has it."""
        for _ in range(_DEEPEST):
            parent = _first(page.references(b"Parent"))
            above = self._fragments.dictionary(parent) if parent in self._nodes else None
            if above is None:
                break
            if key in above.entries:
                return above.entries[key]
            page = above
        return self.usual_box if key == b"MediaBox" else b""

    def state(self, number: int) -> State:
        """Whether the page can be shown as it was, in part, or not at all."""
        found = self._fragments.dictionary(number)
        if found is None:
            return "lost"
        contents = [self._soundness(stream) for stream in self._contents(found)]
        if contents and all(state == "lost" for state in contents):
            return "lost"
        hurt = any(state != "whole" for state in contents) or not self._hurt.isdisjoint(self._needs(found))
        return "partial" if hurt or self._lacks_resources(found) else "whole"

    def _contents(self, page: Dictionary) -> list[int]:
        """The content streams; an array of them may be an object of its own."""
        streams: list[int] = []
        for number in page.references(b"Contents"):
            fragment = self._fragments.objects.get(number)
            is_array = fragment is not None and fragment.stream is None
            streams += references(self._fragments.head(number)) if is_array else [number]
        return streams

    def _soundness(self, number: int) -> State:
        fragment = self._fragments.objects.get(number)
        if fragment is None or fragment.stream is None:
            return "lost"
        start, end = fragment.stream
        found = self._fragments.dictionary(number)
        kind = found.entries.get(b"Filter", b"") if found else b""
        if not _DEFLATED.match(kind):
            return self._soundness_of_plain(fragment, kind)
        if self._unchecked <= 0:
            return "whole"
        body, sound = self._fragments.inflated((start, end), _LARGEST_CHECKED)
        self._unchecked -= len(body)
        if sound and not fragment.cut:
            return "whole"
        return "partial" if len(body) >= _SHORTEST else "lost"

    def _soundness_of_plain(self, fragment: Fragment, kind: bytes) -> State:
        """Of a stream that is not deflated. One without an operator in it is the remainder of a locked file."""
        start, end = fragment.stream or (0, 0)
        is_noise = (
            not kind
            and end - start > _SHORTEST
            and not _OPERATOR.search(self._fragments.data, start, min(end, start + 1024))
        )
        if is_noise or (fragment.cut and end == start):
            return "lost"
        return "partial" if fragment.cut else "whole"

    def _lacks_resources(self, page: Dictionary) -> bool:
        if b"Resources" in page.entries or b"Contents" not in page.entries:
            return False
        return not self.inherited(page, b"Resources")

    def _needs(self, page: Dictionary) -> list[int]:
        """What a page is drawn from."""
        resources = page.entries.get(b"Resources") or self.inherited(page, b"Resources")
        self._note_fonts(Dictionary({b"Resources": resources}, 0))
        return [*references(resources), *page.references(b"Contents"), *page.references(b"Annots")]

    def is_doubtful(self, number: int) -> bool:
        """Whether the fonts that say which characters the page shows are lost in part."""
        found = self._fragments.dictionary(number)
        needs = self._needs(found) if found else []
        return found is not None and (self._lacks_resources(found) or not self._illegible.isdisjoint(needs))

    def _follow(self) -> None:
        """Find all that the pages are drawn from."""
        waiting: list[int] = []
        for page in filter(None, self.slots):
            found = self._fragments.dictionary(page)
            waiting += self._needs(found) if found else ()
        while waiting:
            number = waiting.pop()
            if number in self.mentioned:
                continue
            self.mentioned.add(number)
            for used in self._uses(number):
                self._users[used].append(number)
                waiting.append(used)

    def _drawn_with(self, lost: set[int]) -> set[int]:
        """These objects and all that are drawn with one of them."""
        reached = set(lost)
        waiting = list(lost)
        while waiting:
            fresh = set(self._users.get(waiting.pop(), ())) - reached
            reached |= fresh
            waiting += fresh
        return reached

    def _is_lost(self, number: int) -> bool:
        fragment = self._fragments.objects.get(number)
        return fragment is None or fragment.cut

    def _uses(self, number: int) -> list[int]:
        """The objects that one is drawn from; not its page, nor where a link leads."""
        if number in self._pages or number in self._nodes or number not in self._fragments.objects:
            return []
        head = self._fragments.head(number)
        found = read_dictionary(head)
        if found is None:
            return references(head)
        if b"Rect" in found.entries:  # an annotation
            return found.references(b"AP")
        if number in self._fonts and _NOT_NAMES_OF_FONTS.isdisjoint(found.entries):
            self._fonts.update(references(head))
        self._note_fonts(found)
        return [used for key in found.entries if key not in _ELSEWHERE for used in found.references(key)]

    def _note_fonts(self, found: Dictionary) -> None:
        for key in _FONT_KEYS:
            self._fonts.update(found.references(key))
        resources = found.entries.get(b"Resources", b"")
        if inner := read_dictionary(resources):
            self._fonts.update(inner.references(b"Font"))
        else:
            self._fonts.update(references(resources))


def _first(numbers: list[int]) -> int:
    return numbers[0] if numbers else 0
