"""`perito ask`, and `perito usage`: answers, and what they took."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from assistant.core.settings import load_settings
from compose.commands.options import AnyCollection, Json, print_json, print_table, run


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

    answer = run(go())
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    typer.echo("\n" if answer.citations else "")
    for citation in answer.citations:
        typer.echo(citation_line(citation))


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

    totals = run(go())
    print_json(totals.model_dump(mode="json")) if as_json else print_table(usage_table(totals.usage))


def _print_piece(piece: str) -> None:
    typer.echo(piece, nl=False)
    sys.stdout.flush()
