"""Server-sent events: shapes as a stream that a proxy does not cut and an error does not break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from pydantic import BaseModel
from starlette.responses import StreamingResponse

from assistant.core.errors import PeritoError
from assistant.core.shapes import ErrorDetail, ErrorShape
from assistant.web.answers import InternalError

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0  # keeps proxies from closing a stream in which nothing happens


def event_stream(events: AsyncIterator[tuple[str, BaseModel]]) -> StreamingResponse:
    """``events`` as (name, data) pairs; an error becomes a last event, `error`."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_written(events), media_type="text/event-stream", headers=headers)


async def _written(events: AsyncIterator[tuple[str, BaseModel]]) -> AsyncIterator[str]:
    """Events as lines, with a comment now and then; an error becomes the last event."""
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=64)

    async def fill() -> None:
        try:
            async for name, shape in events:
                await queue.put(_event(name, shape))
        except Exception as error:
            await queue.put(_event("error", _as_shape(error)))
        await queue.put(None)  # not when cancelled: nobody takes from a full queue any more

    task = asyncio.create_task(fill())
    try:
        while True:
            try:
                line = await asyncio.wait_for(queue.get(), HEARTBEAT_SECONDS)
            except TimeoutError:
                line = ": still here\n\n"
            if line is None:
                break
            yield line
        await task
    finally:
        task.cancel()


def _as_shape(error: Exception) -> ErrorShape:
    if not isinstance(error, PeritoError):
        log.error("A stream failed", exc_info=error)
        error = InternalError("Something went wrong inside Perito", "Its log says what")
    return ErrorShape(error=ErrorDetail(code=error.code, message=error.message, advice=error.advice))


def _event(name: str, shape: BaseModel) -> str:
    return f"event: {name}\ndata: {shape.model_dump_json()}\n\n"
