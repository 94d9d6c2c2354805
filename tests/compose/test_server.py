"""`perito serve`: commands share it, and what it accepted survives its sudden death."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from assistant.core.errors import StoreBusy
from assistant.core.ports import DocumentQuery
from assistant.core.settings import Settings, load_settings
from compose import server
from compose.remote import RemoteBackend
from compose.server import RunningServer
from compose.standalone import Perito
from tests.compose.commands import Commands, end, free_port, wait_ready
from tests.documents import shared
from tests.ingestion.officefiles import zipped

PAGES = 6  # of the scan that is being read when the server is killed


@pytest.fixture
def perito(tmp_path: Path) -> Commands:
    return Commands(tmp_path / "home")


def test_commands_work_through_the_running_server(perito: Commands, tmp_path: Path) -> None:
    note = tmp_path / "acta.txt"
    note.write_text("El acta 17-C se firmó en Zaragoza el 9 de junio de 2032.", "utf-8")
    with perito.server() as (url, _):
        added = perito("ingest", note, "--json")
        assert added.code == 0, added.err + added.out
        document = added.json["documents"][0]
        assert document["status"] == "complete"
        answer = perito("ask", "¿Dónde se firmó el acta 17-C?", "--json").json
        assert "Zaragoza" in answer["answer"]
        assert answer["citations"][0]["document_id"] == document["id"]
        assert "Zaragoza" in perito("ask", "¿Dónde se firmó el acta 17-C?").out
        assert perito("documents", "show", document["id"], "--json").json["document"]["name"] == "acta.txt"
        assert perito("documents", "reread", document["id"], "--json").json["documents"][0]["status"] == "complete"
        second = perito("serve")
        assert second.code == 1
        assert url in second.err
        assert perito("documents", "delete", document["id"]).code == 0
        assert perito("documents", "list", "--json").json["documents"] == []
    assert perito("documents", "list", "--json").json["documents"] == []  # and without the server again


def test_a_refused_file_gets_the_same_sentence_with_and_without_a_server(perito: Commands, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pdf"
    empty.write_bytes(b"")
    alone = perito("ingest", empty, "--json").json["documents"][0]
    with perito.server():
        served = perito("ingest", empty, "--json").json["documents"][0]
    assert alone == served
    assert "empty" in alone["error"] and alone["code"] == "empty_file"


def test_what_lies_in_a_file_is_waited_for_and_told_with_and_without_a_server(perito: Commands, tmp_path: Path) -> None:
    inner = zipped(tmp_path / "cartas.zip", {"uno.txt": "La primera carta.", "dos.txt": "La segunda carta."})
    outer = zipped(tmp_path / "todo.zip", {"nota.txt": "Una nota.", "cartas.zip": inner.read_bytes(), "nada.txt": ""})

    def told() -> list[str]:
        outcome = perito("ingest", outer)
        assert outcome.code == 0, outcome.err
        return [line.split(":")[0] for line in outcome.out.splitlines() if line.lstrip().startswith("✓")]

    family = [
        "✓ todo.zip",
        "  ✓ todo.zip › cartas.zip",
        "  ✓ todo.zip › cartas.zip › dos.txt",
        "  ✓ todo.zip › cartas.zip › uno.txt",
        "  ✓ todo.zip › nota.txt",
    ]
    assert told() == family
    (listed, *_) = [one for one in perito("documents", "list", "--json").json["documents"] if one["parent"] is None]
    gone = perito("documents", "delete", listed["id"])
    assert gone.out == "Deleted todo.zip, with what was found in it and nowhere else.\n"
    with perito.server():
        assert told() == family
        assert {one["status"] for one in perito("documents", "list", "--json").json["documents"]} == {"complete"}


async def test_a_start_that_fails_lets_the_address_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.asynccontextmanager
    async def busy(_: Settings) -> AsyncGenerator[Perito]:
        raise StoreBusy("Another Perito process works there")
        yield

    monkeypatch.setattr(server, "open_perito", busy)
    port = free_port()
    with pytest.raises(StoreBusy):
        await server.serve(load_settings(home=tmp_path, server={"port": port}))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_what_was_accepted_survives_kill_9(perito: Commands, tmp_path: Path) -> None:
    pages = [Image.open(shared("scan_hard/sroie_316.jpg")).convert("L")] * PAGES
    scan = tmp_path / "scan.tiff"
    pages[0].save(scan, save_all=True, append_images=pages[1:])
    port = str(free_port())
    first = perito.start("serve", "--port", port)
    wait_ready(f"http://127.0.0.1:{port}", first)
    sender = perito.start("ingest", scan)
    deadline = time.monotonic() + 90
    done = 0
    while done < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
        documents = httpx.get(f"http://127.0.0.1:{port}/api/documents", trust_env=False).json()["documents"]
        done = documents[0]["pages_done"] if documents else 0
    assert 2 <= done < PAGES, "the kill has to come while the document is being read"
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    sender.wait(60)
    assert sender.returncode == 1  # it says that the server went away
    for process in (first, sender):
        if process.stderr:
            process.stderr.close()
    with perito.server():
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            (document,) = perito("documents", "list", "--json").json["documents"]
            if document["status"] not in ("queued", "reading"):
                break
            time.sleep(0.5)
        detail = perito("documents", "show", document["id"], "--json").json
    assert detail["document"]["status"] == "complete"
    assert [page["number"] for page in detail["pages"]] == list(range(1, PAGES + 1))
    assert {page["status"] for page in detail["pages"]} <= {"read", "low_confidence"}


def test_a_command_given_while_the_server_starts_goes_through_it(perito: Commands) -> None:
    port = str(free_port())
    process = perito.start("serve", "--port", port)
    try:
        deadline = time.monotonic() + 60
        while not (perito.home / "perito.lock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        listed = perito("documents", "list", "--json")
        assert listed.code == 0 and listed.json == {"documents": []}, listed.err
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    finally:
        end(process)


def test_ready_is_said_when_the_application_has_started(perito: Commands) -> None:
    port = free_port()
    process = perito.start("serve", "--port", str(port))
    said: list[str] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "Perito is ready" in line:
                break
        assert any("Application startup complete" in line for line in said), said
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    finally:
        end(process)


async def test_of_no_document_nothing_is_asked() -> None:
    nowhere = RunningServer(1, 0.0, "http://127.0.0.1:1", "")
    async with RemoteBackend(nowhere) as backend:
        assert await backend.documents(None, DocumentQuery(ids=frozenset())) == []


def test_users_are_required_beyond_loopback_and_then_it_binds(perito: Commands) -> None:
    hashed = perito("password", stdin="correct horse\n")
    assert hashed.code == 0
    users = f'[{{"name": "ana", "password_hash": "{hashed.out.strip()}"}}]'
    port = str(free_port())
    process = perito.start("serve", "--host", "0.0.0.0", "--port", port, PERITO_AUTH__USERS=users)
    try:
        wait_ready(f"http://127.0.0.1:{port}", process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr:
            process.stderr.close()


def test_sigterm_closes_the_stores_before_it_ends_the_process(perito: Commands, tmp_path: Path) -> None:
    port = str(free_port())
    server = perito.start("serve", "--port", port)
    wait_ready(f"http://127.0.0.1:{port}", server)
    assert (perito.home / "server.json").exists()
    server.terminate()
    server.communicate(timeout=60)
    assert server.returncode == 0
    assert not (perito.home / "server.json").exists()
    assert not (perito.home / "perito.db-wal").exists()  # SQLite removes it when the last connection is closed
