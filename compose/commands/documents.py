"""`perito ingest`, `read`, and `documents list | show | delete | reread`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assistant.core.domain import DocumentStatus
from assistant.core.errors import NotFound
from assistant.core.settings import load_settings
from compose.commands.options import (
    FAILED,
    PARTLY,
    AnyCollection,
    CollectionName,
    DocumentId,
    DryRun,
    Json,
    Password,
    print_json,
    print_table,
    run,
    whole_id,
)
from compose.commands.watching import show_manifest

if TYPE_CHECKING:
    from assistant.core.domain import PageReading
    from assistant.core.shapes import DocumentShape, RejectedShape

documents_app = typer.Typer(no_args_is_help=True, help="What is in the collections.", rich_markup_mode=None)


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

        show_manifest(run(files_manifest(load_settings(), files_under(paths), collection, password)), as_json)
        return
    outcomes = run(_ingest(files_under(paths), collection, password, as_json))
    if as_json:
        print_json({"documents": [outcome.model_dump(mode="json") for outcome in outcomes]})
    bad = [outcome for outcome in outcomes if outcome.status in ("failed", "partial")]
    if bad:
        raise typer.Exit(FAILED if all(outcome.status == "failed" for outcome in outcomes) else PARTLY)


def read(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.")],
    password: Password = "",
    as_json: Json = False,
) -> None:
    """Read a file without adding it: blocks, boxes, confidences, receipts."""
    from assistant.core.shapes import read_shape
    from compose.reading import fingerprint

    sha256 = fingerprint(file)
    pages = run(_read(file, password, None if as_json else _print_page))
    if as_json:
        print_json(read_shape(file.name, sha256, len(pages), pages).model_dump(mode="json"))
    failed = sum(page.status == "failed" for page in pages)
    if failed:
        raise typer.Exit(FAILED if failed == len(pages) else PARTLY)


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

    documents = run(go())
    if as_json:
        print_json({"documents": [document.model_dump(mode="json") for document in documents]})
    else:
        print_table(documents_table(documents, narrowed=bool(collection or status or name or offset)))


@documents_app.command("show")
def documents_show(document_id: DocumentId, as_json: Json = False) -> None:
    """One document, page by page: how each was read, and why."""
    from compose.backends import open_backend
    from compose.tables import document_line, pages_table

    async def go() -> Any:
        async with open_backend(load_settings()) as backend:
            return await backend.document(await whole_id(backend, document_id))

    detail = run(go())
    if as_json:
        print_json(detail.model_dump(mode="json"))
        return
    typer.echo(document_line(detail.document))
    print_table(pages_table(detail.pages))


@documents_app.command("delete")
def documents_delete(document_id: DocumentId, as_json: Json = False) -> None:
    """Remove a document: its passages, its pages and its file."""
    from assistant.core.ports import DocumentQuery
    from compose.backends import open_backend

    async def go() -> list[DocumentShape]:
        async with open_backend(load_settings()) as backend:
            whole = await whole_id(backend, document_id)
            family = await backend.documents(None, DocumentQuery(ids=frozenset({whole}), with_parts=True))
            await backend.delete(whole)
            return sorted(family, key=lambda one: one.id != whole)

    deleted, *parts = run(go())
    with_them = ", with what was found in it and nowhere else" if parts else ""
    print_json({"deleted": deleted.id}) if as_json else typer.echo(f"Deleted {deleted.name}{with_them}.")


@documents_app.command("reread", short_help="Read a document again.")
def documents_reread(document_id: DocumentId, as_json: Json = False) -> None:
    """Read a document again, for instance after a better reader was configured."""
    from compose.backends import open_backend
    from compose.tables import document_line

    async def go() -> DocumentShape:
        async with open_backend(load_settings()) as backend:
            return await backend.reread(await whole_id(backend, document_id), lambda _: None)

    document = run(go())
    print_json({"documents": [document.model_dump(mode="json")]}) if as_json else typer.echo(document_line(document))
    if document.status != "complete":
        raise typer.Exit(FAILED if document.status == "failed" else PARTLY)


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
    from assistant.core.shapes import RejectedShape
    from compose.backends import ingest_all, open_backend
    from compose.tables import IngestProgress, outcome_line

    outcomes: list[DocumentShape | RejectedShape] = []
    async with open_backend(load_settings()) as backend:
        with IngestProgress(len(files), shown=not quiet and sys.stderr.isatty()) as progress:
            async for outcome in ingest_all(backend, files, collection, password, progress.update):
                outcomes.append(outcome)
                was_given = isinstance(outcome, RejectedShape) or outcome.parent is None
                if was_given:
                    progress.ended()
                if not quiet:
                    progress.print(indent(outcome_line(outcome), "" if was_given else "  "))
    return outcomes


async def _read(file: Path, password: str, show: Callable[[PageReading], None] | None) -> list[PageReading]:
    from compose.reading import file_reader

    pages: list[PageReading] = []
    async with file_reader(load_settings()) as reader:
        async for page in reader.pages(file, password):
            pages.append(page)
            if show:
                show(page)
    return sorted(pages, key=lambda page: page.number)


def _print_page(page: PageReading) -> None:
    from compose.tables import page_heading

    typer.echo(page_heading(page))
    typer.echo(page.text + "\n" if page.text else "")
