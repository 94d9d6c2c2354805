"""Ten thousand small files in one library: how fast they come in, and how fast it still answers.

``python -m eval.bench.many --files 500`` measures with fewer.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from eval.bench._server import Server, running_server
from eval.bench.table import Cell, Table

FILES = 10_000
SHARE = 10  # a first part of so many is measured by itself, to compare with the whole
BATCH = 100  # files a request, as folders are sent
REQUESTS = 20
FOUND = 20  # files looked for by name, one by one
GOAL_MS = 300
SYLLABLES = (
    "ba", "ce", "co", "da", "fi", "gui", "jo", "la", "le", "ma", "mi", "no", "pa", "qui", "ra", "ri", "so", "te", "va",
    "zo",
)  # fmt: skip
LOOK_SECONDS = 0.5
VOCABULARY = 20_000  # words; the n-th is used 1/n as often as the first (Zipf), as in languages
COLUMNS = ("what", "files", "value", "median ms", "p95 ms")

Named = tuple[str, bytes]
Row = tuple[Cell, ...]


def run(documents: Path, files: int = FILES) -> Table:  # noqa: ARG001 - the files are made
    """Files a second accepted and read, the memory meanwhile, and what the lists then take."""
    made, first = list(small_files(files)), files // SHARE
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="perito-bench-") as folder:
        home = Path(folder)
        with running_server(home) as server:
            server.wait_until_idle()
            rows += _memory(server, 0)
            rows += _taken_in(server, made[:first], 0)
            rows += _taken_in(server, made[first:], first)
            rows.append(("found by name", files, _found(server, made), None, None))
            rows += _lists(server, made, "")
            with _live_updates(server) as events:
                rows += _lists(server, made, ", live updates open")
            rows.append(("live updates meanwhile", files, events(), None, None))
        with running_server(home) as server:  # holds what the documents need, and nothing left of reading them
            rows += _memory(server, files, ", started again")
    notes = (
        f"Text files of 40 made-up words, {BATCH} a request, one request after the other. Dense vectors follow: "
        "they are still being made while the lists are measured.",
        f"Of {REQUESTS} requests each, from the request to its last byte, on one connection. Live updates: four pages "
        f"of the library follow 50 documents each while {BATCH} more files are sent.",
    )
    title = f"{files:,} small files"
    return Table("many", title, COLUMNS, rows, notes, f"lists under {GOAL_MS} ms at {FILES:,} documents; memory flat")


def small_files(count: int, seed: int = 1) -> Iterator[Named]:
    """Files of made-up words; no two names and no two texts are alike."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(VOCABULARY)]
    often = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    for number in range(count):
        text = " ".join(chance.choices(words, cum_weights=often, k=40))
        first, second = chance.choices(words, k=2)
        yield f"{first} {second} {number:05d}.txt", f"Nota {number}. {text.capitalize()}.\n".encode()


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile of at least two durations, in milliseconds."""
    return 1000 * median(seconds), 1000 * quantiles(seconds, n=20, method="inclusive")[-1]


def _taken_in(server: Server, files: Sequence[Named], before: int) -> Iterator[Row]:
    """Send ``files`` and wait until they are read."""
    started = time.perf_counter()
    for begin in range(0, len(files), BATCH):
        _send(server, files[begin : begin + BATCH])
    accepted = time.perf_counter() - started
    while _unread(server):
        time.sleep(LOOK_SECONDS)
    whole = time.perf_counter() - started
    files_now = before + len(files)
    yield "accepted, files/s", files_now, round(len(files) / accepted, 1), None, None
    yield "read, files/s", files_now, round(len(files) / whole, 1), None, None
    yield "all read after s", files_now, round(whole, 1), None, None
    yield from _memory(server, files_now)


def _memory(server: Server, files: int, when: str = "") -> Iterator[Row]:
    """Of the server's own process, with and without the files it has mapped."""
    yield "resident MB" + when, files, round(server.resident_mb()), None, None
    yield "of it not of files, MB" + when, files, round(server.own_mb()), None, None


