"""From asking to the first words of the answer: on an idle server, and while it takes in a folder of documents."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.bench._server import Server, running_server
from eval.bench.folder import files_of, sent_in
from eval.bench.many import percentiles
from eval.bench.table import Cell, Table

QUESTIONS = 20
KNOWN = 100  # passages that were taken in before
PAUSE_SECONDS = 2.0  # between questions, as people pause; so that they meet different moments of the reading
PASSAGES = "datasets/xquad/passages*.jsonl"
ASKED = "datasets/xquad/questions*.jsonl"


def run(documents: Path) -> Table:
    """Milliseconds to the first piece of an answer, of questions about passages that were taken in before."""
    with running_server() as server:
        passages = _chosen(documents)
        idle, busy = _questions(documents, passages)
        _take_in(server, passages)
        server.wait_until_idle()
        rows = [_measured(server, "idle", idle)]
        sending = threading.Thread(target=lambda: list(sent_in(server, files_of(documents))))
        sending.start()
        _wait_for_pages(server)
        before = _pages_read(server)
        rows.append(_measured(server, "while a folder is taken in", busy))
        pages, at_work = _pages_read(server) - before, sending.is_alive() or bool(server.listed(status="reading"))
        sending.join()
    ratio = float(str(rows[1][2])) / float(str(rows[0][2]))
    notes = (
        f"{QUESTIONS} questions each, of XQuAD, every one about another passage, {PAUSE_SECONDS:g} s apart; from the "
        "request to the first piece of the answer as a server-sent event.",
        f"Ratio of the medians: {ratio:.2f}. Meanwhile {pages} pages were read"
        + ("." if at_work else ", and then the folder was at its end: it is too small for this figure."),
    )
    columns = ("server", "questions", "median ms", "p95 ms", "longest ms")
    return Table("chat_while_ingesting", "Chat while a folder is taken in", columns, rows, notes, "ratio at most 1.5")


def _lines(documents: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for file in sorted(documents.glob(pattern)):
        yield from map(json.loads, file.read_text("utf-8").splitlines())


def _chosen(documents: Path) -> dict[str, str]:
    """Some passages' texts by their ids, in no order."""
    texts = {str(line["id"]): str(line["text"]) for line in _lines(documents, PASSAGES)}
    return {name: texts[name] for name in random.Random(1).sample(sorted(texts), KNOWN)}


def _questions(documents: Path, passages: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Two lists of questions, each about a passage of its own: what was embedded for one helps no other."""
    by_passage = {str(line["passage"]): str(line["question"]) for line in _lines(documents, ASKED)}
    questions = [by_passage[passage] for passage in passages if passage in by_passage][: 2 * QUESTIONS]
    return questions[::2], questions[1::2]


def _take_in(server: Server, passages: Mapping[str, str]) -> None:
    parts = [("files", (f"{name}.txt", text.encode())) for name, text in passages.items()]
    server.http.post("/api/documents", params={"wait": True}, files=parts).raise_for_status()
    while any(one["chunks_embedded"] < one["chunks"] for one in server.listed()):
        time.sleep(1)


def _wait_for_pages(server: Server) -> None:
    """Until the folder's first pages are read."""
    before = _pages_read(server)
    while _pages_read(server) < before + 5:
        time.sleep(0.2)


def _pages_read(server: Server) -> int:
    return sum(one["pages_done"] for one in server.listed())


def _measured(server: Server, what: str, questions: Sequence[str]) -> tuple[Cell, ...]:
    seconds: list[float] = []
    for question in questions:
        seconds.append(_first_piece(server, question))
        time.sleep(PAUSE_SECONDS)
    middle, late = percentiles(seconds)
    return what, len(seconds), round(middle, 1), round(late, 1), round(1000 * max(seconds), 1)


def _first_piece(server: Server, question: str) -> float:
    """Seconds until the first piece of the answer."""
    started, headers = time.perf_counter(), {"Accept": "text/event-stream"}
    with server.http.stream("POST", "/api/ask", json={"question": question}, headers=headers) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line == "event: piece":
                return time.perf_counter() - started
    raise RuntimeError(f"no answer to: {question}")
