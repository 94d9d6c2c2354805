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
        assert any(trial.struck for trial in row.trials), f"no blow fell in {row.act}"

    def close(self) -> None:
        """Print them. In each, most blows have to have fallen. What one is aimed at comes by a little otherwise each
        time, so in a short row chance may let some miss."""
        self._print()
        for title, rows in self._rows.items():
            struck = [trial.struck for row in rows for trial in row.trials]
            assert sum(struck) >= 0.8 * len(struck), f"{title}: only {sum(struck)} of {len(struck)} blows fell"

    def _print(self) -> None:
        for title, rows in self._rows.items():
            total = Row("all", sum(row.boundaries for row in rows), [trial for row in rows for trial in row.trials])
            lines = [f"| {' | '.join(HEADS)} |", "|---|" + "--:|" * (len(HEADS) - 1)]
            lines += [f"| {' | '.join(map(str, row.told))} |" for row in [*rows, *([total] if len(rows) > 1 else [])]]
            print(f"\n{title}\n", *lines, sep="\n", file=sys.__stdout__, flush=True)