def _send(server: Server, files: Sequence[Named]) -> None:
    parts = [("files", named) for named in files]
    reply = server.http.post("/api/documents", params={"bulk": True}, files=parts)
    if reply.status_code != 202:
        raise RuntimeError(f"not all files were accepted: {reply.text[:500]}")


def _unread(server: Server) -> bool:
    return any(server.listed(status=status, limit=1) for status in ("queued", "reading"))


def _found(server: Server, files: Sequence[Named]) -> str:
    """How many are listed as read whole, and of some how many are found by their names."""
    whole = sum(document["status"] == "complete" for document in server.listed())
    some = random.Random(2).sample([name for name, _ in files], min(FOUND, len(files)))
    hits = sum([document["name"] for document in server.listed(name=name)] == [name] for name in some)
    return f"{whole:,} complete, {hits} of {len(some)} names"


def _lists(server: Server, files: Sequence[Named], when: str) -> Iterator[Row]:
    """Each list asked for some times."""
    words = [name.split()[0] for name, _ in files]
    asked: dict[str, Callable[[int], tuple[str, dict[str, Any]]]] = {
        "library, first page": lambda _: ("/library", {}),
        "library, by name": lambda at: ("/library", {"name": words[at]}),
        "library, sorted by name": lambda _: ("/library", {"order": "name", "direction": "up"}),
        "library, sorted by confidence": lambda _: ("/library", {"order": "confidence", "direction": "up"}),
        "library, last page": lambda _: ("/library", {"page": 1_000_000}),
        "API, first 50": lambda _: ("/api/documents", {"limit": 50}),
        "API, by name": lambda at: ("/api/documents", {"name": words[at]}),
        "API, the last 50": lambda _: ("/api/documents", {"limit": 50, "offset": len(files) - 50}),
    }
    for what, address in asked.items():
        seconds = [_timed(server, *address(at)) for at in range(REQUESTS)]
        middle, late = percentiles(seconds)
        yield what + when, len(files), None, round(middle, 1), round(late, 1)


def _timed(server: Server, path: str, params: dict[str, Any]) -> float:
    started = time.perf_counter()
    server.http.get(path, params=params).raise_for_status()
    return time.perf_counter() - started


@contextmanager
def _live_updates(server: Server) -> Generator[Callable[[], int]]:
    """Pages of the library are open and follow what is on them, while more files come in; how many events came."""
    import httpx

    counts, over = [0] * 4, threading.Event()
    ids = [document["id"] for document in server.listed(limit=50 * len(counts))]

    def follow(page: int) -> None:
        shown = ",".join(ids[50 * page : 50 * page + 50])
        with (
            suppress(httpx.RemoteProtocolError),  # the server ends before the page hears that all is over
            httpx.Client(base_url=server.http.base_url, timeout=600, trust_env=False) as http,
            http.stream("GET", "/library/live", params={"ids": shown}) as response,
        ):
            for line in response.iter_lines():
                counts[page] += line.startswith("event:")
                if over.is_set():
                    return

    def add() -> None:
        with httpx.Client(base_url=server.http.base_url, timeout=600, trust_env=False) as http:
            _send(Server(http, server.process, 0.0), list(small_files(BATCH, seed=3)))

    threads = [threading.Thread(target=follow, args=(page,), daemon=True) for page in range(len(counts))]
    for thread in threads:
        thread.start()
    adding = threading.Thread(target=add)
    adding.start()
    yield lambda: sum(counts)
    adding.join()
    over.set()


def main() -> None:
    """The command line of this figure alone."""
    from eval.bench.__main__ import default_documents

    parser = argparse.ArgumentParser(prog="python -m eval.bench.many", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--markdown", type=Path, help="also write the table as Markdown")
    given = parser.parse_args()
    table = run(default_documents(), given.files)
    table.print()
    if given.markdown:
        given.markdown.write_text(table.as_markdown(), "utf-8")


if __name__ == "__main__":
    main()
