"""The queue over HTTP: what waits and why, retry and cancel, and pausing the whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from assistant.core.domain import JobState
from assistant.core.shapes import JobShape, QueueShape
from assistant.web.answers import declared
from assistant.web.dependencies import Parts, Who, signed_in_router
from assistant.web.documents import DocumentId

router = signed_in_router()

OPEN = (JobState.WAITING, JobState.RUNNING, JobState.FAILED, JobState.CANCELLED)
MOST = 10_000


@router.get("/api/jobs", summary="The queue: what waits, is being read, failed or was cancelled")
async def list_jobs(
    parts: Parts,
    who: Who,
    state: Annotated[JobState | None, Query(description="Only in this state; else all but what is done.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST, description="At most so many.")] = 1000,
) -> QueueShape:
    """In the order of their turn."""
    return QueueShape.of(await parts.queue.jobs(who, (state,) if state else OPEN, limit))


@router.get("/api/jobs/{document_id}", summary="A document's place in the queue", responses=declared(404))
async def show_job(parts: Parts, who: Who, document_id: DocumentId) -> JobShape:
    return JobShape.of(await parts.queue.job(document_id, who))


@router.post(
    "/api/jobs/{document_id}/retry",
    status_code=202,
    summary="Read on where it failed, was cancelled or left pages out",
    responses=declared(404, 507),
)
async def retry_job(parts: Parts, who: Who, document_id: DocumentId) -> JobShape:
    return JobShape.of(await parts.queue.retry(document_id, who))


@router.post(
    "/api/jobs/{document_id}/cancel",
    summary="Stop reading a document; the pages that were read stay",
    responses=declared(404, 507),
)
async def cancel_job(parts: Parts, who: Who, document_id: DocumentId) -> JobShape:
    return JobShape.of(await parts.queue.cancel(document_id, who))


@router.post("/api/pause", status_code=204, summary="Pause all reading", responses=declared(507))
async def pause_reading(parts: Parts, who: Who) -> None:
    """For people who may see every collection."""
    await parts.queue.pause(who)


@router.post("/api/resume", status_code=204, summary="Go on reading", responses=declared(507))
async def resume_reading(parts: Parts, who: Who) -> None:
    """For people who may see every collection."""
    await parts.queue.resume(who)
