"""`perito jobs list | show | retry | cancel | pause | resume`: the queue of what is to be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assistant.core.domain import JobState
from assistant.core.settings import load_settings
from compose.commands.options import DocumentId, Json, print_json, print_table, run, whole_id

if TYPE_CHECKING:
    from assistant.core.shapes import JobShape
    from compose.backends import Backend

jobs_app = typer.Typer(no_args_is_help=True, help="The queue of what is to be read.", rich_markup_mode=None)


@jobs_app.command("list")
def jobs_list(
    state: Annotated[JobState | None, typer.Option(help="Only in this state; else all but what is done.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 1000,
    as_json: Json = False,
) -> None:
    """What waits, is being read, failed or was cancelled, and why."""
    from compose.tables import jobs_table, queue_line

    queue = run(_steer(lambda backend: backend.jobs(state, limit)))
    if as_json:
        print_json(queue.model_dump(mode="json"))
        return
    typer.echo(queue_line(queue, state))
    print_table(jobs_table(queue.jobs)) if queue.jobs else None


@jobs_app.command("show")
def jobs_show(document_id: DocumentId, as_json: Json = False) -> None:
    """One document's place in the queue."""
    from compose.tables import job_line

    job = run(_steer_one(document_id, lambda backend, whole: backend.job(whole)))
    _print_job(job, job_line(job), as_json)


@jobs_app.command("retry")
def jobs_retry(document_id: DocumentId, as_json: Json = False) -> None:
    """Read on where it failed, was cancelled or left pages out."""
    from compose.tables import retry_line

    before, after = run(_steer_one(document_id, lambda backend, whole: _changed(backend, whole, backend.retry)))
    _print_job(after, retry_line(before, after), as_json)


@jobs_app.command("cancel")
def jobs_cancel(document_id: DocumentId, as_json: Json = False) -> None:
    """Stop reading a document; the pages that were read stay."""
    from compose.tables import cancel_line

    before, after = run(_steer_one(document_id, lambda backend, whole: _changed(backend, whole, backend.cancel)))
    _print_job(after, cancel_line(before, after), as_json)


@jobs_app.command("pause", short_help="Pause all reading, in every process.")
def jobs_pause(as_json: Json = False) -> None:
    """Pause all reading, in every process, once the pages at hand are read."""
    run(_steer(lambda backend: backend.pause()))
    print_json({"paused": True}) if as_json else typer.echo("Reading is paused. `perito jobs resume` goes on.")


@jobs_app.command("resume")
def jobs_resume(as_json: Json = False) -> None:
    """Go on reading."""
    run(_steer(lambda backend: backend.resume()))
    print_json({"paused": False}) if as_json else typer.echo("Reading goes on.")


async def _steer(act: Callable[[Backend], Awaitable[Any]]) -> Any:
    """``act`` on the queue, without taking anything up in this process."""
    from compose.backends import open_backend

    async with open_backend(load_settings(), reads=False) as backend:
        return await act(backend)


async def _steer_one(document_id: str, act: Callable[[Backend, str], Awaitable[Any]]) -> Any:
    async def go(backend: Backend) -> Any:
        return await act(backend, await whole_id(backend, document_id))

    return await _steer(go)


async def _changed(
    backend: Backend, document_id: str, act: Callable[[str], Awaitable[JobShape]]
) -> tuple[JobShape, JobShape]:
    """The job before and after ``act``: what came of it is in the difference."""
    return await backend.job(document_id), await act(document_id)


def _print_job(job: JobShape, line: str, as_json: bool) -> None:
    print_json(job.model_dump(mode="json")) if as_json else typer.echo(line)
