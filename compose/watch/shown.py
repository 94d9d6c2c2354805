"""How a watch and its manifest are shown: lines and tables for people, JSON for machines."""

from __future__ import annotations

import json
from typing import Any

from rich import box
from rich.table import Table

from compose.estimates import Estimate
from compose.tables import document_line, reader_mix
from compose.watch.folder import printable
from compose.watch.loop import Told
from compose.watch.manifest import Manifest

MARKS = {"added": "+", "changed": "~", "known": "=", "renamed": "→", "removed": "-", "refused": "✗"}
DEEDS = {"added": "to be read", "changed": "a new version, to be read", "known": "there already"}
WORDS = {
    "add": "added", "change": "changed", "known": "there already", "rename": "renamed", "remove": "removed",
    "wait": "still written to", "refuse": "not readable",
}  # fmt: skip


def told_line(told: Told) -> str:
    """A line about something done, a document read, or a sentence."""
    if told.read is not None:
        return document_line(told.read)
    if told.done is None:
        return printable(told.sentence)
    done = told.done
    said = DEEDS.get(done.deed, done.said or done.deed)
    said = f"renamed, was {said}" if done.deed == "renamed" else said
    return f"{MARKS[done.deed]} {printable(done.path)}: {printable(said)}"


def told_dict(told: Told) -> dict[str, Any]:
    """The same for machines; ``event`` says which it is."""
    if told.read is not None:
        return {"event": "read", "document": told.read.model_dump(mode="json")}
    if told.done is None:
        return {"event": "trouble" if told.trouble else "note", "message": printable(told.sentence)}
    done = told.done
    return {
        "event": done.deed,
        "path": printable(done.path),
        "document": done.document or None,
        "name": done.name or None,
        "message": printable(done.said) or None,
    }


def told_json(told: Told) -> str:
    """One line of JSON."""
    return json.dumps(told_dict(told), ensure_ascii=False)


def manifest_table(manifest: Manifest) -> Table | str:
    """All changes, a line each, with a sum below."""
    if not manifest.entries:
        return f"Nothing would change: {manifest.collection} is as {printable(str(manifest.folder))} is."
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    total = manifest.total
    counts = ", ".join(f"{count} {WORDS[action]}" for action, count in manifest.counts.items())
    table.add_column("would be", "total")
    table.add_column("file", counts, overflow="fold")
    for name, footer in zip(("pages", "seconds", "visual tokens", "price"), _figures(total), strict=True):
        table.add_column(name, footer, justify="right")
    table.add_column("read by / why", reader_mix(total.readers), overflow="fold")
    for entry in manifest.entries:
        figures = _figures(entry.estimate) if entry.action in ("add", "change") else ("",) * 4
        why = entry.said or entry.estimate.refused
        read = "; ".join(filter(None, (reader_mix(entry.estimate.readers), *entry.estimate.notes)))
        table.add_row(WORDS[entry.action], printable(entry.path), *figures, printable(why or read))
    return table


def _figures(estimate: Estimate) -> tuple[str, str, str, str]:
    seconds = "unknown" if estimate.seconds is None else f"{estimate.seconds:,.1f}"
    price = "unknown" if estimate.price is None else f"{estimate.price:,.4f}"
    return f"{estimate.pages:,}", seconds, f"{estimate.visual_tokens:,}", price
