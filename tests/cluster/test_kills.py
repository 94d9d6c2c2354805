"""A process is ended at every step there is, and nothing differs afterwards from a life without the blow."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.cluster.life import ACTS, SCAN, Life
from tests.cluster.shared import Shared
from tests.cluster.table import show
from tests.cluster.trials import Act, Row, acts_in_turn, chosen, life_in, trials_of, undisturbed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ALONE = {"PERITO_OCR__PROCESSES": "1"}


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> list[Act]:
    """One after the other, undisturbed, over SQLite and the embedded index."""
    return acts_in_turn(tmp_path_factory.mktemp("undisturbed"), ACTS, ALONE)


def test_kill_9_at_every_boundary(acts: list[Act], tmp_path: Path) -> None:
    rows: list[Row] = []
    places = chosen(acts)
    for act in acts:
        lives = [life_in(act, tmp_path / act.name / str(n), blow=blow) for n, blow in enumerate(places[act.name])]
        rows.append(Row(act.name, len(act.passed), trials_of(act, lives)))
    show("kill -9; one process, SQLite, embedded index", rows)


def test_sigterm_hands_over_cleanly(acts: list[Act], tmp_path: Path) -> None:
    rows: list[Row] = []
    places = chosen(acts, all_steps=False)
    for act in acts:
        blows = places[act.name][::5]
        lives = [
            life_in(act, tmp_path / act.name / str(n), blow=blow, signal=signal.SIGTERM) for n, blow in enumerate(blows)
        ]
        rows.append(Row(act.name, len(act.passed), trials_of(act, lives, nothing_held)))
    show("SIGTERM; one process, SQLite, embedded index", rows)


def nothing_held(life: Life) -> str:
    """What a process that was asked to end still holds, in words."""
    home = Path(life.variables["PERITO_HOME"])
    with contextlib.closing(sqlite3.connect(home / "perito.db")) as catalogue:
        running, deaths = catalogue.execute("SELECT sum(worker <> ''), sum(deaths) FROM jobs").fetchone()
        (workers,) = catalogue.execute("SELECT count(*) FROM workers").fetchone()
    held = {"leases": running, "deaths": deaths, "workers": workers}
    return ", ".join(f"{count} {what}" for what, count in held.items() if count)


def test_full_disk_at_every_stage(acts: list[Act], tmp_path: Path) -> None:
    rows: list[Row] = []
    for act in acts:
        writes = range(1 + len(rows) % 5, act.writes + 1, 5)
        lives = [life_in(act, tmp_path / act.name / str(n), full_at=n, full_for=3) for n in writes]
        rows.append(Row(act.name, act.writes, trials_of(act, lives)))
    show("Disk full for three writes; one process, SQLite, embedded index", rows)


def test_kill_9_while_a_scan_is_read(tmp_path: Path) -> None:
    (act,) = acts_in_turn(tmp_path / "undisturbed", SCAN, ALONE)
    reading = [boundary for boundary, _ in act.passed if boundary.step.startswith(("Ocr", "Gate."))]
    blows = reading[:: max(1, len(reading) // 6)][:6]
    trials = trials_of(act, [life_in(act, tmp_path / str(n), blow=blow) for n, blow in enumerate(blows)])
    show("kill -9 while OCR reads; one process, SQLite, embedded index", [Row("scan", len(act.passed), trials)])


def test_kill_9_in_a_cluster(shared: Shared, tmp_path: Path) -> None:
    act = undisturbed(shared.life(tmp_path / "undisturbed", "all"))
    blows = chosen([act], all_steps=False)["all"][::2]
    trials = trials_of(act, [shared.life(tmp_path / str(n), "all", blow=blow) for n, blow in enumerate(blows)])
    show("kill -9; PostgreSQL, Qdrant's test double", [Row("all", len(act.passed), trials)])
