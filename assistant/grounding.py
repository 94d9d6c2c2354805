"""Whether a sentence stands on the passages it cites, and where on their pages.

By rule, without a model: a sentence that is there word for word is ``quoted``. Otherwise each of its numbers,
dates and names must occur in what it cites, in a sentence about as near to the rest of the claim as any (a
right figure from the wrong row is no support), and enough of its words (across languages, its meaning by the
embedder) must be found in one stretch: then it is ``supported``, else ``unsupported``. A sentence that cites
nothing is ``uncited``. How often the rule is right: ``eval/check_faithfulness.py``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from assistant.core.domain import Access, Block, Box, Chunk, Verdict
from assistant.core.errors import NotFound
from assistant.core.ports import Catalogue
from assistant.facts import FactSheet, names, numbers
from assistant.language import detect_language, fold
from assistant.matching import rarity, text_roots
from assistant.quotes import quotable
from assistant.sentences import is_table_row

LEAST_WORDS = 0.5  # share of a sentence's words that must stand in one stretch of its source
LEAST_LIKENESS = 0.6  # on the yardstick, where words cannot tell: across languages
MARGIN = 0.2  # catches half of the answers exchanged by rule and doubts 6 % of the right ones
_MARKS = re.compile(r"(?<!\d)[.,:/-]|[.,:/-](?!\d)|[^\w.,:/%€$-]|_")
_INSIDE = 0.5  # share of a block that must lie in the passage's boxes to belong to it
_STRETCH = 3  # sentences that may stand behind one

Likeness = Callable[[str, str], float]
"""How alike two texts are on the yardstick: 0 unrelated, 1 as a question and its answer."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and in words what speaks against the sentence where it is unsupported."""

    verdict: Verdict
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ground:
    """A passage, or several, prepared to hold sentences against."""

    text: str
    around: str = ""  # document name and headings: facts may come from there as well

    @classmethod
    def of(cls, chunks: Sequence[Chunk]) -> Ground:
        return cls(
            "\n\n".join(chunk.text for chunk in chunks),
            "\n".join(f"{chunk.document} {' '.join(chunk.headings)} {chunk.page}" for chunk in chunks),
        )

    @cached_property
    def facts(self) -> FactSheet:
        return FactSheet(f"{self.text}\n{self.around}")

    @cached_property
    def stretches(self) -> list[str]:
        """Every run of up to three sentences."""
        pieces = [piece.matched for piece in quotable(self.text)]
        return [" ".join(pieces[start : start + _STRETCH]) for start in range(max(1, len(pieces) - _STRETCH + 1))]

    @cached_property
    def flat(self) -> str:
        return flattened(self.text)

    def holds(self, sentence: str) -> bool:
        """Whether ``sentence`` stands there word for word, but for blanks, case of marks and quotation marks."""
        lines = sentence.split("\n") if is_table_row(sentence) else [sentence]  # a row under its header
        wanted = [flat for line in lines if (flat := flattened(line).strip(" -:"))]
        return bool(wanted) and all(f" {flat} " in f" {self.flat} " for flat in wanted)

    @cached_property
    def _sentences(self) -> list[tuple[FactSheet, str, frozenset[str]]]:
        return [(FactSheet(p.matched), f" {flattened(p.matched)} ", text_roots(p.matched)) for p in quotable(self.text)]

    def is_near(self, has: Callable[[FactSheet, str], bool], rest: frozenset[str], margin: float = MARGIN) -> bool:
        """Whether a sentence that ``has`` something is about as near to the ``rest`` of a claim as the nearest.

        ``has`` is asked with a sentence's facts and its flattened text. True where no sentence has it: whether it is
        there at all is another question.
        """
        if not rest:
            return True
        weights = rarity(rest, [roots for _, _, roots in self._sentences])
        total = sum(weights.values())
        shares = [sum(weights[root] for root in rest & roots) / total for _, _, roots in self._sentences]
        having = [s for s, (facts, flat, _) in zip(shares, self._sentences, strict=True) if has(facts, flat)]
        return not having or max(having) >= max(shares) - margin

    def word_share(self, sentence: str) -> float:
        """The largest share of the sentence's words in one stretch."""
        words = text_roots(sentence)
        if not words:
            return 1.0
        around = text_roots(self.around)
        return max(len(words & (text_roots(stretch) | around)) / len(words) for stretch in self.stretches or [""])


