"""What the commands have in common: their options, how they run, and how they print."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from assistant.core.errors import NotFound

if TYPE_CHECKING:
    from compose.backends import Backend

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
CollectionName = Annotated[str, typer.Option("--collection", help="The collection to add to.")]
AnyCollection = Annotated[str | None, typer.Option("--collection", help="Look only in this collection.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and what it takes.")]
Password = Annotated[str, typer.Option("--password", help="The password of a locked PDF.")]
DocumentId = Annotated[str, typer.Argument(metavar="ID", help="The document's id, or the beginning of it.")]

FAILED, PARTLY = 1, 3  # exit codes
UNWRAPPED = 10_000  # columns


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Do the work of a command in an event loop of its own."""
    return asyncio.run(work)


def print_json(value: Any) -> None:
    """For machines."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(table: Any) -> None:
    """A table of rich, for people."""
    from rich.console import Console

    # Piped to `grep` and the like a row stays one line. "[draft]" in a file's name is no markup.
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNWRAPPED
    console = Console(width=wide, soft_wrap=False, markup=False, emoji=False)
    console.print(table)


def fail(message: str, as_json: bool, code: int, detail: dict[str, str] | None = None) -> NoReturn:
    """Say what went wrong, and end with ``code``. ``detail`` is the error for machines."""
    if as_json:
        print_json({"error": detail or {"code": "wrong_use", "message": message, "advice": ""}})
    else:
        typer.echo(message, err=True)
    sys.exit(code)


async def whole_id(backend: Backend, beginning: str) -> str:
    """The one document whose id begins so. NotFound, also where there are several."""
    from assistant.core.ports import DocumentQuery

    found = await backend.documents(None, DocumentQuery(id_begins=beginning, limit=2))
    if len(found) == 1:
        return found[0].id
    if not found:
        raise NotFound(f"There is no document {beginning}", "See `perito documents list`")
    raise NotFound(f"Several documents begin with {beginning}", "Give more of the id")
