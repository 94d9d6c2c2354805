"""Which sentences of the hits answer the question, and whether any does.

Every sentence gets a score between 0 and 1 from a small logistic model over a few kinds of evidence: the
question's words it holds (weighed by rarity), its likeness to the question by the embedder, the same for
its passage, whether the passage has the question's names and numbers, and whether the sentence holds what
is asked for (a number, a date, a name). The weights were fitted by ``eval/calibrate_refusal.py`` on public
questions and tested on others; the figures stand in ``eval/results.md``. Cosines come in on the common
scale of a ``Yardstick``, so that another embedder needs no other weights.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from assistant.core.domain import Chunk, Hit
from assistant.core.ports import Embedder
from assistant.language import detect_language
from assistant.matching import Asked, text_roots
from assistant.quotes import Quotable, quotable, without_orders

# Fitted on half of XQuAD's articles, English and Spanish (eval/calibrate_refusal.py). RELEVANT lies between the best
# threshold there (0.11) and the one for questions about forms, tables and scans (0.03 to 0.05), whose lines are short.
# On the other half, question and documents in one language: all of the answerable answered, every refusal right, 85 %
# of what has no answer refused (73 % where the rest of its article is there); across languages 88, 93 and 75 %.
WEIGHTS = (-11.50, 3.39, 0.95, 3.92, 1.10, 1.24, 1.08, 1.07, 1.30, 1.59, 2.43)
RELEVANT = 0.05  # the best sentence's probability from which a quote is shown
WORTH_ASKING = 0.01  # from which a language model is asked; it reads better than this and may still decline
NEARLY = 0.5  # of the best quote's probability: what another must have to be shown below it
MOST_QUOTES = 4
_TELLING = 400  # characters that tell a passage's language
_EMBEDDED = 8  # sentences looked at closely: 10 to 20 ms each with the built-in embedder
# What a yardstick is made of: questions with their answers, English and Spanish.
PAIRS = (
    ("When was the bridge opened?", "The bridge was opened to traffic on 3 May 1994."),
    ("Who signs the rental contract?", "The rental contract is signed by the owner and the tenant."),
    ("How much does a ticket to the museum cost?", "Admission to the museum is 12 euros for adults."),
    ("What do bees collect from flowers?", "Bees visit flowers to gather nectar and pollen."),
    ("Which ports does the ferry call at?", "The ferry stops at the ports of Palma and Mahón."),
    ("How is the engine cooled?", "Water circulates around the cylinders to keep the engine cool."),
    ("¿Cuándo vence el plazo para reclamar?", "El plazo de reclamación termina el 30 de junio."),
    ("¿Quién preside el consejo de la empresa?", "El consejo de administración está presidido por Ana Ruiz."),
    ("¿Cuántos alumnos tiene la escuela?", "En la escuela estudian 420 alumnos."),
    ("¿Dónde nace el río?", "El río nace en la sierra, a 1.600 metros de altitud."),
    ("¿Qué síntomas produce la gripe?", "La gripe causa fiebre, dolor muscular y cansancio."),
    ("¿Cómo se prepara la masa del pan?", "La masa se hace mezclando harina, agua, sal y levadura."),
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of ``hits[source]``, verbatim (a table row under its table's header)."""

    source: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """``quotes`` best first; ``score`` is the best's."""

    quotes: tuple[Quote, ...]
    score: float

    @property
    def is_relevant(self) -> bool:
        """Whether at least one sentence is good enough to answer from."""
        return self.score >= RELEVANT

    @property
    def is_worth_asking(self) -> bool:
        """Whether a language model, which reads better than this, should look at the passages."""
        return self.score >= WORTH_ASKING

    @property
    def best(self) -> list[Quote]:
        """The quotes to show: the best, and up to three that are nearly as good and say something else."""
        shown: list[Quote] = []
        for quote in self.quotes:
            repeated = any(quote.text in other.text or other.text in quote.text for other in shown)
            if quote.score >= NEARLY * self.score and not repeated and len(shown) < MOST_QUOTES:
                shown.append(quote)
        return shown

    def order(self, hits: int) -> list[int]:
        """The numbers of all ``hits``, those with the better sentences first, then as they were ranked."""
        return list(dict.fromkeys([*(quote.source for quote in self.quotes), *range(hits)]))


