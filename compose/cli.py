"""The `perito` command: parse, call, render.

Exit codes: 0 done; 1 failed; 2 wrong use; 3 some documents partial or failed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from assistant.core.domain import DocumentStatus, JobState
from assistant.core.errors import NotFound, PeritoError
from assistant.core.logs import configure_logs
from assistant.core.settings import load_settings

if TYPE_CHECKING:
    from assistant.core.domain import PageReading
    from assistant.core.shapes import DocumentShape, JobShape, RejectedShape
    from compose.backends import Backend
    from compose.watch.loop import Options, Told
    from compose.watch.manifest import Manifest

app = typer.Typer(
    name="perito",
    help="A chat assistant over your documents that shows where on the page it read each answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
documents_app = typer.Typer(no_args_is_help=True, help="What is in the collections.", rich_markup_mode=None)
eval_app = typer.Typer(no_args_is_help=True, help="Measure answers and readings.", rich_markup_mode=None)
jobs_app = typer.Typer(no_args_is_help=True, help="The queue of what is to be read.", rich_markup_mode=None)
app.add_typer(documents_app, name="documents")
app.add_typer(jobs_app, name="jobs")
app.add_typer(eval_app, name="eval")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
CollectionName = Annotated[str, typer.Option("--collection", help="The collection to add to.")]
AnyCollection = Annotated[str | None, typer.Option("--collection", help="Look only in this collection.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and what it takes.")]
Password = Annotated[str, typer.Option("--password", help="The password of a locked PDF.")]
DocumentId = Annotated[str, typer.Argument(metavar="ID", help="The document's id, or the beginning of it.")]

FAILED, PARTLY = 1, 3
UNWRAPPED = 10_000  # columns


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders.")],
    collection: CollectionName = "default",
    password: Password = "",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Add files and folders, and read them."""
    if dry_run:
        from compose.watch.manifest import files_manifest

        _show_manifest(_run(files_manifest(load_settings(), files_under(paths), collection, password)), as_json)
        return
    outcomes = _run(_ingest(files_under(paths), collection, password, as_json))
    if as_json:
        _print_json({"documents": [outcome.model_dump(mode="json") for outcome in outcomes]})
    bad = [outcome for outcome in outcomes if outcome.status in ("failed", "partial")]
    if bad:
        raise typer.Exit(FAILED if all(outcome.status == "failed" for outcome in outcomes) else PARTLY)