def judge(sentence: str, cited: Sequence[Chunk], likeness: Likeness | None = None) -> Judged:
    """What becomes of ``sentence``, held against the passages it cites. With ``likeness`` it calls the
    embedder for sentences in another language than their source: not for the event loop."""
    if not cited:
        return Judged(Verdict.UNCITED)
    ground = Ground.of(cited)
    if ground.holds(sentence):
        return Judged(Verdict.QUOTED)
    foreign = detect_language(sentence) != detect_language(ground.text, default=detect_language(sentence))
    against = ground.facts.missing(sentence, other_language=foreign) or _far(sentence, ground)
    if not against and not _is_close(sentence, ground, foreign, likeness):
        against = ["too little of it stands in the source"]
    return Judged(Verdict.UNSUPPORTED, tuple(against)) if against else Judged(Verdict.SUPPORTED)


def _far(sentence: str, ground: Ground) -> list[str]:
    """The facts of ``sentence`` that its source states of something else."""
    words = frozenset(root for root in text_roots(sentence) if not any(c.isdigit() for c in root))
    far = [
        f"number {min(number)} stands elsewhere"
        for number in numbers(sentence)
        if not ground.is_near(lambda facts, _, number=number: facts.has_number(number), words)
    ]
    return far + [
        f"name {name} stands elsewhere"
        for name in names(sentence)
        if not ground.is_near(lambda facts, _, name=name: facts.has_name(name), words - text_roots(name))
    ]


def _is_close(sentence: str, ground: Ground, foreign: bool, likeness: Likeness | None) -> bool:
    if ground.word_share(sentence) >= LEAST_WORDS:
        return True
    if likeness is None:
        return foreign  # its facts stand there, and its words cannot be compared
    return max(likeness(sentence, stretch) for stretch in ground.stretches or [""]) >= LEAST_LIKENESS


def flattened(text: str) -> str:
    """Words and numbers only, one blank between them: what two renderings of a sentence have in common."""
    return " ".join(_MARKS.sub(" ", fold(text)).split())


class Placer:
    """Narrows passages to the blocks behind a sentence, by the page as it was published."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def boxes(self, chunk: Chunk, sentences: Sequence[str], access: Access) -> tuple[Box, ...]:
        """The boxes on ``chunk.page`` that hold ``sentences``; all the passage's boxes there where that is unclear."""
        passage = tuple(dict.fromkeys(b for a in chunk.anchors if a.page == chunk.page for b in a.boxes))
        if len(passage) <= 1 or not sentences:
            return passage
        try:
            page = await asyncio.to_thread(self._catalogue.page, chunk.document_id, chunk.page, access)
        except NotFound:  # deleted, or published anew with fewer pages, since the search
            return passage
        return narrowed(page.blocks, passage, sentences) or passage


def narrowed(blocks: Sequence[Block], passage: Sequence[Box], sentences: Sequence[str]) -> tuple[Box, ...]:
    """The boxes of the blocks inside ``passage`` that hold one of ``sentences``; empty where none does."""
    inside = [block for block in blocks if any(block.bbox.share_inside(box) >= _INSIDE for box in passage)]
    found: list[Box] = []
    for sentence in sentences:
        holding = [block for block in inside if Ground(block.text).holds(sentence)] or _nearest(inside, sentence)
        found += [block.bbox for block in holding if block.bbox not in found]
    return tuple(found)


def _nearest(blocks: Sequence[Block], sentence: str) -> list[Block]:
    """The block with most of the sentence's words, where it has enough of them."""
    shares = [(Ground(block.text).word_share(sentence), -index) for index, block in enumerate(blocks)]
    best = max(shares, default=(0.0, 0))
    return [blocks[-best[1]]] if best[0] >= LEAST_WORDS else []
