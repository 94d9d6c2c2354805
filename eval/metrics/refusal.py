"""Refusal: does the assistant decline exactly what the documents do not answer?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assistant.core.domain import Answer
from eval.cases import Case


def score(case: Case, answer: Answer) -> float:
    """1 when the answer was refused and the case has none, or neither."""
    return float(answer.refused == case.unanswerable)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Precision: of the refused, how many had no answer. Recall: of those without an answer, how many were
    refused. None where there is nothing to divide by."""

    precision: float | None
    recall: float | None
    answered: float | None  # of those with an answer, how many were answered

    @classmethod
    def over(cls, pairs: Iterable[tuple[Case, Answer]]) -> Refusals:
        seen = [(case.unanswerable, answer.refused) for case, answer in pairs]
        refused, unanswerable = sum(r for _, r in seen), sum(u for u, _ in seen)
        right = sum(u and r for u, r in seen)
        answerable = len(seen) - unanswerable
        return cls(
            right / refused if refused else None,
            right / unanswerable if unanswerable else None,
            (answerable - (refused - right)) / answerable if answerable else None,
        )
