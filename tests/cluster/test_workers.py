"""Three `perito worker` processes beside a server that only accepts: one is killed, one falls asleep and wakes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.cluster.life import Life
from tests.cluster.notes import begun_though_kept, noted
from tests.cluster.shared import Shared
from tests.cluster.state import State, difference
from tests.cluster.test_partitions import until
from tests.cluster.trials import played
from tests.compose.commands import Commands, end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LEASE_SECONDS = 3
LOOKS = 4
PAPERS = ("tomo.pdf", "recibo.tiff", "cartas.zip")
MID_DOCUMENT = """
    SELECT workers.pid, documents.id FROM jobs JOIN documents ON documents.id = jobs.document_id
    JOIN workers ON workers.id = jobs.worker WHERE documents.name = %s AND documents.pages_done > 0"""
UNSETTLED = """
    SELECT count(*) FROM jobs JOIN documents ON documents.id = jobs.document_id
    WHERE state IN ('waiting', 'running') OR doubts > 0 OR chunks_embedded < chunks"""


@dataclass
class Site:
    """A server, three workers, what they share and what they noted."""

    perito: Commands
    variables: dict[str, str]
    papers: Path
    notes: Path
    http: httpx.Client
    workers: list[subprocess.Popen[str]]

    def hire(self) -> subprocess.Popen[str]:
        with self.notes.with_suffix(".log").open("a") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.traced", str(self.notes)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                env=self.perito.environment | self.variables,
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    def asked(self, query: str, *values: str) -> list[Any]:
        url = self.variables["PERITO_CATALOGUE__URL"].replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def at_work(self) -> list[int]:
        """Process ids of the workers that show themselves."""
        return sorted(pid for (pid,) in self.asked("SELECT pid FROM workers"))

    def send(self, *names: str) -> None:
        with contextlib.ExitStack() as files:
            sent = [("files", (name, files.enter_context((self.papers / name).open("rb")))) for name in names]
            self.http.post("/api/documents", files=sent, data={"collection": "uno"}).raise_for_status()

    def found_mid_document(self, name: str) -> subprocess.Popen[str]:
        """The worker that is reading ``name``, once it has kept a page of it."""
        assert until(lambda: bool(self.asked(MID_DOCUMENT, name)), 240), self.log
        ((pid, _),) = self.asked(MID_DOCUMENT, name)
        return next(worker for worker in self.workers if worker.pid == pid)

    def settles(self) -> bool:
        return until(lambda: self.asked(UNSETTLED) == [(0,)], 240)

    @property
    def log(self) -> str:
        """What is not at rest, and what the workers last logged."""
        rows = "\n".join(
            map(str, self.asked(UNSETTLED.replace("count(*)", "jobs.*, pages_done, chunks, chunks_embedded")))
        )
        return f"{rows}\nat work: {self.at_work()}\n{self.notes.with_suffix('.log').read_text()[-4000:]}"


@pytest.fixture
def site(shared: Shared, tmp_path: Path) -> Iterator[Site]:
    variables = shared.variables(tmp_path / "home") | {
        "PERITO_WORKER__WHERE": "elsewhere",
        "PERITO_WORKER__LEASE_SECONDS": str(LEASE_SECONDS),
    }
    perito = Commands(tmp_path / "home")
    with perito.server(**variables) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        site = Site(perito, variables, shared.papers, tmp_path / "notes", http, [])
        try:
            for _ in range(3):
                site.hire()
            assert until(lambda: len(site.at_work()) == 3, 240), site.log
            yield site
        finally:
            for worker in site.workers:
                worker.send_signal(signal.SIGCONT)
                end(worker)


@pytest.fixture(scope="module")
def alone(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> State:
    """The same files, read by one process over SQLite and the embedded index, undisturbed."""
    folder = tmp_path_factory.mktemp("alone")
    life = Life(folder, shared.papers, {"PERITO_HOME": str(folder / "home"), "PERITO_OCR__PROCESSES": "1"}, "alone")
    return state_after(life)


def state_after(life: Life) -> State:
    played(life)
    (state,) = [note["state"] for note in life.notes if "state" in note]
    for row in state["documents"].values():
        del row["owner"]  # who handed it in over HTTP has another name
    return state


def as_if_nothing_happened(site: Site, alone: State, tmp_path: Path) -> None:
    """What is published is what one process publishes; each page was kept once, and none read that was kept."""
    for look in range(LOOKS):  # who wakes says a little later that it may have written, and somebody looks that through
        state = state_after(Life(tmp_path / f"look-{look}", site.papers, site.variables, "work"))
        if not difference(alone, state):
            break
        assert site.settles()
    assert difference(alone, state) == ""
    notes = noted(site.notes)
    kept = Counter((note["of"], note["keeps"]) for note in notes if "keeps" in note)
    assert set(kept.values()) == {1} and len(kept) == len(state["pages"])
    assert not begun_though_kept(notes), "a page that was kept is read again"
    begun = Counter((note["of"], note["begins"]) for note in notes if "begins" in note)
    again = sorted(page for page, times in begun.items() if times > 1)
    print(f"\n{len(kept)} pages, each kept once; {len(again)} in flight were begun again", file=sys.__stdout__)


def test_kill_9_mid_document(site: Site, alone: State, tmp_path: Path) -> None:
    site.send(*PAPERS)
    victim = site.found_mid_document("recibo.tiff")
    os.kill(victim.pid, signal.SIGKILL)
    assert site.settles(), site.log
    assert victim.pid not in site.at_work()
    as_if_nothing_happened(site, alone, tmp_path)


def test_a_lease_expires_and_its_worker_wakes(site: Site, alone: State, tmp_path: Path) -> None:
    site.send(*PAPERS)
    sleeper = site.found_mid_document("tomo.pdf")
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert site.settles(), site.log
    before = site.asked("SELECT document_id, epoch, state FROM jobs ORDER BY 1")
    assert sleeper.pid not in site.at_work()
    os.kill(sleeper.pid, signal.SIGCONT)
    assert until(lambda: sleeper.pid in site.at_work()), "it does not begin anew"
    assert site.settles()
    assert site.asked("SELECT document_id, epoch, state FROM jobs ORDER BY 1") == before
    as_if_nothing_happened(site, alone, tmp_path)
    site.send("acta.pdf")
    assert site.settles() and sleeper.poll() is None
