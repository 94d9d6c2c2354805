"""`perito eval run | parse`: measure answers and readings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assistant.core.settings import load_settings
from compose.commands.options import AnyCollection, Json, print_json, run

eval_app = typer.Typer(no_args_is_help=True, help="Measure answers and readings.", rich_markup_mode=None)


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

    report = run(evaluate_answers(load_settings(), cases, collection, documents, out))
    print_json(report.as_dict()) if as_json else report.as_table().print()


@eval_app.command("parse")
def eval_parse(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Documents with their truth in gt/.")],
    limit: Annotated[int | None, typer.Option(help="At most this many files of each kind of truth.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON and HTML reports.")] = Path("eval/results"),
    as_json: Json = False,
) -> None:
    """Read documents and give the character error rate against their truth."""
    from compose.evaluate import evaluate_parsing

    report = run(evaluate_parsing(load_settings(), folder, limit, out))
    print_json(report.as_dict()) if as_json else report.as_table().print()
