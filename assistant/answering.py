"""The whole path of a question, in order.

A question is understood (a greeting is greeted), passages are searched, their sentences are weighed. What follows
depends on what is there: nothing relevant is a refusal that shows the nearest passages; with a language model the
answer is written from the numbered sources and every sentence is held against what it cites; without one, or while
it cannot be reached, the best sentences are quoted. A question about pictures has a path of its own
(``pictures.py``).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from assistant.core.domain import Access, Answer, Chunk
from assistant.core.ports import ChatModel, Message
from assistant.evidence import Evidence, Weigher
from assistant.ledger import Account
from assistant.pictures import Pictures
from assistant.prompting import answer_messages, within_budget
from assistant.question import Question, understand
from assistant.replies import Draft, ModelSilent, Replies
from assistant.retrieval import Found, Retriever
from assistant.wording import COURTESIES, MODEL_DOWN, MODEL_UNREACHABLE, NO_DOCUMENTS, NOTHING_FOUND, QUOTES

NEAREST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Assistant:
    """Answers questions over the documents a person may see. ``sources``: how many passages a model is shown."""

    retriever: Retriever
    weigher: Weigher
    replies: Replies
    pictures: Pictures
    model: ChatModel | None = None
    sources: int = 6
    clock: Callable[[], float] = time.perf_counter

    async def answer(
        self, question: str, access: Access, *, history: Sequence[Message] = (), images: Sequence[bytes] = ()
    ) -> AsyncGenerator[str | Answer]:
        """Pieces of text as they come, then one Answer whose text is all the pieces together.

        ``history`` is the conversation before, oldest first; ``images`` are picture files (PNG, JPEG, WebP)
        that the question is about. Closing the generator stops the model. Raises BadRequest for a question
        that is empty or far too long, BadInput for pictures that cannot be used, and what the stores raise.
        """
        started = self.clock()
        asked = understand(question, history)
        account, draft = Account(access), Draft(asked.text, asked.language)
        reply = self._about_pictures if images else self._from_documents
        async with aclosing(reply(asked, draft, account, history, images)) as pieces:
            async for piece in pieces:
                if piece:
                    yield piece
        yield draft.finished(self.clock() - started, account.lines)

    async def aclose(self) -> None:
        """Close the models' connections."""
        for model in filter(None, (self.model, self.pictures.vlm)):
            await model.aclose()

    async def _from_documents(
        self, asked: Question, draft: Draft, account: Account, history: Sequence[Message], _: Sequence[bytes]
    ) -> AsyncGenerator[str]:
        if asked.courtesy:
            yield draft.say(COURTESIES[asked.courtesy][asked.language])
            return
        found = await self.retriever.find(asked.search, account.access)
        evidence = await self.weigher.weigh(asked.search, found.vector, found.hits, asked.focus)
        quotes, chunks = evidence.best, [hit.chunk for hit in found.hits]
        notice = QUOTES
        if self.model is not None and evidence.is_worth_asking:
            try:
                async for piece in self._written(self.model, asked, found, evidence, draft, account, history):
                    yield piece
                return
            except ModelSilent:
                notice = MODEL_DOWN
        if evidence.is_relevant:
            async for piece in self.replies.from_quotes(notice[asked.language], quotes, chunks, draft, account.access):
                yield piece
            return
        if notice is MODEL_DOWN:
            yield draft.say(MODEL_UNREACHABLE[asked.language])
        statement = (NOTHING_FOUND if chunks else NO_DOCUMENTS)[asked.language]
        async for piece in self.replies.refusal(statement, nearest(chunks, evidence), draft, account.access):
            yield piece

    async def _written(
        self,
        model: ChatModel,
        asked: Question,
        found: Found,
        evidence: Evidence,
        draft: Draft,
        account: Account,
        history: Sequence[Message],
    ) -> AsyncGenerator[str]:
        """The model's answer; where it says that the documents do not hold it, the nearest passages follow."""
        best = [found.hits[source] for source in evidence.order(len(found.hits))][: self.sources]
        widened = await self.retriever.widened(best, account.access)
        sources = within_budget([hit.chunk for hit in widened])
        messages = answer_messages(asked.text, asked.language, sources, history)
        async with aclosing(self.replies.from_model(model, messages, sources, draft, account)) as pieces:
            async for piece in pieces:
                yield piece
        if draft.refused:
            async for piece in self.replies.refusal("", sources[:NEAREST_SHOWN], draft, account.access):
                yield piece

    async def _about_pictures(
        self, asked: Question, draft: Draft, account: Account, history: Sequence[Message], images: Sequence[bytes]
    ) -> AsyncGenerator[str]:
        """A model that sees answers from the pictures and, where they bear on the question, from documents."""
        sources: list[Chunk] = []
        if self.pictures.can_see:
            found = await self.retriever.find(asked.search, account.access)
            evidence = await self.weigher.weigh(asked.search, found.vector, found.hits, asked.focus)
            if evidence.is_relevant:
                best = [found.hits[source].chunk for source in evidence.order(len(found.hits))]
                sources = within_budget(best[: self.sources])
        async with aclosing(self.pictures.answer(asked, images, sources, history, draft, account)) as pieces:
            async for piece in pieces:
                yield piece


def nearest(chunks: Sequence[Chunk], evidence: Evidence) -> list[Chunk]:
    """The passages a refusal shows, by what speaks for them."""
    return [chunks[source] for source in evidence.order(len(chunks))][:NEAREST_SHOWN]
