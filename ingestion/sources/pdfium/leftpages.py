"""The pages that are left of a damaged PDF: in which order, which are lost, and what of each is lost."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from ingestion.sources.pdfium.fragments import Fragment, Fragments
from ingestion.sources.pdfium.syntax import Dictionary, read_dictionary, references

_DEEPEST = 64  # levels of the page tree
_MOST_PAGES = 50_000
_MOST_CHECKED = 256_000_000  # bytes of page contents that are inflated to see whether they are sound
_LARGEST_CHECKED = 16_000_000  # of one stream
_SHORTEST = 16  # bytes: what unpacks to less before it fails was never deflated, or is no content
_TYPED = re.compile(rb"/Type[\s\0]{0,20}/(?:Pages?|Catalog)(?![A-Za-z])")
_DEFLATED = re.compile(rb"[\s\0\[]*+/(?:FlateDecode|Fl)(?![A-Za-z0-9])")
_OPERATOR = re.compile(  # of a content stream: ISO 32000-1, annex A
    rb"(?<![^\s\0\]>)])(?:BT|ET|BDC|BMC|BI|Tf|Td|Tm|Tj|TJ|cm|re|gs|rg|RG|cs|CS|sc|scn|Do|sh|[qQgGkKmlcvynWwdJjMif])"
    rb"(?=[\s\0/\[<(]|$)"
)
_INHERITED = (b"Resources", b"MediaBox", b"CropBox", b"Rotate")
_ELSEWHERE = (  # what a page can be shown without
    *(b"Parent", b"P", b"StructParent", b"Metadata", b"PieceInfo", b"OPI"),
    *(b"Dest", b"A", b"AA", b"Popup", b"IRT"),
)
_FONT_KEYS = (
    *(b"Font", b"Encoding", b"ToUnicode", b"DescendantFonts", b"CharProcs"),
    *(b"FontDescriptor", b"FontFile", b"FontFile2", b"FontFile3"),
)
_NOT_NAMES_OF_FONTS = {b"Subtype", b"Font", b"XObject", b"ProcSet", b"ExtGState", b"ColorSpace"}

State = Literal["whole", "partial", "lost"]
Inherited = dict[bytes, tuple[int, bytes]]  # key to the node that has it, and its value


class PageTree:
    """What is left of the page tree.

    ``slots`` has the object number of each page in order, None for a page that is lost. ``total_known`` says
    whether they are as many as there were.
    """

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments
        self.catalogue = 0
        self.pages: dict[int, int] = {}  # to its parent
        self.nodes: dict[int, int] = {}  # between catalogue and pages, to its parent
        self.usual_box = b""  # the paper size of the first page that has its own
        self.total_known = True
        self._children: dict[int, list[int]] = defaultdict(list)
        self._inherited: dict[int, Inherited] = {}
        self._seen: set[int] = set()
        self._room = _MOST_PAGES
        self._find()
        self.slots = self._in_order()

    def inherited(self, page: Dictionary) -> Inherited:
        """What the page's surviving parents pass down to it."""
        return self._passed_down(_first(page.references(b"Parent")), 0)

    def _passed_down(self, node: int, depth: int) -> Inherited:
        if node not in self.nodes or depth >= _DEEPEST:
            return {}
        if node not in self._inherited:
            self._inherited[node] = {}  # so that a circle ends
            found = self._fragments.dictionary(node)
            own = {key: (node, found.entries[key]) for key in _INHERITED if found and key in found.entries}
            self._inherited[node] = {**self._passed_down(self.nodes[node], depth + 1), **own}
        return self._inherited[node]

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
            elif kind in (b"Page", b"Pages") and len(self.pages) < _MOST_PAGES:
                parent = _first(found.references(b"Parent"))
                (self.pages if kind == b"Page" else self.nodes)[number] = parent
                self._children[parent].append(number)
                self.usual_box = self.usual_box or found.entries.get(b"MediaBox", b"")
        root = self._fragments.root
        self.catalogue = root if root in catalogues else catalogues[-1] if catalogues else 0

    def _in_order(self) -> list[int | None]:
        root = self._root()
        slots = self._with_strays(self._leaves(root, 0)) if root in self.nodes else []
        if any(slots):
            return slots
        self._seen.clear()
        slots = [leaf for number in self._tops() for leaf in self._leaves(number, 0)]
        promised = min(self._fragments.promised, _MOST_PAGES)
        self.total_known = promised >= len(slots) > 0
        return slots + [None] * (promised - len(slots))

    def _root(self) -> int:
        found = self._fragments.dictionary(self.catalogue)
        named = _first(found.references(b"Pages")) if found else 0
        tops = [number for number, parent in self.nodes.items() if parent == 0]
        return named or (tops[0] if len(tops) == 1 else 0)

    def _tops(self) -> list[int]:
        """What is left without a parent, in the order in which the file has the pages."""
        tops: dict[int, None] = {}
        for page, above in self.pages.items():
            top, parent = page, above
            for _ in range(_DEEPEST):
                if parent not in self.nodes:
                    break
                top, parent = parent, self.nodes[parent]
            tops[top] = None
        return list(tops)

    def _leaves(self, number: int, depth: int) -> list[int | None]:
        """The pages below a node in order. A lost kid is one lost page, or all that call it their parent."""
        if number in self.nodes:
            if number in self._seen or depth >= _DEEPEST:
                return []
            self._seen.add(number)
            return self._below(number, depth)
        self._room -= 1
        if number in self.pages:
            self._seen.add(number)
            return [number] if self._room >= 0 else []
        return self._unlisted(number, depth) or ([None] if self._room >= 0 else [])

    def _unlisted(self, parent: int, depth: int) -> list[int | None]:
        """What calls this its parent and has no place yet."""
        waiting = self._children.pop(parent, [])
        return [leaf for number in waiting if number not in self._seen for leaf in self._leaves(number, depth + 1)]

    def _below(self, number: int, depth: int) -> list[int | None]:
        found = self._fragments.dictionary(number)
        kids = found.references(b"Kids") if found else []
        leaves: list[int | None] = []
        gap = -1
        for kid in kids:
            if self._room < 0:
                break
            leaves += self._leaves(kid, depth + 1)
            if kid not in self.pages and kid not in self.nodes:
                gap = len(leaves)
        count = min((found.integer(b"Count") or 0) if found else 0, _MOST_PAGES)
        if count > len(leaves) or not kids:  # a lost kid stood for several pages, or the list is damaged
            place = gap if gap >= 0 else len(leaves)
            leaves[place:place] = self._unlisted(number, depth)
            lost = count - len(leaves) if gap >= 0 else 0
            leaves[place:place] = [None] * lost
            self._room -= max(0, lost)
        return leaves

    def _with_strays(self, slots: list[int | None]) -> list[int | None]:
        """Pages whose whole branch of the tree is lost take the places of lost pages."""
        strays = [page for page, parent in self.pages.items() if page not in self._seen and parent not in self.nodes]
        waiting = iter(strays)
        return [slot or next(waiting, None) for slot in slots]


