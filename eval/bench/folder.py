"""A folder of real files, hostile ones among them: what became of each, held against what a good reader does.

``python -m eval.bench folder --json FILE`` also writes every file's outcome, with the reason in its own words.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assistant.core.domain import Reader
from eval.bench._server import Server, running_server
from eval.bench.table import Cell, Table
from eval.handling import Expected, Outcome, PageOutcome, differences, expectations

AT_ONCE = 4  # files on their way, as `perito ingest` sends them
LOOK_SECONDS = 0.5
COLUMNS = ("kind", "files", "complete", "partial", "refused", "pages", "pages not read", "as expected", "otherwise")


@dataclass(frozen=True, slots=True)
class Ended:
    """A file with what became of it."""

    expected: Expected
    outcome: Outcome
    otherwise: Sequence[str]
    answer: dict[str, Any]  # the server's, to handing it over


def run(documents: Path) -> Table:
    """Outcomes by kind of file; wall time and the peak memory of the server and all its processes."""
    wanted = {one.file: one for one in expectations(documents)}
    with running_server() as server:
        server.wait_until_idle()
        started, memory = time.perf_counter(), PeakMemory(server)
        with memory:
            answers = dict(sent_in(server, [documents / file for file in wanted]))
            _wait_until_read(server)
        seconds = time.perf_counter() - started
        listed = server.listed()
        ended = [_ended(server, one, answers[documents / file], listed) for file, one in wanted.items()]
        parts = sum(one["parent"] is not None for one in listed)
    notes = (
        f"{_accounted(ended)}; {parts} documents more lay in mails and archives.",
        f"{seconds:.0f} s, sent {AT_ONCE} at a time; peak memory of the server and its processes together "
        f"{memory.peak_mb:,.0f} MB (the server alone {memory.own_mb:,.0f} MB).",
        *(f"Otherwise: {line}" for one in ended if one.otherwise for line in [_line(one)]),
    )
    goal = "nothing lost, every difference explained, memory bounded"
    title = f"A folder of {len(ended)} real and hostile files"
    return Table("folder", title, COLUMNS, list(_rows(ended)), notes, goal, [_detail(one) for one in ended])


def files_of(documents: Path) -> list[Path]:
    """The folder's documents."""
    return [documents / one.file for one in expectations(documents)]


def sent_in(server: Server, files: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Hand files over, some at a time; each with the server's answer: a document, or why it was refused."""

    def send(file: Path) -> tuple[Path, dict[str, Any]]:
        return file, server.add(file, bulk=True)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(send, files)


class PeakMemory:
    """Watches resident memory while its context is open: of the server, and of it and its processes together."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak_mb = self.own_mb = 0.0

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS / 2):
            self.own_mb = max(self.own_mb, self._server.resident_mb())
            self.peak_mb = max(self.peak_mb, self._server.tree_mb())


def _wait_until_read(server: Server) -> None:
    while any(server.listed(status=status, limit=1) for status in ("queued", "reading")):
        time.sleep(LOOK_SECONDS)


def _ended(server: Server, expected: Expected, answer: dict[str, Any], listed: Sequence[dict[str, Any]]) -> Ended:
    outcome = _outcome(server, answer, with_text=bool(expected.sentence))
    outcome = replace(outcome, within=list(_errors_within(answer["id"], listed)))
    return Ended(expected, outcome, differences(expected, outcome), answer)


def _errors_within(document_id: str | None, listed: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What is wrong with the documents that were found in one, and in those."""
    for part in listed:
        if document_id is not None and part["parent"] == document_id:
            if part["error"]:
                yield f"{part['name']}: {part['error']}"
            yield from _errors_within(part["id"], listed)


def _outcome(server: Server, answer: dict[str, Any], *, with_text: bool) -> Outcome:
    if answer["id"] is None:
        return Outcome("refused", answer["error"], answer["code"])
    address = f"/api/documents/{answer['id']}"
    reply = server.http.get(address)
    if reply.status_code == 404:
        return Outcome("lost")
    detail = reply.raise_for_status().json()
    pages = [
        PageOutcome(page["number"], Reader(page["reader"]), page["status"], page["error"] or page["receipt"]["reason"])
        for page in sorted(detail["pages"], key=lambda page: page["number"])
    ]
    text = ""
    if with_text:
        texts = [server.http.get(f"{address}/pages/{page.number}").json()["text"] for page in pages]
        text = "\n".join(texts)
    document = detail["document"]
    return Outcome(document["status"], document["error"] or "", "", pages, text)


def _accounted(ended: Sequence[Ended]) -> str:
    """Where every file is."""
    lost = sum(one.outcome.status == "lost" for one in ended)
    accepted = [one.answer["id"] for one in ended if one.answer["id"] is not None]
    documents, refused = len(set(accepted)) - lost, len(ended) - len(accepted)
    same = len(accepted) - len(set(accepted))
    return f"{len(ended)} files: {documents} documents, {refused} refused, {same} the bytes of another, {lost} lost"


def _rows(ended: Sequence[Ended]) -> Iterator[tuple[Cell, ...]]:
    for kind in (*sorted({one.expected.kind for one in ended}), "all"):
        of_kind = [one for one in ended if kind in (one.expected.kind, "all")]
        outcomes = [one.outcome for one in of_kind]
        pages = [page for outcome in outcomes for page in outcome.pages]
        otherwise = sum(bool(one.otherwise) for one in of_kind)
        yield (
            kind,
            len(of_kind),
            sum(outcome.status == "complete" for outcome in outcomes),
            sum(outcome.status == "partial" for outcome in outcomes),
            sum(outcome.refused for outcome in outcomes),
            len(pages),
            sum(page.status == "failed" for page in pages),
            len(of_kind) - otherwise,
            otherwise,
        )


def _line(one: Ended) -> str:
    reason = one.outcome.reason or "(it says nothing)"
    return f"{one.expected.file}: expected “{one.expected.said}”; {', '.join(one.otherwise)}. {reason}"


def _detail(one: Ended) -> dict[str, Any]:
    readers = [page.reader.value for page in one.outcome.pages]
    return {
        "file": one.expected.file,
        "expected": one.expected.said,
        "status": one.outcome.status,
        "pages": len(readers),
        "readers": {reader: readers.count(reader) for reader in sorted(set(readers))},
        "otherwise": list(one.otherwise),
        "reason": one.outcome.reason,
    }