@dataclass(frozen=True, slots=True)
class Features:
    """The evidence for one sentence."""

    words: float  # share of the question's words in the sentence, weighed by rarity
    passage_words: float  # the same in its passage, headings and document name
    likeness: float  # of sentence and question, on the yardstick
    passage_likeness: float
    numbers: float  # share of the question's numbers that the passage has; 1 for a question without
    names: float  # the same for its names; across languages taken as there, since names are translated
    wanted: float  # 1 where the sentence holds the kind of thing asked for, or none was named
    foreign: float  # 1 where passage and question are in different languages

    def vector(self) -> tuple[float, ...]:
        """As the model takes them: across languages, words prove less when missing."""
        own, foreign = 1.0 - self.foreign, self.foreign
        return (
            1.0,
            self.words * own,
            self.passage_words * own,
            self.likeness,
            self.passage_likeness,
            self.numbers,
            self.names * own + foreign,
            self.wanted,
            foreign,
            self.words * foreign,
            self.likeness * foreign,
        )

    def probability(self) -> float:
        """That the sentence answers the question."""
        total = sum(weight * value for weight, value in zip(WEIGHTS, self.vector(), strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


class Weigher:
    """Weighs hits with an embedder, in a thread. Sentences seen before are not embedded again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._yardstick: Yardstick | None = None
        self._embedded = lru_cache(maxsize=4096)(self._embed)

    async def weigh(self, question: str, vector: Sequence[float], hits: Sequence[Hit], focus: str = "") -> Evidence:
        """The sentences of ``hits`` that answer ``question`` (``vector`` is its embedding), best first.
        ``focus``: the part of a completed follow-up that was asked now."""
        weighed = await asyncio.to_thread(self.features, question, vector, hits, focus)
        quotes = [Quote(source, piece.text, features.probability()) for source, piece, features in weighed]
        quotes.sort(key=lambda quote: -quote.score)
        return Evidence(tuple(quotes), quotes[0].score if quotes else 0.0)

    def warm(self) -> Yardstick:
        """Prepare what the first question would have to wait for. Calls the embedder: not for the event loop."""
        if self._yardstick is None:
            self._yardstick = Yardstick.of(self._embedder)
        return self._yardstick

    def features(
        self, question: str, vector: Sequence[float], hits: Sequence[Hit], focus: str = ""
    ) -> list[tuple[int, Quotable, Features]]:
        """The sentences worth a closer look, each with its hit's number and its evidence. Not for the event loop."""
        scale = self.warm().for_question(vector)
        asked = Asked.of(question, [_context(hit) for hit in hits], focus)
        promising = sorted(
            (candidate for number, hit in enumerate(hits) for candidate in _candidates(number, hit, asked, scale)),
            key=lambda candidate: -candidate.promise,
        )
        return [
            (
                candidate.source,
                candidate.piece,
                candidate.features(scale(cosine(vector, self._embedded(candidate.compared)))),
            )
            for candidate in promising[:_EMBEDDED]
        ]

    def likeness(self, one: str, other: str) -> float:
        """How alike two texts are on the yardstick. Not for the event loop."""
        vector = self._embedder.embed_query(one)
        return self.warm().for_question(vector)(cosine(vector, self._embedded(other)))

    def _embed(self, text: str) -> tuple[float, ...]:
        return tuple(self._embedder.embed_passages([text])[0])


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence before it is embedded."""

    source: int
    piece: Quotable
    compared: str
    known: Features  # likeness still unknown

    @property
    def promise(self) -> float:
        own = self.known.words + self.known.passage_words + self.known.passage_likeness
        return own + 0.3 * self.known.wanted - 0.02 * self.source

    def features(self, likeness: float) -> Features:
        return replace(self.known, likeness=likeness)


def _candidates(source: int, hit: Hit, asked: Asked, scale: Scale) -> list[_Candidate]:
    present = text_roots(_context(hit))
    title = text_roots("\n".join((hit.chunk.document, *hit.chunk.headings)))
    passage = Features(
        words=0.0,
        passage_words=asked.coverage(present),
        likeness=0.0,
        passage_likeness=scale(hit.dense) if hit.dense is not None else 0.0,
        numbers=asked.share_of_numbers(present),
        names=asked.share_of_names(present),
        wanted=0.0,
        foreign=float(detect_language(hit.chunk.text[:_TELLING], default=asked.language) != asked.language),
    )
    return [
        _Candidate(
            source, _shortened(piece, asked), _compared(piece, hit), replace(passage, words=words, wanted=wanted)
        )
        for piece in quotable(without_orders(hit.chunk.text), _headings(hit.chunk))
        if asked.learns_from(piece.matched) or not piece.is_sentence
        for words, wanted in [(_words(piece, title, asked), float(asked.is_held_by(piece.matched)))]
    ]


def _headings(chunk: Chunk) -> frozenset[str]:
    return frozenset(heading for anchor in chunk.anchors for heading in anchor.headings)


def _words(piece: Quotable, title: frozenset[str], asked: Asked) -> float:
    """The share of the question's words that the piece holds. A row or a line is read under its title ("Total" on a
    page called "receipt"), so the title's words count with it; but only with words of its own does it say anything."""
    own = text_roots(piece.matched)
    share = asked.coverage(own)
    return asked.coverage(own | title) if share and not piece.is_sentence else share


def _shortened(piece: Quotable, asked: Asked) -> Quotable:
    """Shown without the lines above its sentence, where these add none of the question's words and nothing it wants."""
    share, holds = asked.coverage(text_roots(piece.matched)), asked.is_held_by(piece.matched)
    if share:
        for ending in piece.endings:
            if asked.coverage(text_roots(ending)) == share and asked.is_held_by(ending) == holds:
                return replace(piece, text=ending)
    return piece


def _compared(piece: Quotable, hit: Hit) -> str:
    """What is embedded: a row or a run of lines under its nearest heading."""
    heading = hit.chunk.headings[-1] if hit.chunk.headings and not piece.is_sentence else ""
    return f"{heading}\n{piece.matched}" if heading and heading not in piece.matched else piece.matched


def _context(hit: Hit) -> str:
    """What speaks for a passage: its text under its headings, in a document of that name."""
    return f"{hit.chunk.document}\n{hit.chunk.searchable_text}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Cosines with one question, put on the common scale."""

    unlike: float
    span: float

    def __call__(self, cosine: float) -> float:
        """Likeness: about 0 for an unrelated text, about 1 for an answer, a little beyond at either end."""
        return max(-0.5, min(1.5, (cosine - self.unlike) / self.span))


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Puts an embedder's cosines on one scale; made once for it.

    Multilingual-e5 keeps unrelated texts at a cosine of about 0.75 and a question and its answer at 0.88; others
    spread from 0.1 to 0.8. ``PAIRS`` are embedded once: likeness 0 is how near a question is to answers of other
    questions, 1 how near to its own.
    """

    answers: tuple[tuple[float, ...], ...]
    span: float  # from unrelated to answering, in this embedder's cosine

    @classmethod
    def of(cls, embedder: Embedder) -> Yardstick:
        """Embeds the pairs (0.3 seconds with the built-in embedder)."""
        questions = [embedder.embed_query(question) for question, _ in PAIRS]
        answers = [tuple(embedder.embed_passages([answer])[0]) for _, answer in PAIRS]
        own = [cosine(q, a) for q, a in zip(questions, answers, strict=True)]
        others = [cosine(q, a) for i, q in enumerate(questions) for j, a in enumerate(answers) if i != j]
        span = sum(own) / len(own) - sum(others) / len(others)
        return cls(tuple(answers), max(span, 0.01))

    def for_question(self, vector: Sequence[float]) -> Scale:
        """The scale for a question: some are nearer to everything than others."""
        near = [cosine(vector, answer) for answer in self.answers]
        return Scale(sum(near) / len(near), self.span)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))
