"""Page hit: does the answer cite the page that holds the answer?"""

from __future__ import annotations

from assistant.core.domain import Answer
from eval.cases import Case


def score(case: Case, answer: Answer) -> float | None:
    """1 when a citation names the case's document and page. A refusal's nearest passages are no answer: 0.
    None where the case names no page or has no answer."""
    if case.unanswerable or not case.document or case.page is None:
        return None
    pages = {(citation.document, citation.page) for citation in answer.citations}
    return float(not answer.refused and (case.document, case.page) in pages)
