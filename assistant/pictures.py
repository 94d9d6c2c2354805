"""Questions about pictures: a model that sees answers; without one they are read by OCR and answered from
their text, and the answer says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assistant.core.domain import Anchor, Chunk, Hit, Reading
from assistant.core.pictures import decoded
from assistant.core.ports import ChatModel, Embedder, Ingestion, Message
from assistant.evidence import Weigher
from assistant.ledger import Account
from assistant.prompting import answer_messages, within_budget
from assistant.question import Question
from assistant.replies import Draft, ModelSilent, Replies
from assistant.wording import NO_TEXT_IN_PICTURE, PICTURE, PICTURE_TEXT, READ_BY_OCR, VLM_DOWN

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Pictures:
    """Answers about pictures. ``vlm`` sees them, ``model`` only reads the text an OCR found on them."""

    ingestion: Ingestion
    embedder: Embedder
    weigher: Weigher
    replies: Replies
    vlm: ChatModel | None = None
    model: ChatModel | None = None
    megapixels: int = 120

    @property
    def can_see(self) -> bool:
        return self.vlm is not None

    async def answer(
        self,
        asked: Question,
        images: Sequence[bytes],
        sources: Sequence[Chunk],
        history: Sequence[Message],
        draft: Draft,
        account: Account,
    ) -> AsyncGenerator[str]:
        """The answer's pieces. ``sources``: passages of documents that bear on the question. BadInput for a
        picture that cannot be used, BadRequest for more of them than the endpoint takes."""
        notice = READ_BY_OCR
        if self.vlm is not None:
            *before, last = answer_messages(asked.text, asked.language, sources, history, prompt="answer_picture")
            messages = [*before, replace(last, images=tuple(images))]
            replying = self.replies.from_model(self.vlm, messages, sources, draft, account, purpose="picture")
            try:
                async with aclosing(replying) as pieces:
                    async for piece in pieces:
                        yield piece
                draft.refused = False  # what it says about the documents is not about the picture
                return
            except ModelSilent:
                notice = VLM_DOWN
        opened = [await asyncio.to_thread(decoded, image, self.megapixels) for image in images]
        async with aclosing(self._from_text(asked, opened, notice[asked.language], history, draft, account)) as read:
            async for piece in read:
                yield piece

    async def _from_text(
        self,
        asked: Question,
        images: Sequence[Image],
        notice: str,
        history: Sequence[Message],
        draft: Draft,
        account: Account,
    ) -> AsyncGenerator[str]:
        """What OCR reads on the pictures, quoted or put into words by a model."""
        readings = [await self.ingestion.read_image(image) for image in images]
        chunks = [c for n, reading in enumerate(readings, 1) for c in picture_chunks(reading, n, len(images), asked)]
        if not chunks:
            draft.refused = True
            yield draft.say(f"{notice} {NO_TEXT_IN_PICTURE[asked.language]}")
            return
        if self.model is not None:
            yield draft.say(notice) + draft.say("\n\n", apart=False)
            messages = answer_messages(asked.text, asked.language, within_budget(chunks), history)
            replying = self.replies.from_model(self.model, messages, within_budget(chunks), draft, account)
            try:
                async with aclosing(replying) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelSilent:
                notice = ""
        async for piece in self._quoted(asked, chunks, notice, draft, account):
            yield piece

    async def _quoted(
        self, asked: Question, chunks: Sequence[Chunk], notice: str, draft: Draft, account: Account
    ) -> AsyncGenerator[str]:
        """The lines that answer; where none does ("what does it say?"), all the text."""
        vector, hits = await asyncio.to_thread(self._as_hits, asked.search, chunks)
        evidence = await self.weigher.weigh(asked.search, vector, hits, asked.focus)
        if evidence.is_relevant:
            async for piece in self.replies.from_quotes(notice, evidence.best, chunks, draft, account.access):
                yield piece
            return
        statement = f"{notice} {PICTURE_TEXT[asked.language]}".strip()
        async for piece in self.replies.all_text(statement, chunks, draft, account.access):
            yield piece

    def _as_hits(self, question: str, chunks: Sequence[Chunk]) -> tuple[list[float], list[Hit]]:
        vector = self.embedder.embed_query(question)
        likeness = [
            sum(a * b for a, b in zip(vector, other, strict=True))
            for other in self.embedder.embed_passages([chunk.text for chunk in chunks])
        ]
        return vector, [Hit(chunk, score, dense=score) for chunk, score in zip(chunks, likeness, strict=True)]


def picture_chunks(reading: Reading, number: int, of: int, asked: Question) -> list[Chunk]:
    """What was read on a picture as one passage, anchored to its blocks; nothing for a picture without text.
    A picture belongs to no document: its ``document_id`` is empty."""
    blocks = [block for block in reading.blocks if block.text.strip()]
    if not blocks:
        return []
    name = PICTURE[asked.language] + (f" {number}" if of > 1 else "")
    return [
        Chunk(
            id=f"picture-{number}",
            document_id="",
            document=name,
            collection="",
            page=number,
            ordinal=0,
            text="\n\n".join(block.text for block in blocks),
            anchors=tuple(Anchor("", number, (block.bbox,)) for block in blocks),
            reader=reading.reader,
            confidence=reading.confidence,
        )
    ]
