"""Who pays for a model call: the chat model knows what it used, the assistant knows for whom."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeVar

from assistant.core.domain import Access, Usage
from assistant.core.ports import Catalogue


@dataclass(frozen=True, slots=True)
class Account:
    """Whose question it is, and the lines charged so far."""

    access: Access
    lines: list[Usage] = field(default_factory=list[Usage])

    @property
    def collection(self) -> str:
        """The one collection looked into, or "" where there may be several."""
        allowed = self.access.collections
        return next(iter(allowed)) if allowed and len(allowed) == 1 else ""


T = TypeVar("T")
_account: ContextVar[Account | None] = ContextVar("account", default=None)


class Ledger:
    """Writes usage into the catalogue with the person and collection it was for. ``record`` is what chat models
    are given; they call it in a thread."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def record(self, usage: Usage) -> None:
        account = _account.get()
        if account is not None:
            usage = replace(usage, user=account.access.user, collection=usage.collection or account.collection)
            account.lines.append(usage)
        self._catalogue.record(usage)


async def charged(pieces: AsyncIterator[T], account: Account) -> AsyncGenerator[T]:
    """``pieces``, with whatever they use charged to ``account``. Closing this closes them.

    The account is set for each step alone: a consumer may take every step in another task.
    """
    try:
        while True:
            with _charging(account):
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece
    finally:
        if isinstance(pieces, AsyncGenerator):
            with _charging(account):
                await pieces.aclose()


@contextlib.contextmanager
def _charging(account: Account) -> Generator[None]:
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)
