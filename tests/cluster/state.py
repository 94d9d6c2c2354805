"""All that the stores hold of documents, in words that are the same whenever the same was read: what two runs are
compared by. Ids are drawn anew in every run, so names stand for them; times and seconds are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table, select

from assistant.core.catalogue import SqlCatalogue
from assistant.core.points import Where
from assistant.core.tables import corrections, documents, enclosures, jobs, pages, readings
from compose.standalone import Perito

# Of clocks, chances and tries; and what stands for another thing that is compared.
LEFT_OUT = {
    "documents": {"id", "parent", "created", "seconds", "search_name"},
    "pages": {"document_id", "seconds", "receipt"},
    "readings": {"document_id", "seconds"},
    "corrections": {"id", "document_id", "at"},
    "jobs": {
        "document_id",
        "turn",
        "not_before",
        "epoch",
        "generation",
        "attempts",
        "deaths",
        "pages_before",
        "urgency",
    },
}

NOBODY = "of nobody"

State = dict[str, Any]


def state_of(perito: Perito) -> State:
    """What is in the catalogue, the index and the folder of files, once nothing is being read."""
    rows = _rows(perito.catalogue, documents)
    names = {row["id"]: f"{row['collection']}/{row['name']}/{row['version']}" for row in rows}
    state: State = {"documents": {}}
    for row in rows:
        kept = _kept("documents", row) | {"parent": names.get(row["parent"] or "", row["parent"])}
        state["documents"][names[row["id"]]] = kept
    for table in (pages, readings, corrections, jobs):
        rows = _rows(perito.catalogue, table)
        found = [_kept(table.name, row) | {"of": names.get(row["document_id"], NOBODY)} for row in rows]
        state[table.name] = sorted(found, key=repr)
    links = [(row["parent_id"], row["document_id"]) for row in _rows(perito.catalogue, enclosures)]
    state["enclosures"] = sorted([names.get(one, NOBODY) for one in link] for link in links)
    points = perito.index._store.fetch(Where(), 10_000)  # type: ignore[attr-defined]
    state["points"] = sorted((_point(perito, found, names) for found in points), key=repr)
    state["files"] = sorted(perito.blobs.keys())
    state["incoming"] = [path.name for path in (perito.settings.home / "blobs" / "incoming").iterdir()]
    return state


def difference(one: Any, other: Any, where: str = "") -> str:
    """The first place where two states differ, in words; "" where they are equal."""
    if one == other:
        return ""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            if one.get(key) != other.get(key):
                return difference(one.get(key), other.get(key), f"{where}.{key}")
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            extra = [item for item in other if item not in one] or [item for item in one if item not in other]
            return f"{where}: {len(one)} and {len(other)}, e.g. {str(extra[:1])[:300]}"
        return next(
            difference(a, b, f"{where}[{n}]") for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b
        )
    return f"{where}: {str(one)[:200]!r} and {str(other)[:200]!r}"


def _rows(catalogue: SqlCatalogue, table: Table) -> list[Mapping[str, Any]]:
    with catalogue._database.reading() as connection:  # type: ignore[attr-defined]
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def _kept(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in LEFT_OUT[table]}


def _point(perito: Perito, found: Any, names: Mapping[str, str]) -> dict[str, Any]:
    document = found.payload["document_id"]
    payload = {name: value for name, value in found.payload.items() if name not in ("document_id", "waiting", "digest")}
    return payload | {
        "of": names.get(document, NOBODY),
        "waits": "waiting" in found.payload,
        "dense": bool(perito.index._store.count(Where(ids=frozenset({found.id}), embedded=True))),  # type: ignore[attr-defined]
    }
