"""The tables that the proofs print, and what has to be so in them."""

from __future__ import annotations

import sys
from collections import defaultdict

from tests.cluster.trials import Row

HEADS = (
    *("act", "boundaries passed", "tried", "struck", "final states equal"),
    *("pages in flight begun again", "kept pages read again", "requests refused"),
)
MOST_SHOWN = 6


class Tables:
    """By title; they are printed at the end, also where pytest keeps what is printed."""

    def __init__(self) -> None:
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)

    def add(self, title: str, row: Row) -> None:
        """Add a row, of which every trial has to have ended as if nothing had happened."""
        self._rows[title].append(row)
        wrong = [trial for trial in row.trials if trial.wrong or trial.twice]
        told = [f"{trial.blow}: {trial.wrong or 'kept pages are read again'}\n{trial.log[-3000:]}" for trial in wrong]
        assert not told, f"{len(wrong)} of {len(row.trials)} in {row.act}:\n" + "\n".join(told[:MOST_SHOWN])
        assert sum(trial.struck for trial in row.trials) >= 0.8 * len(row.trials), "most blows have to fall"

    def print(self) -> None:
        for title, rows in self._rows.items():
            total = Row("all", sum(row.boundaries for row in rows), [trial for row in rows for trial in row.trials])
            lines = [f"| {' | '.join(HEADS)} |", "|---|" + "--:|" * (len(HEADS) - 1)]
            lines += [f"| {' | '.join(map(str, row.told))} |" for row in [*rows, *([total] if len(rows) > 1 else [])]]
            print(f"\n{title}\n", *lines, sep="\n", file=sys.__stdout__, flush=True)
