"""Cosines of any embedder on one scale.

Multilingual-e5 keeps unrelated texts at a cosine of about 0.75 and a question and its answer at 0.88;
others spread from 0.1 to 0.8. A few fixed questions with their answers, English and Spanish, are embedded
once: likeness 0 is how near a question is to answers of other questions, 1 how near to its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.core.ports import Embedder

PAIRS = (
    ("When was the bridge opened?", "The bridge was opened to traffic on 3 May 1994."),
    ("Who signs the rental contract?", "The rental contract is signed by the owner and the tenant."),
    ("How much does a ticket to the museum cost?", "Admission to the museum is 12 euros for adults."),
    ("What do bees collect from flowers?", "Bees visit flowers to gather nectar and pollen."),
    ("Which ports does the ferry call at?", "The ferry stops at the ports of Palma and Mahón."),
    ("How is the engine cooled?", "Water circulates around the cylinders to keep the engine cool."),
    ("¿Cuándo vence el plazo para reclamar?", "El plazo de reclamación termina el 30 de junio."),
    ("¿Quién preside el consejo de la empresa?", "El consejo de administración está presidido por Ana Ruiz."),
    ("¿Cuántos alumnos tiene la escuela?", "En la escuela estudian 420 alumnos."),
    ("¿Dónde nace el río?", "El río nace en la sierra, a 1.600 metros de altitud."),
    ("¿Qué síntomas produce la gripe?", "La gripe causa fiebre, dolor muscular y cansancio."),
    ("¿Cómo se prepara la masa del pan?", "La masa se hace mezclando harina, agua, sal y levadura."),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Cosines with one question, put on the common scale."""

    unlike: float
    span: float

    def __call__(self, cosine: float) -> float:
        """Likeness: about 0 for an unrelated text, about 1 for an answer, a little beyond at either end."""
        return max(-0.5, min(1.5, (cosine - self.unlike) / self.span))


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Made once for an embedder."""

    answers: tuple[tuple[float, ...], ...]
    span: float  # from unrelated to answering, in this embedder's cosine

    @classmethod
    def of(cls, embedder: Embedder) -> Yardstick:
        """Embeds the pairs (0.3 seconds with the built-in embedder)."""
        questions = [embedder.embed_query(question) for question, _ in PAIRS]
        answers = [tuple(embedder.embed_passages([answer])[0]) for _, answer in PAIRS]
        own = [cosine(q, a) for q, a in zip(questions, answers, strict=True)]
        others = [cosine(q, a) for i, q in enumerate(questions) for j, a in enumerate(answers) if i != j]
        span = sum(own) / len(own) - sum(others) / len(others)
        return cls(tuple(answers), max(span, 0.01))

    def for_question(self, vector: Sequence[float]) -> Scale:
        """The scale for a question: some are nearer to everything than others."""
        near = [cosine(vector, answer) for answer in self.answers]
        return Scale(sum(near) / len(near), self.span)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))