class LeftPages:
    """What is left of each page, and of what it is drawn from."""

    def __init__(self, fragments: Fragments, tree: PageTree) -> None:
        self._fragments = fragments
        self._tree = tree
        self.mentioned: set[int] = set()  # all objects that a page needs, lost ones too
        self._users: dict[int, list[int]] = defaultdict(list)  # of an object: those that are drawn with it
        self._fonts: set[int] = set()  # objects that say which characters a page shows
        self._passed_down: dict[int, bytes] = {}  # resources, by the number of the node that has them, negative
        self._known: dict[int, State] = {}  # of content streams
        self._unchecked = _MOST_CHECKED
        self._follow()
        lost = {number for number in self.mentioned if self._is_lost(number)}
        self._hurt = self._drawn_with(lost)
        self._illegible = self._drawn_with(lost & self._fonts)

    def state(self, number: int) -> State:
        """Whether the page can be shown as it was, in part, or not at all."""
        found = self._fragments.dictionary(number)
        contents = _together(map(self._soundness, found.references(b"Contents"))) if found else "lost"
        if found is None or contents == "lost":
            return "lost"
        hurt = contents == "partial" or not self._hurt.isdisjoint(self._needs(found))
        return "partial" if hurt or self._lacks_resources(found) else "whole"

    def is_doubtful(self, number: int) -> bool:
        """Whether the fonts that say which characters the page shows are lost in part."""
        found = self._fragments.dictionary(number)
        needs = self._needs(found) if found else []
        return found is not None and (self._lacks_resources(found) or not self._illegible.isdisjoint(needs))

    # -- contents -----------------------------------------------------------------------------

    def _soundness(self, number: int) -> State:
        """Of a content stream, or of an object that is a list of them."""
        if number not in self._known:
            fragment = self._fragments.objects.get(number)
            self._known[number] = "lost"  # so that a circle ends
            if fragment is not None and fragment.stream is None:
                streams = references(self._fragments.head(number))
                self._known[number] = _together(map(self._soundness_of_one, streams)) if streams else "lost"
            else:
                self._known[number] = self._soundness_of_one(number)
        return self._known[number]

    def _soundness_of_one(self, number: int) -> State:
        fragment = self._fragments.objects.get(number)
        found = self._fragments.dictionary(number)
        if fragment is None or fragment.stream is None or found is None:
            return "lost"
        kind = found.entries.get(b"Filter", b"")
        if not _DEFLATED.match(kind):
            return self._soundness_of_plain(fragment, *fragment.stream, is_coded=bool(kind))
        if self._unchecked <= 0:
            return "whole"
        body, sound = self._fragments.inflated(fragment.stream, _LARGEST_CHECKED)
        self._unchecked -= len(body)
        if sound and not fragment.cut:
            return "whole"
        return "partial" if len(body) >= _SHORTEST else "lost"

    def _soundness_of_plain(self, fragment: Fragment, start: int, end: int, *, is_coded: bool) -> State:
        """Of a stream that is not deflated. One without an operator in it is the remainder of a locked file."""
        sample = self._fragments.data[start : min(end, start + 1024)]
        is_noise = not is_coded and len(sample) > _SHORTEST and not _OPERATOR.search(sample)
        if is_noise or (fragment.cut and not sample):
            return "lost"
        return "partial" if fragment.cut else "whole"

    # -- resources ----------------------------------------------------------------------------

    def _lacks_resources(self, page: Dictionary) -> bool:
        if b"Resources" in page.entries or b"Contents" not in page.entries:
            return False
        return b"Resources" not in self._tree.inherited(page)

    def _needs(self, page: Dictionary) -> list[int]:
        """What a page is drawn from."""
        own = [*page.references(b"Resources"), *page.references(b"Contents"), *page.references(b"Annots")]
        self._note_fonts(page)
        if b"Resources" not in page.entries:
            node, resources = self._tree.inherited(page).get(b"Resources", (0, b""))
            self._passed_down.setdefault(-node, resources)
            own.append(-node)
        return own

    def _follow(self) -> None:
        """Find all that the pages are drawn from."""
        waiting: list[int] = []
        for page in set(filter(None, self._tree.slots)):
            found = self._fragments.dictionary(page)
            waiting += set(self._needs(found)) - self.mentioned if found else ()
            self._take_up(waiting)
        self.mentioned.update(filter(None, self._tree.slots))

    def _take_up(self, waiting: list[int]) -> None:
        while waiting:
            number = waiting.pop()
            if number in self.mentioned:
                continue
            self.mentioned.add(number)
            for used in self._uses(number):
                self._users[used].append(number)
                waiting.append(used)

    def _uses(self, number: int) -> list[int]:
        """The objects that one is drawn from; not its page, nor where a link leads."""
        if number <= 0:
            resources = self._passed_down.get(number, b"")  # 0 is what nothing refers to, but for damage
            self._note_fonts(Dictionary({b"Resources": resources}, 0))
            return references(resources)
        if number in self._tree.pages or number in self._tree.nodes or number not in self._fragments.objects:
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
        return number > 0 and (fragment is None or fragment.cut)


def _together(states: Iterable[State]) -> State:
    """Of several parts; of none, whole."""
    kinds = set(states)
    if not kinds or kinds == {"whole"}:
        return "whole"
    return "lost" if kinds == {"lost"} else "partial"


def _first(numbers: list[int]) -> int:
    return numbers[0] if numbers else 0
