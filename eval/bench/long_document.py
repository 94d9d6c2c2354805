"""A thousand text pages in one file: does memory stay flat, and the last page as quick as the first?"""

from __future__ import annotations

import tempfile
import time
from itertools import cycle
from pathlib import Path

from pypdfium2 import PdfDocument

from eval.bench._server import running_server
from eval.bench.table import Table

PAGES = 1000
WINDOW = 100
SOURCES = (
    "digital_text/es_aeat_modelo190_instrucciones.pdf",
    "digital_text/bws_book_ch2.pdf",
    "digital_text/es_aeat_modelo202_instrucciones.pdf",
)


def run(documents: Path) -> Table:
    """Pages a second at the beginning and the end, and the growth of the server's resident memory."""
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        warm = repeated(documents, Path(folder) / "warm.pdf", 20)
        for _ in server.progress(server.add(warm)["id"]):
            pass
        before = peak = server.resident_mb()
        long = repeated(documents, Path(folder) / "long.pdf", PAGES)
        document = server.add(long)
        times: list[float] = []
        for progress in server.progress(document["id"]):
            if progress["page"]:
                times.append(time.perf_counter())
                peak = max(peak, server.resident_mb()) if len(times) % 20 == 0 else peak
        ended = max(peak, server.resident_mb())
    first = WINDOW / (times[WINDOW + 10] - times[10])
    last = WINDOW / (times[-1] - times[-1 - WINDOW])
    row = (len(times), first, last, first / last, ended - before, before)
    columns = ("pages", "pages/s, first", "pages/s, last", "first/last", "memory growth MB", "before MB")
    notes = (
        f"First: pages 10 to {WINDOW + 10}; last: the last {WINDOW}. Dense vectors follow in the background meanwhile.",
        "Memory: resident size of the server's process, without its OCR processes.",
    )
    goal = "growth under 300 MB; no slower at the end"
    return Table("long_document", "1,000 text pages in one file", columns, [row], notes, goal)


def repeated(documents: Path, path: Path, pages: int) -> Path:
    """A PDF of ``pages`` pages that takes the sources in turn."""
    with PdfDocument.new() as target:
        for name in cycle(SOURCES):
            missing = pages - len(target)
            if missing <= 0:
                break
            with PdfDocument(documents / name) as source:
                target.import_pages(source, list(range(min(missing, len(source)))))
        target.save(path)
    return path
