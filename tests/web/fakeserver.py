"""The whole web application over fakes, as a process of its own: ``python -m tests.web.fakeserver HOME PORT [users]``.

Chainlit keeps its state in its modules, so a chat that is tried in more than one way needs a process for each.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from blockbuster import BlockBuster

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Access, Answer
from assistant.core.errors import EndpointDown
from assistant.core.ports import Message
from assistant.web.app import Services, create_app
from assistant.wiring import build_assistant
from tests.assistant.webparts import PaperImages, Reading, settings_for
from tests.fakes import FakeEmbedder, FakeIndex, FakeQueue

# Not the gate: all of Chainlit's own routes run behind it.
LOOKED_AT = [f"assistant.web.{name}" for name in ("asking", "chat", "chatfiles", "documents", "history", "uploads")]
# Chainlit blocks for a moment in these, called from our handlers.
CHAINLITS_OWN = [("time.sleep", "chainlit/message.py", "__init__")]


class Moody:
    """The real assistant, but for two questions: one never ends, one meets a dead model."""

    def __init__(self, real: Any, note: Path) -> None:
        self._real = real
        self._note = note

    async def answer(
        self, question: str, access: Access, *, history: Sequence[Message] = (), images: Sequence[bytes] = ()
    ) -> AsyncIterator[str | Answer]:
        if question == "Count for ever":
            async for piece in self._count():
                yield piece
        if question == "Fail":
            yield "It begins "
            raise EndpointDown("The language model at http://model:8000 did not answer")
        async for piece in self._real.answer(question, access, history=history, images=images):
            yield piece

    async def _count(self) -> AsyncIterator[str]:
        try:
            for number in range(100_000):
                yield f"{number} "
                await asyncio.sleep(0.05)
        finally:
            Thread(target=self._note.write_text, args=("stopped",)).start()


def main() -> None:
    home, port, users = Path(sys.argv[1]), int(sys.argv[2]), "users" in sys.argv[3:]
    settings = settings_for(home, users=users, server={"port": port})
    blobs = FolderBlobStore(home / "blobs")
    catalogue: Any = SqlCatalogue.open(f"sqlite:///{home / 'perito.db'}")
    index, embedder = FakeIndex(), FakeEmbedder()
    ingestion = Reading(catalogue, index, embedder, picture_text="TOTAL 42,50 EUR")
    ingestion.blobs = blobs  # pyright: ignore[reportAttributeAccessIssue]
    real = build_assistant(settings, index=index, embedder=embedder, catalogue=catalogue, ingestion=ingestion)
    services = Services(
        settings,
        Moody(real, home / "stopped.txt"),
        ingestion,
        catalogue,
        PaperImages(catalogue),
        blobs,
        index,
        FakeQueue(catalogue),
    )
    app = create_app(services)
    with no_blocking():
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


@contextmanager
def no_blocking() -> Iterator[None]:
    """A blocking call of ours in the event loop is an error, which the chat then shows and the test meets."""
    blockbuster = BlockBuster(scanned_modules=LOOKED_AT)
    for name, file, function in CHAINLITS_OWN:
        blockbuster.functions[name].can_block_in(file, function)
    blockbuster.activate()
    try:
        yield
    finally:
        blockbuster.deactivate()


if __name__ == "__main__":
    main()
