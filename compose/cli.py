"""The `perito` command: which commands there are, and how a failure is told.

Exit codes: 0 done; 1 failed; 2 wrong use; 3 some documents partial or failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from assistant.core.errors import PeritoError
from assistant.core.logs import configure_logs
from compose.commands.asking import ask, usage
from compose.commands.documents import documents_app, ingest, read
from compose.commands.evaluating import eval_app
from compose.commands.jobs import jobs_app
from compose.commands.operating import doctor, password, serve, worker
from compose.commands.options import FAILED, fail
from compose.commands.watching import watch

app = typer.Typer(
    name="perito",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perito {version('perito')}")
        raise typer.Exit


@app.callback()
def perito(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """A chat assistant over your documents that shows where on the page it read each answer."""


app.command()(ingest)
app.command(short_help="Let a collection follow a folder.")(watch)
app.command(short_help="Read a file without adding it.")(read)
app.command()(ask)
app.command(short_help="What models used: calls, tokens, seconds, price.")(usage)
app.command()(serve)
app.command(short_help="Read for servers over the same stores.")(worker)
app.command(short_help="Check everything, and list the settings.")(doctor)
app.command(short_help="Make the password_hash of a user.")(password)
app.add_typer(documents_app, name="documents")
app.add_typer(jobs_app, name="jobs")
app.add_typer(eval_app, name="eval")


def main() -> None:
    """Run the command line; every failure is a sentence and an exit code, never a traceback."""
    as_json = "--json" in sys.argv
    try:
        configure_logs("WARNING")
        sys.exit(app(standalone_mode=False) or 0)
    except PeritoError as error:
        fail(str(error), as_json, FAILED, {"code": error.code, "message": error.message, "advice": error.advice})
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
        fail(told.strip(), as_json, getattr(error, "exit_code", 2))
    if os.environ.get("PERITO_LOG_LEVEL") == "DEBUG":
        logging.getLogger(__name__).exception("unexpected")
    message = (
        f"Something unforeseen went wrong: {type(error).__name__}: {error}. Set PERITO_LOG_LEVEL=DEBUG to see where."
    )
    fail(message, as_json, FAILED, {"code": "unforeseen", "message": message, "advice": ""})


if __name__ == "__main__":
    main()
