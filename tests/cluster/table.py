"""The table that the proofs print, and what has to be so in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.cluster.trials import Row

HEADS = (
    *("act", "boundaries passed", "tried", "struck", "final states equal"),
    *("pages in flight begun again", "kept pages read again", "requests refused"),
)


def show(title: str, rows: Sequence[Row]) -> None:
    """Print it, also where pytest keeps what is printed; then every trial has to have ended as undisturbed."""
    total = Row("all", sum(row.boundaries for row in rows), [trial for row in rows for trial in row.trials])
    lines = [f"| {' | '.join(HEADS)} |", "|---|" + "--:|" * (len(HEADS) - 1)]
    lines += [f"| {' | '.join(map(str, row.told))} |" for row in [*rows, total]]
    print(f"\n{title}\n", *lines, sep="\n", file=sys.__stdout__, flush=True)
    wrong = [
        f"{row.act}, {trial.blow}: {trial.wrong or 'pages that were kept are read again'}\n{trial.log[-3000:]}"
        for row in rows
        for trial in row.trials
        if trial.wrong or trial.twice
    ]
    assert not wrong, f"{len(wrong)} of {len(total.trials)}:\n" + "\n".join(wrong[:12])
    assert sum(trial.struck for trial in total.trials) >= 0.9 * len(total.trials), "most blows have to fall"
