"""`perito serve`, `worker`, `doctor` and `password`: for whoever operates it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from assistant.core.logs import configure_logs
from assistant.core.settings import load_settings
from compose.commands.options import FAILED, Json, fail, print_json, print_table
from compose.commands.options import run as run_command

SHORTEST_PASSWORD = 8  # characters, as NIST SP 800-63B asks for at least


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


def worker() -> None:
    """Read what a server over the same stores accepts; any number of these may run, on any number of hosts."""
    from compose.readingprocess import work

    settings = load_settings()
    configure_logs(settings.log_level)
    run_command(work(settings))


def doctor(as_json: Json = False) -> None:
    """Check that everything Perito needs is there, and list the settings."""
    from compose.doctor import examine
    from compose.tables import checks_table, settings_table

    report = run_command(examine())
    if as_json:
        print_json(report.as_dict())
    else:
        print_table(checks_table(report.checks))
        print_table(settings_table(report.settings))
    if not report.healthy:
        raise typer.Exit(FAILED)


def password() -> None:
    """Make the password_hash of a user, for [[auth.users]] in perito.toml."""
    from assistant.web.auth import hash_password

    secret = (
        typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        if sys.stdin.isatty()
        else sys.stdin.readline()
    )
    secret = secret.rstrip("\n")
    if not secret.strip():
        fail("No password was given. Type one, or send it on standard input.", False, 2)
    if len(secret) < SHORTEST_PASSWORD:
        fail(f"The password is too short: it needs at least {SHORTEST_PASSWORD} characters.", False, 2)
    typer.echo(hash_password(secret))
