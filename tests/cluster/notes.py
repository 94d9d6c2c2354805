"""What processes note for the test that started them: lines of JSON, each written whole, so that many may write."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ingestion import runs
from ingestion.pipeline import Pipeline


class Notes:
    """Of one process; call it with what is to be noted."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, **said: Any) -> None:
        os.write(self._file, (json.dumps({"pid": os.getpid(), "at": time.time()} | said) + "\n").encode())


def noted(path: Path) -> list[dict[str, Any]]:
    """All that was noted there, in order."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def begun_though_kept(notes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Pages whose reading began when the catalogue held them; not those that were kept after it had begun."""
    kept: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for note in notes:
        if "keeps" in note:
            kept[note["of"], note["keeps"]].append(note["at"])
    held = [note for note in notes if note.get("kept")]
    return [note for note in held if min(kept[note["of"], note["begins"]], default=0.0) < note["at"]]


def watch_pages(worker: Any, note: Notes) -> None:
    """Note each page when its reading begins, and whether the catalogue held it already; and when it is kept."""
    read_page, catalogue = Pipeline.read_page, worker._catalogue
    put_page, pages_done = type(catalogue).put_page, type(catalogue).pages_done

    async def read(self: Pipeline, file: Any, number: int, *more: Any) -> Any:
        document = runs._being_read.get()
        assert document is not None
        at = time.time()  # before the catalogue is asked: the process may be put to sleep while it is
        note(begins=number, of=document.id, kept=number in pages_done(catalogue, document.id), at=at)
        return await read_page(self, file, number, *more)

    def put(self: Any, document_id: str, page: Any, *more: Any) -> None:
        put_page(self, document_id, page, *more)
        note(keeps=page.number, of=document_id)

    Pipeline.read_page = read  # type: ignore[method-assign]
    type(catalogue).put_page = put  # type: ignore[method-assign]
