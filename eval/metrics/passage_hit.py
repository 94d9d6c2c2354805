"""Passage hit: does a passage that the answer cites hold the evidence?"""

from __future__ import annotations

from rapidfuzz import fuzz

from assistant.core.domain import Answer
from assistant.grounding import flattened
from eval.cases import Case

CLOSE = 85.0  # per cent; a scan read by OCR has a wrong letter here and there


def score(case: Case, answer: Answer) -> float | None:
    """1 when a cited passage holds the case's evidence, but for blanks, marks and a few letters. A refusal's
    nearest passages are no answer: 0. None where the case has no evidence or no answer."""
    if case.unanswerable or not case.evidence:
        return None
    return float(not answer.refused and any(holds(citation.text, case.evidence) for citation in answer.citations))


def holds(passage: str, evidence: str) -> bool:
    """Whether ``evidence`` stands in ``passage``; numbers must be right to the digit."""
    wanted, there = flattened(evidence), flattened(passage)
    if f" {wanted} " in f" {there} ":
        return True
    digits = {word for word in wanted.split() if any(c.isdigit() for c in word)}
    if len(wanted) < 8 or not digits <= set(there.split()):
        return False
    return fuzz.partial_ratio(wanted, there) >= CLOSE
