"""Fits the weights of ``assistant/evidence.py`` and its threshold: ``python -m eval.calibrate_refusal``.

From XQuAD (160 paragraphs of 32 articles, each in English and Spanish, with questions in both): every paragraph is
a document in a real index. A question is asked in its own language and across languages, three times: with its
paragraph in the index, with that paragraph taken out (the rest of its article stays: the hard case, on the topic but
without the answer), and with the whole article taken out. A sentence is right when it holds the answer. The weights
are fitted on half of the articles by logistic regression and tested on the other half; so is the threshold.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import Access, Chunk, Hit, Reader
from assistant.core.embedder import open_embedder
from assistant.core.index import chunk_id, open_index
from assistant.core.ports import ChunkIndex, Embedder, SearchQuery
from assistant.core.settings import EmbeddingSettings, IndexSettings
from assistant.evidence import RELEVANT, WEIGHTS, Weigher
from eval.bench.__main__ import default_documents
from eval.bench.table import Table

EVERYTHING = Access("calibration", None)
SITUATIONS = ("answerable", "paragraph removed", "article removed")
QUESTIONS_PER_ARTICLE = 8
LIMIT = 12
RIDGE = 1.0  # keeps weights of features that say the same from running apart


@dataclass(frozen=True, slots=True)
class Example:
    """A question in a situation: its candidate sentences' evidence, and which of them hold the answer."""

    article: str
    situation: str
    foreign: bool
    features: NDArray[np.float64]  # one row a candidate
    right: NDArray[np.bool_]
    found: bool  # the right paragraph was among the hits

    @property
    def answerable(self) -> bool:
        return self.situation == SITUATIONS[0]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the paragraph that answers it and the answer there."""

    question: str
    lang: str
    gold: str
    article: str
    answer: str


class RememberingEmbedder:
    """An embedder that keeps what it computed in a file, since this is most of the work."""

    def __init__(self, embedder: Embedder, file: Path | None) -> None:
        self._embedder, self._file = embedder, file
        self._known: dict[str, list[float]] = json.loads(file.read_text()) if file and file.exists() else {}

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_query(self, text: str) -> list[float]:
        return self._remembered(f"query: {text}", lambda: self._embedder.embed_query(text))

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._remembered(f"passage: {t}", lambda t=t: self._embedder.embed_passages([t])[0]) for t in texts]

    def count_tokens(self, text: str) -> int:
        return self._embedder.count_tokens(text)

    def save(self) -> None:
        if self._file:
            self._file.write_text(json.dumps(self._known))

    def _remembered(self, key: str, compute: Any) -> list[float]:
        if key not in self._known:
            self._known[key] = [round(value, 6) for value in compute()]
        return self._known[key]


def examples(folder: Path, embedder: Embedder, per_article: int = QUESTIONS_PER_ARTICLE) -> list[Example]:
    """All questions in all situations."""
    passages = _lines(folder / "passages.open.jsonl")
    questions = _lines(folder / "questions.open.jsonl")
    answers = {(q["pair"], q["lang"]): q["answer"] for q in questions}
    titles = {p["id"]: p["title"] for p in passages}
    with tempfile.TemporaryDirectory() as home:
        index = open_index(IndexSettings(), Path(home), embedder)  # pyright: ignore[reportCallIssue]
        chunks = [_chunk(p) for p in passages]
        index.upsert(chunks, embedder.embed_passages([chunk.searchable_text for chunk in chunks]))
        weigher = Weigher(embedder)
        found: list[Example] = []
        taken: dict[tuple[str, str], int] = {}
        for q in questions:
            key = (titles[q["passage"]], q["lang"])
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > per_article:
                continue
            for corpus in ("en", "es"):
                gold = corpus + q["passage"][2:]
                asked = Asked(q["question"], q["lang"], gold, titles[gold], answers[q["pair"], corpus])
                found += _situations(asked, index, embedder, weigher)
        index.close()
    return found


def _situations(asked: Asked, index: ChunkIndex, embedder: Embedder, weigher: Weigher) -> Iterator[Example]:
    vector = embedder.embed_query(asked.question)
    corpus, gold = asked.gold[:2], asked.gold
    access = Access("calibration", frozenset({corpus}))
    hits = index.search(SearchQuery(asked.question, vector, access, LIMIT + 10))
    for situation, removed in zip(SITUATIONS, ("", gold, gold.rpartition("-")[0] + "-"), strict=True):
        kept = [hit for hit in hits if not removed or not hit.chunk.document_id.startswith(removed)][:LIMIT]
        weighed = weigher.features(asked.question, vector, kept)
        right = [kept[n].chunk.document_id == gold and asked.answer in piece.text for n, piece, _ in weighed]
        rows = np.array([features.vector() for _, _, features in weighed])
        yield Example(asked.article, situation, corpus != asked.lang, rows, np.array(right), _has(kept, gold))


def _has(hits: Sequence[Hit], gold: str) -> bool:
    return any(hit.chunk.document_id == gold for hit in hits)


def _chunk(passage: dict[str, Any]) -> Chunk:
    """A paragraph as a document of its own; the collection is its language."""
    return Chunk(
        id=chunk_id(passage["id"], 1, 0),
        document_id=passage["id"],
        document="paragraph",
        collection=passage["lang"],
        page=1,
        ordinal=0,
        text=passage["text"],
        anchors=(),
        reader=Reader.TEXT,
        confidence=1.0,
    )


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def fit(rows: NDArray[np.float64], right: NDArray[np.bool_], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by Newton's method with a ridge (not on the constant, which comes first)."""
    ridge = RIDGE * np.eye(rows.shape[1])
    ridge[0, 0] = 1e-6
    theta = np.zeros(rows.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-rows @ theta))
        gradient = rows.T @ (weight * (p - right)) + ridge @ theta
        hessian = (rows * (weight * p * (1 - p))[:, None]).T @ rows + ridge
        step = np.linalg.solve(hessian, gradient)
        theta -= step
        if np.abs(step).max() < 1e-6:
            break
    return theta


