"""A process is ended at every step there is, and nothing differs afterwards from a life without the blow."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.cluster.boundaries import Boundary
from tests.cluster.life import ACTS, SCAN, Life
from tests.cluster.shared import Shared
from tests.cluster.table import Tables
from tests.cluster.trials import Act, Row, acts_in_turn, chosen, life_in, trials_of, undisturbed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = 10  # of the places there are, where not all are tried
STORES = "one process, SQLite, embedded index"
ALONE = {"PERITO_OCR__PROCESSES": "1"}


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Act]:
    """One after the other, undisturbed, over SQLite and the embedded index."""
    return {act.name: act for act in acts_in_turn(tmp_path_factory.mktemp("undisturbed"), ACTS, ALONE)}


@pytest.fixture(scope="module")
def places(acts: dict[str, Act]) -> dict[str, list[Boundary]]:
    return chosen(list(acts.values()))


@pytest.mark.parametrize("name", ACTS)
def test_kill_9_at_every_boundary(
    name: str, acts: dict[str, Act], places: dict[str, list[Boundary]], tables: Tables, tmp_path: Path
) -> None:
    lives = [life_in(acts[name], tmp_path / str(n), blow=blow) for n, blow in enumerate(places[name])]
    row = Row(name, len(acts[name].passed), trials_of(acts[name], lives))
    tables.add(f"kill -9; {STORES}", row)


@pytest.mark.parametrize("name", ACTS)
def test_sigterm_hands_over_cleanly(
    name: str, acts: dict[str, Act], places: dict[str, list[Boundary]], tables: Tables, tmp_path: Path
) -> None:
    blows = enumerate(places[name][::EVERY])
    lives = [life_in(acts[name], tmp_path / str(n), blow=blow, signal=signal.SIGTERM) for n, blow in blows]
    row = Row(name, len(acts[name].passed), trials_of(acts[name], lives, nothing_held))
    tables.add(f"SIGTERM; {STORES}", row)


def nothing_held(life: Life) -> str:
    """What a process that was asked to end still holds, in words."""
    home = Path(life.variables["PERITO_HOME"])
    with contextlib.closing(sqlite3.connect(home / "perito.db")) as catalogue:
        running, deaths = catalogue.execute("SELECT sum(worker <> ''), sum(deaths) FROM jobs").fetchone()
        (workers,) = catalogue.execute("SELECT count(*) FROM workers").fetchone()
    held = {"leases": running, "deaths": deaths, "workers": workers}
    return ", ".join(f"{count} {what}" for what, count in held.items() if count)


@pytest.mark.parametrize("name", ACTS)
def test_full_disk_at_every_stage(name: str, acts: dict[str, Act], tables: Tables, tmp_path: Path) -> None:
    """The act's n-th write, and the two after it, find no room."""
    writes = range(1, acts[name].writes + 1, EVERY)
    lives = [life_in(acts[name], tmp_path / str(n), full_at=n, full_for=3) for n in writes]
    row = Row(name, acts[name].writes, trials_of(acts[name], lives))
    tables.add(f"disk full for three writes; {STORES}", row)


def test_kill_9_while_a_scan_is_read(tables: Tables, tmp_path: Path) -> None:
    (act,) = acts_in_turn(tmp_path / "undisturbed", SCAN, ALONE)
    reading = [boundary for boundary, _ in act.passed if boundary.step.startswith("Ocr")]
    lives = [life_in(act, tmp_path / str(n), blow=blow) for n, blow in enumerate(reading[:: -(-len(reading) // 3)])]
    tables.add(f"kill -9 while OCR reads; {STORES}", Row("scan", len(act.passed), trials_of(act, lives)))


def test_kill_9_in_a_cluster(shared: Shared, tables: Tables, tmp_path: Path) -> None:
    act = undisturbed(shared.life(tmp_path / "undisturbed", "all"))
    moments = chosen([act], all_steps=False)["all"]
    blows = enumerate(moments[:: -(-len(moments) // 15)])
    lives = [shared.life(tmp_path / str(n), "all", blow=blow) for n, blow in blows]
    tables.add("kill -9; PostgreSQL, Qdrant's test double", Row("all", len(act.passed), trials_of(act, lives)))
