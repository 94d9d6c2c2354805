"""`perito worker` beside `perito serve`: two processes over one home, SQLite and a Qdrant server's double."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.compose.commands import Commands, Outcome, end
from tests.documents import DATA
from tests.qdrantdouble import QdrantDouble, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Halves:
    """The settings of both processes, and what they share."""

    perito: Commands
    double: QdrantDouble
    variables: dict[str, str]

    @contextlib.contextmanager
    def server(self) -> Generator[httpx.Client]:
        with self.perito.server(**self.variables) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
            yield http

    @contextlib.contextmanager
    def worker(self) -> Generator[Any]:
        process = self.perito.start("worker", **self.variables)
        try:
            yield process
        finally:
            end(process)

    def command(self, *words: str, **changes: str) -> Outcome:
        variables: dict[str, Any] = self.variables | changes
        return self.perito(*words, **variables)

    def points(self) -> int:
        return self.double.collections["perito"].count({})

    def embedded(self) -> int:
        return self.double.collections["perito"].count({"filter": {"must": [{"has_vector": "dense"}]}})

    def files(self) -> list[Path]:
        return [path for path in (self.perito.home / "blobs").rglob("*") if path.is_file()]

    def rows(self) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.perito.home / "perito.db")) as database:
            return [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("documents", "pages")]


@pytest.fixture
def halves(tmp_path: Path) -> Iterator[Halves]:
    double = QdrantDouble(tmp_path / "double")
    with serving(double) as url:
        variables = {
            "PERITO_WORKER__WHERE": "elsewhere",
            "PERITO_INDEX__KIND": "server",
            "PERITO_INDEX__URL": url,
            "PERITO_OCR__PROCESSES": "1",
            "PERITO_WORKER__LEASE_SECONDS": "5",
        }
        yield Halves(Commands(tmp_path / "home"), double, variables)


def sent(http: httpx.Client, path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        reply = http.post("/api/documents", files={"files": (path.name, file)})
    reply.raise_for_status()
    return reply.json()["documents"][0]


def document(http: httpx.Client, identifier: str) -> dict[str, Any]:
    return http.get(f"/api/documents/{identifier}").json()["document"]


def until(condition: Any, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.2)


def scan_of(folder: Path, pages: int) -> Path:
    """A real scan, so many times in one file: each page takes the OCR a while."""
    page = Image.open(DATA / "scan_hard/sroie_004.jpg").convert("L")
    file = folder / "scan.tiff"
    page.save(file, save_all=True, append_images=[page] * (pages - 1))
    return file


def test_the_worker_reads_what_the_server_only_accepts(halves: Halves, tmp_path: Path) -> None:
    note = tmp_path / "acta.txt"
    note.write_text("El acta 17-C se firmó en Zaragoza el 9 de junio de 2032.", "utf-8")
    with halves.server() as http:
        accepted = sent(http, note)
        time.sleep(2)
        assert document(http, accepted["id"])["status"] == "queued"
        assert halves.points() == 0
        with halves.worker():
            with http.stream("GET", f"/api/documents/{accepted['id']}/progress") as events:
                told = "".join(events.iter_text())
            assert '"status":"complete"' in told.rpartition("data:")[2].replace(" ", "")
            assert '"number":1' in told.replace(" ", "")  # the page, too, is told of
            until(lambda: halves.embedded() == halves.points() > 0)
        answer = http.post("/api/ask", json={"question": "¿Dónde se firmó el acta 17-C?"}).json()
        assert "Zaragoza" in answer["answer"]
        assert answer["citations"][0]["document_id"] == accepted["id"]


def test_a_stopped_worker_goes_on_where_it_was_and_reads_again_what_is_asked_for(
    halves: Halves, tmp_path: Path
) -> None:
    with halves.server() as http:
        identifier = sent(http, scan_of(tmp_path, 6))["id"]
        with halves.worker() as first:
            until(lambda: document(http, identifier)["pages_done"] >= 2)
            first.send_signal(signal.SIGTERM)
            assert first.wait(30) == 0
        before = document(http, identifier)
        assert before["status"] == "reading" and 2 <= before["pages_done"] < 6
        with halves.worker() as second:
            until(lambda: document(http, identifier)["pages_done"] > before["pages_done"])
            http.post(f"/api/documents/{identifier}/reread").raise_for_status()
            assert document(http, identifier)["pages_done"] <= 1
            until(lambda: document(http, identifier)["status"] not in ("queued", "reading"))
            os.killpg(second.pid, signal.SIGKILL)
        after = document(http, identifier)
        assert (after["status"], after["pages_done"]) == ("complete", 6)


def test_deleting_while_the_other_process_reads_leaves_nothing(halves: Halves, tmp_path: Path) -> None:
    with halves.server() as http, halves.worker() as worker:
        identifier = sent(http, scan_of(tmp_path, 6))["id"]
        until(lambda: document(http, identifier)["pages_done"] >= 1)
        assert halves.points() > 0
        http.delete(f"/api/documents/{identifier}").raise_for_status()
        note = tmp_path / "nota.txt"
        note.write_text("Después de borrar se sigue leyendo.", "utf-8")
        following = sent(http, note)["id"]
        until(lambda: document(http, following)["status"] == "complete")
        time.sleep(3)  # the page that was being read ends and finds its document gone
        http.delete(f"/api/documents/{following}").raise_for_status()
        assert worker.poll() is None
        assert (halves.points(), halves.files(), halves.rows()) == (0, [], [0, 0])


def test_a_killed_worker_is_replaced_by_the_next_within_a_second_or_two(halves: Halves, tmp_path: Path) -> None:
    with halves.server() as http, halves.worker() as first, halves.worker() as second:
        until(lambda: len(http.get("/api/jobs").json()["workers"]) == 2)
        report = halves.command("doctor", "--json").json["checks"]
        (check,) = [check for check in report if check["name"] == "worker"]
        assert check["state"] == "ok" and str(first.pid) in check["found"] and str(second.pid) in check["found"]
        identifier = sent(http, scan_of(tmp_path, 4))["id"]
        until(lambda: document(http, identifier)["pages_done"] >= 1)
        (reading,) = [sign for sign in http.get("/api/jobs").json()["workers"] if sign["running"]]
        victim = first if reading["pid"] == first.pid else second
        os.killpg(victim.pid, signal.SIGKILL)
        until(lambda: document(http, identifier)["status"] == "complete")
        assert document(http, identifier)["pages_done"] == 4
        survivor = second if victim is first else first
        assert [sign["pid"] for sign in http.get("/api/jobs").json()["workers"]] == [survivor.pid]


def test_a_worker_needs_an_index_that_can_be_shared(halves: Halves) -> None:
    alone = halves.command("worker", PERITO_INDEX__KIND="edge", PERITO_WORKER__WHERE="here")
    assert alone.code == 1
    assert "index.kind" in alone.err


def test_elsewhere_needs_an_index_that_can_be_shared(halves: Halves) -> None:
    refused = halves.perito("documents", "list", PERITO_WORKER__WHERE="elsewhere")
    assert refused.code == 1
    assert "index.kind" in refused.err
