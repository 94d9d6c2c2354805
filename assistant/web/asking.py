"""The HTTP API's questions: an answer as JSON, or in pieces as it is written; and what answers cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from assistant.core.domain import Answer
from assistant.core.ports import Message
from assistant.core.shapes import AnswerShape, Shape, UsageTotalsShape
from assistant.question import MAX_CHARACTERS
from assistant.web.answers import declared
from assistant.web.dependencies import NAME, Parts, Who, signed_in_router
from assistant.web.events import event_stream

router = signed_in_router()


class TurnShape(BaseModel):
    """An earlier message of the conversation."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["user", "assistant"]
    text: str = Field(max_length=100_000)


class AskShape(BaseModel):
    """POST /api/ask."""

    model_config = ConfigDict(extra="forbid")

    # Told to machines, but judged by the assistant, whose sentence for people is the same everywhere.
    question: str = Field(
        description="In any language.", json_schema_extra={"pattern": r"[\p{L}\p{N}]", "maxLength": MAX_CHARACTERS}
    )
    collection: str | None = Field(None, description="Look only into this collection.", json_schema_extra=NAME)
    history: list[TurnShape] = Field([], max_length=50, description="What was said before, oldest first.")


@router.post(
    "/api/ask",
    summary="Ask a question",
    response_model=AnswerShape,
    responses={
        200: {
            "description": "The answer; with `Accept: text/event-stream`, events `piece`, then `answer` or `error`",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **declared(400),
    },
)
async def ask(
    body: AskShape, parts: Parts, who: Who, accept: Annotated[str, Header()] = "application/json"
) -> AnswerShape | StreamingResponse:
    history = [Message(turn.role, turn.text) for turn in body.history]
    question = body.question.replace("\0", " ")
    pieces = parts.assistant.answer(question, who.narrowed(body.collection), history=history)
    if "text/event-stream" in accept:
        return event_stream(_answer_events(pieces))
    answer = [piece async for piece in pieces if isinstance(piece, Answer)][-1]
    return AnswerShape.of(answer)


@router.get("/api/usage", summary="What models used, by purpose, model and collection", responses=declared(400))
async def show_usage(
    parts: Parts,
    who: Who,
    days: Annotated[int | None, Query(ge=1, le=36_500, description="Only of so many days.")] = None,
) -> UsageTotalsShape:
    since = datetime.now(UTC) - timedelta(days=days) if days is not None else None
    return UsageTotalsShape.of(await asyncio.to_thread(parts.catalogue.usage_totals, who, since))


class PieceShape(Shape):
    text: str


async def _answer_events(pieces: AsyncIterator[str | Answer]) -> AsyncIterator[tuple[str, BaseModel]]:
    async for piece in pieces:
        if isinstance(piece, Answer):
            yield "answer", AnswerShape.of(piece)
        else:
            yield "piece", PieceShape(text=piece)
