"""Answers put together: from quotes, from a model's text, or as a refusal. Pure: places and verdicts come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assistant.core.domain import Answer, Box, Chunk, Citation, Sentence, Usage
from assistant.language import Language


@dataclass
class Draft:
    """An answer while it is being made. What was shown is what stands in it: ``say`` returns the text to stream."""

    question: str
    language: Language
    refused: bool = False
    quoted: bool = False
    sentences: list[Sentence] = field(default_factory=list[Sentence])
    citations: list[Citation] = field(default_factory=list[Citation])
    _said: list[str] = field(default_factory=list[str])

    def say(self, text: str, apart: bool = True) -> str:
        """Add ``text``, as a paragraph of its own where ``apart``; returns it as it is to be shown."""
        if apart and text and self.text:
            text = f"\n\n{text}"
        self._said.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._said)

    def finished(self, seconds: float, usage: Sequence[Usage] = ()) -> Answer:
        return Answer(
            question=self.question,
            text=self.text,
            refused=self.refused,
            sentences=tuple(self.sentences),
            citations=tuple(self.citations),
            usage=tuple(usage),
            seconds=seconds,
            language=self.language,
            quoted=self.quoted,
        )


def citation(number: int, chunk: Chunk, boxes: Sequence[Box]) -> Citation:
    """``chunk`` as a citation; ``boxes`` where on its page it is shown."""
    return Citation(
        number=number,
        document=chunk.document,
        document_id=chunk.document_id,
        page=chunk.page,
        boxes=tuple(boxes),
        reader=chunk.reader,
        confidence=chunk.confidence,
        text=chunk.text,
    )
