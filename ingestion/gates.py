"""Gates: a bounded number of pages is drawn and read at a time, and documents take turns at it.

Who waits is let in by urgency, then by how few pages of the same document are inside, then by arrival: a document of
5,000 pages fills a gate only while nobody else wants in.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from assistant.core.domain import Urgency


@dataclass(eq=False, slots=True)
class Turn:
    """A document that is being read, as gates see it."""

    urgency: Urgency = Urgency.PERSON
    inside: int = 0  # of its pages, behind any gate


class Gate:
    """Lets ``capacity`` pages in at a time. For one event loop."""

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._waiting: list[tuple[int, Turn, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def place(self, turn: Turn) -> AsyncGenerator[None]:
        """Be inside; waits until there is room."""
        await self._enter(turn)
        try:
            yield
        finally:
            self._leave(turn)

    async def _enter(self, turn: Turn) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((next(self._arrivals), turn, called))
        self._call()
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():  # it was let in just then
                self._leave(turn)
            else:
                self._waiting = [waiter for waiter in self._waiting if waiter[2] is not called]
            raise

    def _leave(self, turn: Turn) -> None:
        turn.inside -= 1
        self._free += 1
        self._call()

    def _call(self) -> None:
        while self._free and self._waiting:
            first = min(self._waiting, key=lambda waiter: (waiter[1].urgency, waiter[1].inside, waiter[0]))
            self._waiting.remove(first)
            _, turn, called = first
            if not called.done():
                self._free -= 1
                turn.inside += 1
                called.set_result(None)
