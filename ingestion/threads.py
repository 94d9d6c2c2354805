"""Work in threads that a cancellation waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """``function`` in a thread. A thread cannot be stopped: who is cancelled waits for it first, so that nothing
    is written behind the back of a deletion."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise
