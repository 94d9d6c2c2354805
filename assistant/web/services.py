"""The running parts that the web stands on, handed to it by whoever composes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from assistant.core.domain import Access, Answer
from assistant.core.ports import BlobStore, Catalogue, ChunkIndex, Ingestion, Message, PageImages, Queue
from assistant.core.settings import Settings


class Answering(Protocol):
    """The path of a question, as ``assistant.answering.Assistant`` walks it."""

    def answer(
        self, question: str, access: Access, *, history: Sequence[Message] = (), images: Sequence[bytes] = ()
    ) -> AsyncIterator[str | Answer]:
        """Pieces of text as they come, then one Answer."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the routes and the chat call. ``local_token`` is the local command line's pass; "" for none."""

    settings: Settings
    assistant: Answering
    ingestion: Ingestion
    catalogue: Catalogue
    page_images: PageImages
    blobs: BlobStore
    index: ChunkIndex
    queue: Queue
    local_token: str = ""
