"""The three ways to reply: a model's text from sources, quotes, a refusal. Each streams into a draft.

What a reasoning model thinks is taken out of its reply while it streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from assistant.citations import CitationStream, cited_sentences
from assistant.core.domain import Access, Answer, Box, Chunk, Citation, Sentence, TimeSpan, Usage, Verdict
from assistant.core.errors import TransientError
from assistant.core.ports import ChatModel, Completion, Message
from assistant.evidence import Quote, Weigher
from assistant.grounding import Likeness, Placer, judge
from assistant.language import Language
from assistant.ledger import Account, charged
from assistant.quotes import readable
from assistant.wording import CUT_OFF, declines, nearest_passages, quoted_passage

_THOUGHT, _THOUGHT_END = "<think>", "</think>"


class ModelSilent(Exception):
    """The model could not be reached, broke off, or had nothing to say. The draft holds what it did say."""


@dataclass
class Draft:
    """An answer while it is being made. What was shown is what stands in it: ``say`` returns the text to stream."""

    question: str
    language: Language
    refused: bool = False
    quoted: bool = False
    sentences: list[Sentence] = field(default_factory=list[Sentence])
    citations: list[Citation] = field(default_factory=list[Citation])
    _said: list[str] = field(default_factory=list[str])

    def say(self, text: str, apart: bool = True) -> str:
        """Add ``text``, as a paragraph of its own where ``apart``; returns it as it is to be shown."""
        if apart and text and self.text:
            text = f"\n\n{text}"
        self._said.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._said)

    def finished(self, seconds: float, usage: Sequence[Usage] = ()) -> Answer:
        return Answer(
            question=self.question,
            text=self.text,
            refused=self.refused,
            sentences=tuple(self.sentences),
            citations=tuple(self.citations),
            usage=tuple(usage),
            seconds=seconds,
            language=self.language,
            quoted=self.quoted,
        )


@dataclass(frozen=True, slots=True)
class Replies:
    """Writes drafts. ``placer`` finds where on the page a cited sentence stands."""

    placer: Placer
    weigher: Weigher

    async def from_model(
        self,
        model: ChatModel,
        messages: Sequence[Message],
        sources: Sequence[Chunk],
        draft: Draft,
        account: Account,
        purpose: str = "answer",
    ) -> AsyncGenerator[str]:
        """The model's text, its citations checked against ``sources`` (numbered from 1 in ``messages``).
        Raises ModelSilent."""
        cites = CitationStream(len(sources))
        truncated, begins = False, len(draft.text)
        try:
            async with aclosing(spoken(model, messages, account, purpose)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Completion):
                        truncated = piece.truncated
                    elif shown := cites.feed(piece):
                        yield draft.say(shown, apart=False)
        except TransientError as error:
            raise ModelSilent from error
        if rest := cites.finish():
            yield draft.say(rest, apart=False)
        text = draft.text[begins:]
        if not text.strip():
            raise ModelSilent
        if truncated:
            yield draft.say(CUT_OFF[draft.language])
        cited = [sources[number - 1] for number in cites.order]
        draft.refused = not cited and declines(text)
        draft.sentences += await asyncio.to_thread(judged, text, cited, self.weigher.likeness)
        await self._cite(draft, cited, account.access)

    async def from_quotes(
        self, notice: str, quotes: Sequence[Quote], chunks: Sequence[Chunk], draft: Draft, access: Access
    ) -> AsyncGenerator[str]:
        """``quotes``, best first, said to be quotes by ``notice``."""
        draft.quoted = True
        yield draft.say(notice)
        order = list(dict.fromkeys(quote.source for quote in quotes))
        for quote in quotes:
            number = order.index(quote.source) + 1
            draft.sentences.append(Sentence(quote.text, (number,), Verdict.QUOTED))
            yield draft.say(quoted_passage(quote.text, number))
        await self._cite(draft, [chunks[source] for source in order], access)

    async def refusal(
        self, statement: str, nearest: Sequence[Chunk], draft: Draft, access: Access
    ) -> AsyncGenerator[str]:
        """``statement`` that nothing was found, and the ``nearest`` passages, shown as such."""
        draft.refused = True
        if statement:
            draft.sentences.append(Sentence(statement))
            yield draft.say(statement)
        if nearest:
            yield draft.say(nearest_passages(draft.language, nearest))
            await self._cite(draft, nearest, access)

    async def all_text(
        self, statement: str, chunks: Sequence[Chunk], draft: Draft, access: Access
    ) -> AsyncGenerator[str]:
        """All of ``chunks``, quoted under a ``statement``: for a question about the whole of a short text."""
        draft.quoted = True
        yield draft.say(statement)
        for number, chunk in enumerate(chunks, start=1):
            draft.sentences.append(Sentence(chunk.text, (number,), Verdict.QUOTED))
            yield draft.say(f"{readable(chunk.text)}\n\n[{number}]")
        await self._cite(draft, chunks, access)

    async def _cite(self, draft: Draft, chunks: Sequence[Chunk], access: Access) -> None:
        for number, chunk in enumerate(chunks, start=1):
            said = [sentence.text for sentence in draft.sentences if number in sentence.citations]
            draft.citations.append(citation(number, chunk, await self.placer.boxes(chunk, said, access)))


async def spoken(
    model: ChatModel, messages: Sequence[Message], account: Account, purpose: str
) -> AsyncGenerator[str | Completion]:
    """What the model says, without what it thinks, charged to ``account``."""
    thoughts = ThoughtFilter()
    async with aclosing(charged(model.stream(messages, purpose=purpose), account)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                yield thoughts.finish()
                yield piece
            else:
                yield thoughts.feed(piece)


def judged(text: str, cited: Sequence[Chunk], likeness: Likeness) -> list[Sentence]:
    """The sentences of a text in our notation, each held against what it cites. Not for the event loop."""
    return [
        Sentence(found.text, found.numbers, judge(found.text, [cited[n - 1] for n in found.numbers], likeness).verdict)
        for found in cited_sentences(text)
    ]


def citation(number: int, chunk: Chunk, boxes: Sequence[Box]) -> Citation:
    """``chunk`` as a citation; ``boxes`` where on its page it is shown."""
    said = {box: time for a in chunk.anchors for box, time in zip(a.boxes, a.times, strict=False)}
    times = [said[box] for box in boxes if box in said] or list(said.values())
    return Citation(
        number=number,
        document=chunk.document,
        document_id=chunk.document_id,
        page=chunk.page,
        boxes=tuple(boxes),
        reader=chunk.reader,
        confidence=chunk.confidence,
        text=chunk.text,
        time=TimeSpan.around(times) if times else None,
        corrected_by=chunk.corrected_by,
    )


@dataclass
class ThoughtFilter:
    """Lets through what is said and holds back what is thought: ``<think>…</think>`` at the start of a reply,
    as models emit it whose server has no parser for it, and the blanks around it. The marks may come in pieces."""

    _held: str = ""
    _speaking: bool = False

    def feed(self, piece: str) -> str:
        """The part of the reply that may be shown now."""
        if self._speaking:
            return piece
        self._held = (self._held + piece).lstrip()
        if self._held.startswith(_THOUGHT):
            before, closed, rest = self._held.partition(_THOUGHT_END)
            self._held = rest.lstrip() if closed else before
        if not self._held or self._held.startswith(_THOUGHT) or _THOUGHT.startswith(self._held):
            return ""
        self._speaking = True
        return self._held

    def finish(self) -> str:
        """What is left when the reply ends; an unfinished thought is no answer."""
        return "" if self._speaking or self._held.startswith(_THOUGHT) else self._held
