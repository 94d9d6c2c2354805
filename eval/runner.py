"""Asks the assistant every case and scores its answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from assistant.core.domain import Answer
from assistant.core.errors import PeritoError
from assistant.core.shapes import AnswerShape, dump
from assistant.grounding import Likeness
from eval.bench.table import Table
from eval.cases import Case
from eval.metrics import page_hit, passage_hit, refusal
from eval.metrics.faithfulness import Faithfulness

Ask = Callable[[str], Awaitable[Answer]]
Score = Callable[[Case, Answer], float | None]

TITLES = {
    "page_hit": "the right page is cited",
    "passage_hit": "a cited passage holds the evidence",
    "refusal": "answered or refused as it should be",
    "faithfulness": "sentences that stand on what they cite",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case after it was asked: its answer and scores, or the error."""

    case: Case
    answer: Answer | None
    scores: dict[str, float | None]
    seconds: float
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.case.model_dump(),
            "answer": dump(AnswerShape.of(self.answer)) if self.answer else None,
            "scores": self.scores,
            "seconds": round(self.seconds, 3),
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric's mean over the cases it applies to; None where there is none."""

    name: str
    mean: float | None
    eligible: int


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a set of cases."""

    title: str
    outcomes: tuple[Outcome, ...]
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def figures(self) -> list[Figure]:
        figures: list[Figure] = []
        for name in TITLES:
            scores = [s for outcome in self.outcomes if (s := outcome.scores.get(name)) is not None]
            figures.append(Figure(name, sum(scores) / len(scores) if scores else None, len(scores)))
        return figures

    @property
    def refusals(self) -> refusal.Refusals:
        return refusal.Refusals.over((o.case, o.answer) for o in self.outcomes if o.answer is not None)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.error]

    def as_table(self) -> Table:
        rows: list[list[str | float | int | None]] = [
            [figure.name, figure.mean, figure.eligible, TITLES[figure.name]] for figure in self.figures
        ]
        refusals, total = self.refusals, len(self.outcomes) - len(self.failed)
        unanswerable = sum(outcome.case.unanswerable for outcome in self.outcomes if outcome.answer is not None)
        refused = sum(outcome.answer.refused for outcome in self.outcomes if outcome.answer is not None)
        rows += [
            ["refusal_precision", refusals.precision, refused, "of the refused, without an answer in the documents"],
            ["refusal_recall", refusals.recall, unanswerable, "of those without an answer, refused"],
            ["answered", refusals.answered, total - unanswerable, "of those with an answer, answered"],
        ]
        seconds = sorted(outcome.seconds for outcome in self.outcomes)
        rows.append(["seconds_median", seconds[len(seconds) // 2] if seconds else None, len(seconds), "per question"])
        notes = (
            [f"{len(self.failed)} of {len(self.outcomes)} cases failed: {self.failed[0].error}"] if self.failed else []
        )
        return Table("answers", self.title, ["metric", "mean", "cases", "meaning"], rows, notes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "made": self.made,
            "metrics": {figure.name: {"mean": figure.mean, "eligible": figure.eligible} for figure in self.figures},
            "refusal": {
                "precision": self.refusals.precision,
                "recall": self.refusals.recall,
                "answered": self.refusals.answered,
            },
            "cases": len(self.outcomes),
            "failed": len(self.failed),
            "outcomes": [outcome.as_dict() for outcome in self.outcomes],
        }


async def run_cases(
    cases: Sequence[Case],
    ask: Ask,
    *,
    likeness: Likeness | None = None,
    title: str = "Answers",
    concurrency: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Ask every case and score it. A case whose question fails is reported with its error and scored by none.

    ``likeness`` (``Weigher.likeness``) lets faithfulness be judged across languages; ``concurrency`` is for a
    model endpoint that answers many at once. ``on_progress`` gets how many are done, of how many.
    """
    metrics: dict[str, Score] = {
        "page_hit": page_hit.score,
        "passage_hit": passage_hit.score,
        "refusal": refusal.score,
        "faithfulness": Faithfulness(likeness).score,
    }
    slots, done = asyncio.Semaphore(concurrency), 0

    async def one(case: Case) -> Outcome:
        nonlocal done
        async with slots:
            outcome = await _asked(case, ask, metrics)
        done += 1
        if on_progress:
            on_progress(done, len(cases))
        return outcome

    return Report(title, tuple(await asyncio.gather(*(one(case) for case in cases))))


async def _asked(case: Case, ask: Ask, metrics: dict[str, Score]) -> Outcome:
    started = time.perf_counter()
    try:
        answer = await ask(case.question)
    except PeritoError as error:
        return Outcome(case, None, dict.fromkeys(metrics), time.perf_counter() - started, str(error))
    seconds = time.perf_counter() - started
    scores = await asyncio.to_thread(lambda: {name: score(case, answer) for name, score in metrics.items()})
    return Outcome(case, answer, scores, seconds)
