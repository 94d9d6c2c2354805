"""`perito watch`, and the manifest of what it or `perito ingest` would do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assistant.core.settings import load_settings
from compose.commands.options import PARTLY, CollectionName, DryRun, Json, print_json, print_table, run

if TYPE_CHECKING:
    from compose.watch.loop import Options, Told
    from compose.watch.manifest import Manifest


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
    bad = run(_watch(folder, collection, options, once, as_json))
    if bad and once:
        raise typer.Exit(PARTLY)


def show_manifest(manifest: Manifest, as_json: bool) -> None:
    """Print what would be done, and what it takes."""
    from compose.watch.shown import manifest_table

    print_json(manifest.as_dict()) if as_json else print_table(manifest_table(manifest))


def _dry_run(folder: Path, collection: str, options: Options, as_json: bool) -> None:
    from compose.watch.manifest import make_manifest
    from compose.watch.shown import told_line

    def say(told: Told) -> None:
        typer.echo(told_line(told), err=True)

    show_manifest(run(make_manifest(load_settings(), folder, collection, options, say)), as_json)


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
        print_json({"events": [told_dict(told) for told in heard]})
    return bad
