"""A worker falls asleep at a boundary, its lease expires, another takes over; then it wakes, and changes nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg
import pytest

from tests.cluster.boundaries import Boundary
from tests.cluster.life import Life
from tests.cluster.shared import Shared
from tests.cluster.state import State, difference
from tests.cluster.table import Tables
from tests.cluster.trials import AT_ONCE, Row, Trial, chosen, count_pages, played, undisturbed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UNSETTLED = "SELECT count(*) FROM jobs WHERE state IN ('waiting', 'running') OR doubts > 0"
EVERY = 16  # of the moments there are; each takes the seconds of a lease
OUTLIVED = 1.5  # seconds that a woken worker gets to do what it was at


def accepted(life: Life) -> Life:
    """Hand the files in through a process that reads nothing; ``life`` is to work on the same stores."""
    variables = {**life.variables, "PERITO_WORKER__WHERE": "elsewhere"}
    only = replace(life, act="accept", blow=None, stays=False, variables=variables)
    played(only)
    only.told.unlink()
    return life


def test_who_wakes_after_its_lease_publishes_nothing(shared: Shared, tables: Tables, tmp_path: Path) -> None:
    act = undisturbed(accepted(shared.life(tmp_path / "undisturbed", "work")))
    holding = [boundary for boundary, _ in act.passed if boundary[:2] == ("Database.writing", "within")]
    blows = [*chosen([act], all_steps=False)["work"][::EVERY], *holding[:: len(holding) // 4]]

    def one(numbered: tuple[int, Boundary]) -> Trial:
        number, blow = numbered
        life = shared.life(tmp_path / str(number), "work", blow=blow, signal=signal.SIGSTOP, stays=True)
        return judged(slept(accepted(life), Trial(blow)), act.state, life)

    with ThreadPoolExecutor(AT_ONCE) as few:
        trials = list(few.map(one, enumerate(blows)))
    title = "SIGSTOP until the lease is another's, then SIGCONT; PostgreSQL, Qdrant's test double"
    tables.add(title, Row("work", len(act.passed), trials))


def slept(life: Life, trial: Trial) -> Trial:
    """Let a worker fall asleep, another do its work, and the sleeper wake."""
    sleeper = life.begin()
    other: BaseProcess | None = None
    try:
        until(lambda: is_struck(life) or settled(life))
        trial.struck = is_struck(life)
        other = replace(life, blow=None).begin()
        if not until(lambda: settled(life)):
            trial.wrong = "nobody took over"
        sent(sleeper, signal.SIGCONT)
        time.sleep(OUTLIVED)
        if not until(lambda: settled(life)):
            trial.wrong = trial.wrong or "it is not settled after the waking"
        for process in (sleeper, other):
            sent(process, signal.SIGTERM)
            until(lambda process=process: has_ended(process))
            if process.exitcode != 0:
                trial.wrong = trial.wrong or f"a worker ended with {process.exitcode}"
    finally:
        for process in filter(None, (sleeper, other)):
            process.kill()
    return trial


def judged(trial: Trial, undisturbed: State, life: Life) -> Trial:
    """Compare what is left, and count what was noted."""
    pid = played(replace(life, blow=None, stays=False))
    states = [note["state"] for note in life.notes if "state" in note and note["pid"] == pid]
    kept = Counter((note["of"], note["keeps"]) for note in life.notes if "keeps" in note)
    trial.wrong = trial.wrong or difference(undisturbed, states[0])
    if more := [page for page, times in kept.items() if times > 1]:
        trial.wrong = trial.wrong or f"published more than once: {more}"
    count_pages(trial, life.notes)
    trial.log = life.log if trial.wrong or trial.twice else ""
    return trial


def is_struck(life: Life) -> bool:
    return any("struck" in note for note in life.notes)


def has_ended(process: BaseProcess) -> bool:
    """Whether it did; one that only now falls asleep is woken."""
    if process.is_alive():
        sent(process, signal.SIGCONT)
    return not process.is_alive()


def sent(process: BaseProcess, number: signal.Signals) -> None:
    """Send it, unless the process ended and this is not known yet: ``is_alive`` hears of it from the fork server."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)


def settled(life: Life) -> bool:
    url = life.variables["PERITO_CATALOGUE__URL"].replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(UNSETTLED).fetchone() == (0,)


def until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
