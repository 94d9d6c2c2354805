"""Dense vectors follow in a loop of their own, so that pages are answerable before they are embedded."""

from __future__ import annotations

import asyncio
import logging

from assistant.core.errors import PeritoError
from ingestion.publish import Publisher
from ingestion.threads import to_its_end

log = logging.getLogger(__name__)

BATCH = 16
RETRY_SECONDS = 5.0
LOOK_SECONDS = 30.0  # what another process published and did not come to embed


class Embedding:
    """For one event loop. ``start`` it; ``soon`` after publishing."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._wanted = asyncio.Event()
        self._done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin with what waits already."""
        self._wanted.set()
        self._task = asyncio.create_task(self._go_on(), name="embed")

    def soon(self) -> None:
        """There may be something to embed."""
        self._wanted.set()
        self._done.clear()

    async def drain(self) -> None:
        """Until nothing waits for its vector."""
        if self._task is not None and not self._task.done():
            done = asyncio.create_task(self._done.wait())
            await asyncio.wait({done, self._task}, return_when="FIRST_COMPLETED")
            done.cancel()

    async def aclose(self) -> None:
        """Stop after the passages at hand."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _go_on(self) -> None:
        in_doubt = True  # what was counted before this process, or beside it
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):  # wait_for may swallow a cancellation in Python 3.11
                    await self._wanted.wait()
            except TimeoutError:
                in_doubt = True
            self._wanted.clear()  # before looking: what is published meanwhile sets it again
            try:
                embedded = await to_its_end(self._publisher.embed_pending, BATCH, lambda: self._stopping)
                if not embedded and in_doubt:
                    await to_its_end(self._publisher.recount)
                    in_doubt = False
            except Exception as error:  # words are found without vectors; nothing may end the embedding for good
                log.warning("embedding waits: %s", error, exc_info=not isinstance(error, PeritoError))
                in_doubt = True  # vectors may have been added and not counted
                self._wanted.set()
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if embedded:
                self._wanted.set()
            elif not self._wanted.is_set():
                self._done.set()
