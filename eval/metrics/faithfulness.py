"""Faithfulness by rule: of an answer's sentences, how many stand on the passages they cite?

The numbers, dates and names of a sentence must stand in what it cites, and enough of its words (across
languages, its meaning by the embedder) in one stretch of it. No model judges, so it never fails to judge, and
it is blind to what only a reader sees: a negation left out, two people of the same passage exchanged. How
often it is right on answers exchanged by rule stands in ``eval/results.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.core.domain import Answer, Chunk, Citation, Verdict
from assistant.grounding import Likeness, judge
from eval.cases import Case


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """With ``likeness`` (an embedder's), sentences in another language than their source are held to it too."""

    likeness: Likeness | None = None

    def score(self, case: Case, answer: Answer) -> float | None:
        """The share of sentences that are quoted or supported; one without a citation counts as neither. None for
        a refusal, which claims nothing."""
        del case
        if answer.refused or not answer.sentences:
            return None
        passages = {citation.number: as_chunk(citation) for citation in answer.citations}
        good = 0
        for sentence in answer.sentences:
            cited = [passages[number] for number in sentence.citations if number in passages]
            good += judge(sentence.text, cited, self.likeness).verdict in (Verdict.QUOTED, Verdict.SUPPORTED)
        return good / len(answer.sentences)


def as_chunk(citation: Citation) -> Chunk:
    """The passage behind a citation, to hold sentences against."""
    return Chunk(
        id=str(citation.number),
        document_id=citation.document_id,
        document=citation.document,
        collection="",
        page=citation.page,
        ordinal=0,
        text=citation.text,
        anchors=(),
        reader=citation.reader,
        confidence=citation.confidence,
    )
