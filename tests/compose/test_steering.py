"""What the queue's commands tell people: what was done to which document, or that there was nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.core.domain import JobState
from assistant.core.settings import load_settings
from assistant.core.shapes import DocumentShape
from compose.backends import open_backend
from compose.tables import cancel_line, document_line, queue_line, retry_line
from tests.compose.commands import Commands


async def test_what_steering_did_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERITO_HOME", str(tmp_path / "home"))
    note = tmp_path / "note.txt"
    note.write_text("El contrato 88-B vence el 3 de mayo de 2033.")
    async with open_backend(load_settings(), reads=False) as backend:
        assert queue_line(await backend.jobs(None, 10)).endswith("nothing is waiting or being read")
        assert queue_line(await backend.jobs(JobState.FAILED, 10), JobState.FAILED).endswith("no document failed")
        added = await backend.submit(note, "note.txt", "legal")
        assert isinstance(added, DocumentShape)
        waiting = await backend.job(added.id)
        cancelled = await backend.cancel(added.id)
        again = await backend.cancel(added.id)
        retried = await backend.retry(added.id)
    assert cancel_line(waiting, cancelled).startswith(f"Stopped reading note.txt ({added.id[:8]}). Cancelled by local")
    assert cancel_line(cancelled, again).startswith("There is nothing to cancel: note.txt")
    assert f"– note.txt: 0 of {cancelled.document.pages} pages read, 0.0 s, cancelled" in document_line(again.document)
    assert retry_line(again, retried).startswith(f"note.txt ({added.id[:8]}) is to be read on")
    assert "cancelled" not in document_line(retried.document)


def test_of_a_document_that_is_read_it_is_told_what_to_do_instead(tmp_path: Path) -> None:
    perito = Commands(tmp_path / "home")
    note = tmp_path / "note.txt"
    note.write_text("El contrato 88-B vence el 3 de mayo de 2033.")
    begins = perito("ingest", note, "--json").json["documents"][0]["id"][:8]
    for deed in ("cancel", "retry"):
        said = perito("jobs", deed, begins).out
        assert f"There is nothing to {deed}: note.txt ({begins})" in said
        assert f"`perito documents reread {begins}`" in said