@app.command(short_help="Let a collection follow a folder.")
def watch(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to follow.")],
    collection: CollectionName = "default",
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Ignore such files and folders as well, e.g. '*.bak' or 'drafts/*'."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Bring the collection up to the folder, and end.")] = False,
    dry_run: DryRun = False,
    settle: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds a file has to stay the same.")] = 2.0,
    may_be_empty: Annotated[
        bool, typer.Option("--may-be-empty", help="An empty folder is meant so: remove its documents.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Let a collection follow a folder: what is new, changed, moved or removed there."""
    from compose.watch.loop import Options

    options = Options(tuple(ignore or ()), settle, may_be_empty)
    if dry_run:
        _dry_run(folder, collection, options, as_json)
        return
    bad = _run(_watch(folder, collection, options, once, as_json))
    if bad and once:
        raise typer.Exit(PARTLY)


@app.command(short_help="Read a file without adding it.")
def read(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.")],
    password: Password = "",
    as_json: Json = False,
) -> None:
    """Read a file without adding it: blocks, boxes, confidences, receipts."""
    from assistant.core.shapes import read_shape
    from compose.reading import fingerprint

    sha256 = fingerprint(file)
    pages = _run(_read(file, password, None if as_json else _print_page))
    if as_json:
        _print_json(read_shape(file.name, sha256, len(pages), pages).model_dump(mode="json"))
    failed = sum(page.status == "failed" for page in pages)
    if failed:
        raise typer.Exit(FAILED if failed == len(pages) else PARTLY)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question, in any language.")],
    collection: AnyCollection = None,
    as_json: Json = False,
) -> None:
    """Ask, and get an answer with its citations."""
    if not question.strip():
        raise typer.BadParameter("It is empty", param_hint="QUESTION")
    from compose.backends import open_backend
    from compose.tables import citation_line

    async def go() -> Any:
        async with open_backend(load_settings()) as backend:
            return await backend.ask(question, collection, (lambda _: None) if as_json else _print_piece)

    answer = _run(go())
    if as_json:
        _print_json(answer.model_dump(mode="json"))
        return
    typer.echo("\n" if answer.citations else "")
    for citation in answer.citations:
        typer.echo(citation_line(citation))


@documents_app.command("list")
def documents_list(
    collection: AnyCollection = None,
    status: Annotated[DocumentStatus | None, typer.Option(help="Only with this status.")] = None,
    name: Annotated[str, typer.Option(help="Only where the name contains this.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, max=100_000, help="At most so many.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Without so many of the newest.")] = 0,
    as_json: Json = False,
) -> None:
    """The documents, newest first."""
    from assistant.core.ports import DocumentQuery
    from compose.backends import open_backend
    from compose.tables import documents_table

    query = DocumentQuery(frozenset({status} if status else ()), name, limit=limit, offset=offset)

    async def go() -> list[DocumentShape]:
        async with open_backend(load_settings()) as backend:
            return await backend.documents(collection, query)

    documents = _run(go())
    if as_json:
        _print_json({"documents": [document.model_dump(mode="json") for document in documents]})
    else:
        _print_table(documents_table(documents, narrowed=bool(collection or status or name or offset)))


@documents_app.command("show")
def documents_show(document_id: DocumentId, as_json: Json = False) -> None:
    """One document, page by page: how each was read, and why."""
    from compose.backends import open_backend
    from compose.tables import document_line, pages_table

    async def go() -> Any:
        async with open_backend(load_settings()) as backend:
            return await backend.document(await _whole_id(backend, document_id))

    detail = _run(go())
    if as_json:
        _print_json(detail.model_dump(mode="json"))
        return
    typer.echo(document_line(detail.document))
    _print_table(pages_table(detail.pages))


@documents_app.command("delete")
def documents_delete(document_id: DocumentId, as_json: Json = False) -> None:
    """Remove a document: its passages, its pages and its file."""
    from compose.backends import open_backend

    async def go() -> str:
        async with open_backend(load_settings()) as backend:
            whole = await _whole_id(backend, document_id)
            await backend.delete(whole)
            return whole

    deleted = _run(go())
    _print_json({"deleted": deleted}) if as_json else typer.echo(f"Deleted {deleted}.")


@documents_app.command("reread", short_help="Read a document again.")
def documents_reread(document_id: DocumentId, as_json: Json = False) -> None:
    """Read a document again, for instance after a better reader was configured."""
    from compose.backends import open_backend
    from compose.tables import document_line

    async def go() -> DocumentShape:
        async with open_backend(load_settings()) as backend:
            return await backend.reread(await _whole_id(backend, document_id), lambda _: None)

    document = _run(go())
    _print_json({"documents": [document.model_dump(mode="json")]}) if as_json else typer.echo(document_line(document))
    if document.status != "complete":
        raise typer.Exit(FAILED if document.status == "failed" else PARTLY)


@jobs_app.command("list")
def jobs_list(
    state: Annotated[JobState | None, typer.Option(help="Only in this state; else all but what is done.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 1000,
    as_json: Json = False,
) -> None:
    """What waits, is being read, failed or was cancelled, and why."""
    from compose.tables import jobs_table, queue_line

    queue = _run(_steer(lambda backend: backend.jobs(state, limit)))
    if as_json:
        _print_json(queue.model_dump(mode="json"))
        return
    typer.echo(queue_line(queue))
    _print_table(jobs_table(queue.jobs)) if queue.jobs else None


@jobs_app.command("show")
def jobs_show(document_id: DocumentId, as_json: Json = False) -> None:
    """One document's place in the queue."""
    _show_job(_run(_steer_one(document_id, lambda backend, whole: backend.job(whole))), as_json)


@jobs_app.command("retry")
def jobs_retry(document_id: DocumentId, as_json: Json = False) -> None:
    """Read on where it failed, was cancelled or left pages out."""
    _show_job(_run(_steer_one(document_id, lambda backend, whole: backend.retry(whole))), as_json)


@jobs_app.command("cancel")
def jobs_cancel(document_id: DocumentId, as_json: Json = False) -> None:
    """Stop reading a document; the pages that were read stay."""
    _show_job(_run(_steer_one(document_id, lambda backend, whole: backend.cancel(whole))), as_json)


@jobs_app.command("pause", short_help="Pause all reading, in every process.")
def jobs_pause(as_json: Json = False) -> None:
    """Pause all reading, in every process, once the pages at hand are read."""
    _run(_steer(lambda backend: backend.pause()))
    _print_json({"paused": True}) if as_json else typer.echo("Reading is paused. `perito jobs resume` goes on.")


@jobs_app.command("resume")
def jobs_resume(as_json: Json = False) -> None:
    """Go on reading."""
    _run(_steer(lambda backend: backend.resume()))
    _print_json({"paused": False}) if as_json else typer.echo("Reading goes on.")


@app.command(short_help="What models used: calls, tokens, seconds, price.")
def usage(
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Only of so many days.")] = None,
    as_json: Json = False,
) -> None:
    """What models used, by purpose, model and collection: calls, tokens, seconds, price."""
    from compose.backends import open_backend
    from compose.tables import usage_table

    async def go() -> Any:
        async with open_backend(load_settings()) as backend:
            return await backend.usage(days)

    totals = _run(go())
    _print_json(totals.model_dump(mode="json")) if as_json else _print_table(usage_table(totals.usage))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", min=1, max=65535)] = None,
) -> None:
    """Start the chat and the HTTP API."""
    from compose.server import find_server, run

    settings = load_settings()
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = settings.model_copy(update={"server": settings.server.model_copy(update=changes)})
    configure_logs(settings.log_level)
    running = find_server(settings.home)
    if running is not None:
        from assistant.core.errors import StoreBusy

        raise StoreBusy(f"Perito already runs on {running.url}", "Open it there, or stop it first")
    run(settings)


@app.command(short_help="Read for servers over the same stores.")
def worker() -> None:
    """Read what a server over the same stores accepts; any number of these may run, on any number of hosts."""
    from compose.readingprocess import work

    settings = load_settings()
    configure_logs(settings.log_level)
    _run(work(settings))


@app.command(short_help="Check everything, and list the settings.")
def doctor(as_json: Json = False) -> None:
    """Check that everything Perito needs is there, and list the settings."""
    from compose.doctor import examine
    from compose.tables import checks_table, settings_table

    report = _run(examine())
    if as_json:
        _print_json(report.as_dict())
    else:
        _print_table(checks_table(report.checks))
        _print_table(settings_table(report.settings))
    if not report.healthy:
        raise typer.Exit(FAILED)


@app.command(short_help="Make the password_hash of a user.")
def password() -> None:
    """Make the password_hash of a user, for [[auth.users]] in perito.toml."""
    from assistant.web.auth import hash_password

    secret = (
        typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        if sys.stdin.isatty()
        else sys.stdin.readline()
    )
    if not secret.strip():
        _fail("No password was given. Type one, or send it on standard input.", False, 2)
    typer.echo(hash_password(secret.rstrip("\n")))


@eval_app.command("run")
def eval_run(
    cases: Annotated[Path, typer.Argument(metavar="CASES", help="Questions with their answers, as JSONL or YAML.")],
    collection: AnyCollection = None,
    documents: Annotated[
        Path | None, typer.Option(help="Add the files that the cases name first, from this folder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON and HTML reports.")] = Path("eval/results"),
    as_json: Json = False,
) -> None:
    """Ask every question and score page, passage, refusal and faithfulness."""
    from compose.evaluate import evaluate_answers

    report = _run(evaluate_answers(load_settings(), cases, collection, documents, out))
    _print_json(report.as_dict()) if as_json else report.as_table().print()


@eval_app.command("parse")
def eval_parse(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Documents with their truth in gt/.")],
    limit: Annotated[int | None, typer.Option(help="At most this many files of each kind of truth.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON and HTML reports.")] = Path("eval/results"),
    as_json: Json = False,
) -> None:
    """Read documents and give the character error rate against their truth."""
    from compose.evaluate import evaluate_parsing

    report = _run(evaluate_parsing(load_settings(), folder, limit, out))
    _print_json(report.as_dict()) if as_json else report.as_table().print()


def files_under(paths: Sequence[Path]) -> list[Path]:
    """The files named, and all files below the folders named, but for hidden ones. NotFound."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(file for file in path.rglob("*") if file.is_file())
            files += [file for file in below if not any(part.startswith(".") for part in file.relative_to(path).parts)]
        elif path.exists():
            files.append(path)
        else:
            raise NotFound(f"{path} is not there", "Check the path")
    if not files:
        raise NotFound("There is no file in " + ", ".join(map(str, paths)), "Name a folder that holds documents")
    return files


async def _ingest(
    files: list[Path], collection: str, password: str, quiet: bool
) -> list[DocumentShape | RejectedShape]:
    from compose.backends import ingest_all, open_backend
    from compose.tables import IngestProgress, outcome_line

    outcomes: list[DocumentShape | RejectedShape] = []
    async with open_backend(load_settings()) as backend:
        with IngestProgress(len(files), shown=not quiet and sys.stderr.isatty()) as progress:
            async for outcome in ingest_all(backend, files, collection, password, progress.update):
                outcomes.append(outcome)
                progress.ended()
                if not quiet:
                    progress.print(outcome_line(outcome))
    return outcomes


def _dry_run(folder: Path, collection: str, options: Options, as_json: bool) -> None:
    from compose.watch.manifest import make_manifest
    from compose.watch.shown import told_line

    def say(told: Told) -> None:
        typer.echo(told_line(told), err=True)

    _show_manifest(_run(make_manifest(load_settings(), folder, collection, options, say)), as_json)


def _show_manifest(manifest: Manifest, as_json: bool) -> None:
    from compose.watch.shown import manifest_table

    _print_json(manifest.as_dict()) if as_json else _print_table(manifest_table(manifest))


async def _watch(folder: Path, collection: str, options: Options, once: bool, as_json: bool) -> int:
    """Watch until told to stop, or once; how many files could not be read, or not wholly."""
    import signal

    from compose.watch.loop import Watch
    from compose.watch.shown import told_dict, told_json, told_line

    heard: list[Told] = []
    bad = 0

    def hear(told: Told) -> None:
        nonlocal bad
        bad += told.is_bad
        if once and as_json:
            heard.append(told)
        else:
            typer.echo(told_json(told) if as_json else told_line(told), err=told.trouble and not as_json)

    watch = Watch(load_settings(), folder, collection, options, hear)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, watch.stop)
    await (watch.once() if once else watch.forever())
    if once and as_json:
        _print_json({"events": [told_dict(told) for told in heard]})
    return bad


async def _read(file: Path, password: str, show: Callable[[PageReading], None] | None) -> list[PageReading]:
    from compose.reading import file_reader

    pages: list[PageReading] = []
    async with file_reader(load_settings()) as reader:
        async for page in reader.pages(file, password):
            pages.append(page)
            if show:
                show(page)
    return sorted(pages, key=lambda page: page.number)


async def _steer(act: Callable[[Backend], Awaitable[Any]]) -> Any:
    """``act`` on the queue, without taking anything up in this process."""
    from compose.backends import open_backend

    async with open_backend(load_settings(), reads=False) as backend:
        return await act(backend)


async def _steer_one(document_id: str, act: Callable[[Backend, str], Awaitable[Any]]) -> Any:
    async def go(backend: Backend) -> Any:
        return await act(backend, await _whole_id(backend, document_id))

    return await _steer(go)


def _show_job(job: JobShape, as_json: bool) -> None:
    from compose.tables import job_line

    _print_json(job.model_dump(mode="json")) if as_json else typer.echo(job_line(job))


async def _whole_id(backend: Any, beginning: str) -> str:
    """The one document whose id begins so."""
    from assistant.core.ports import DocumentQuery

    found = await backend.documents(None, DocumentQuery(id_begins=beginning, limit=2))
    if len(found) == 1:
        return found[0].id
    if not found:
        raise NotFound(f"There is no document {beginning}", "See `perito documents list`")
    raise NotFound(f"Several documents begin with {beginning}", "Give more of the id")


def _print_piece(piece: str) -> None:
    typer.echo(piece, nl=False)
    sys.stdout.flush()


def _print_page(page: PageReading) -> None:
    from compose.tables import page_heading

    typer.echo(page_heading(page))
    typer.echo(page.text + "\n" if page.text else "")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _print_table(table: Any) -> None:
    from rich.console import Console

    # Piped to `grep` and the like a row stays one line. "[draft]" in a file's name is no markup.
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    console = Console(width=wide, soft_wrap=False, markup=False, emoji=False)
    console.print(table)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def _fail(message: str, as_json: bool, code: int, detail: dict[str, str] | None = None) -> NoReturn:
    if as_json:
        _print_json({"error": detail or {"code": "wrong_use", "message": message, "advice": ""}})
    else:
        typer.echo(message, err=True)
    sys.exit(code)


def main() -> None:
    """Run the command line; every failure is a sentence and an exit code, never a traceback."""
    as_json = "--json" in sys.argv
    try:
        configure_logs("WARNING")
        sys.exit(app(standalone_mode=False) or 0)
    except PeritoError as error:
        _fail(str(error), as_json, FAILED, {"code": error.code, "message": error.message, "advice": error.advice})
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except (typer.Abort, KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        _unexpected(error, as_json)


def _unexpected(error: Exception, as_json: bool) -> NoReturn:
    """Wrong use as the parser words it; anything else is our bug, logged whole on request only."""
    import logging

    show = getattr(error, "format_message", None)
    if show is not None:
        usage, said = getattr(getattr(error, "ctx", None), "get_usage", lambda: "")(), show()
        told = said if said.startswith(usage) else f"{usage}\n{said}"  # a group without a command shows its help
        _fail(told.strip(), as_json, getattr(error, "exit_code", 2))
    if os.environ.get("PERITO_LOG_LEVEL") == "DEBUG":
        logging.getLogger(__name__).exception("unexpected")
    message = (
        f"Something unforeseen went wrong: {type(error).__name__}: {error}. Set PERITO_LOG_LEVEL=DEBUG to see where."
    )
    _fail(message, as_json, FAILED, {"code": "unforeseen", "message": message, "advice": ""})


if __name__ == "__main__":
    main()