def best_scores(found: Sequence[Example], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each example how good its best sentence is."""
    return np.array([(1 / (1 + np.exp(-e.features @ theta))).max() if len(e.features) else 0.0 for e in found])


def best_threshold(found: Sequence[Example], scores: NDArray[np.float64]) -> float:
    """Where the mean of three shares is highest: answered of the answerable, refused of each kind of the others."""
    candidates = np.unique(np.round(scores, 3))
    return float(max(candidates, key=lambda t: sum(_shares(found, scores, float(t)).values())))


def _shares(found: Sequence[Example], scores: NDArray[np.float64], threshold: float) -> dict[str, float]:
    shares: dict[str, float] = {}
    for situation in SITUATIONS:
        of = [s >= threshold for e, s in zip(found, scores, strict=True) if e.situation == situation]
        answered = sum(of) / len(of) if of else 0.0
        shares[situation] = answered if situation == SITUATIONS[0] else 1 - answered
    return shares


def table(found: Sequence[Example], theta: NDArray[np.float64], threshold: float, title: str) -> Table:
    """How well the weights do, by whether question and documents share their language."""
    rows: list[list[str | float | int]] = []
    for name, foreign in (("same language", False), ("across languages", True)):
        of = [e for e in found if e.foreign == foreign]
        scores = best_scores(of, theta)
        shares = _shares(of, scores, threshold)
        refused = [e for e, s in zip(of, scores, strict=True) if s < threshold]
        answerable = [e for e in of if e.answerable]
        first = [bool(e.right[int(np.argmax(e.features @ theta))]) for e in answerable if len(e.right)]
        precision = sum(not e.answerable for e in refused) / len(refused) if refused else 0.0
        recall = sum(not e.answerable for e in refused) / sum(not e.answerable for e in of)
        found_share = sum(e.found for e in answerable) / len(answerable)
        rows.append(
            [
                name,
                found_share,
                sum(first) / len(answerable),
                *(shares[s] for s in SITUATIONS),
                precision,
                recall,
                len(of),
            ]
        )
    columns = [
        "question and documents",
        "paragraph found",
        "first sentence right",
        "answered (answerable)",
        "refused (paragraph removed)",
        "refused (article removed)",
        "refusal precision",
        "refusal recall",
        "questions",
    ]
    return Table("refusal", title, columns, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m eval.calibrate_refusal", description=__doc__)
    parser.add_argument("--documents", type=Path, default=default_documents(), help="folder with datasets/")
    parser.add_argument("--remember", type=Path, help="keep embeddings in this file between runs")
    parser.add_argument("--per-article", type=int, default=QUESTIONS_PER_ARTICLE, help="questions of each article")
    given = parser.parse_args(arguments)
    embedder = RememberingEmbedder(open_embedder(EmbeddingSettings()), given.remember)  # pyright: ignore[reportCallIssue]
    found = examples(given.documents / "datasets" / "xquad", embedder, given.per_article)
    embedder.save()
    articles = sorted({e.article for e in found})
    fitted = [e for e in found if e.article in articles[::2]]
    tested = [e for e in found if e.article in articles[1::2]]
    rows, right = np.vstack([e.features for e in fitted]), np.concatenate([e.right for e in fitted])
    theta = fit(rows, right, np.ones(len(rows)))
    threshold = best_threshold(fitted, best_scores(fitted, theta))
    table(fitted, theta, threshold, "Fitted on these articles").print()
    table(tested, theta, threshold, "Tested on the other articles").print()
    table(tested, np.array(WEIGHTS), RELEVANT, "The product's weights on the other articles").print()
    sys.stdout.write(f"WEIGHTS = ({', '.join(f'{value:.2f}' for value in theta)})\nRELEVANT = {threshold:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
