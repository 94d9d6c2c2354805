"""How dear the text reader is: file to blocks, held against PDFium's own text with boxes on the same pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from assistant.core.settings import LimitSettings, TriageSettings
from eval.bench.table import Table
from ingestion.readers.text import read_text
from ingestion.sources import Source, open_source
from ingestion.triage import plan_page

KINDS = ("digital_text", "multicolumn", "tables")
_PAGES_A_FILE = 4
_GOAL = 8
LIMITS = LimitSettings()  # pyright: ignore[reportCallIssue]
TRIAGE = TriageSettings()  # pyright: ignore[reportCallIssue]


def run(documents: Path) -> Table:
    """Median CPU milliseconds a page by kind of document, and the ratio within the same run.

    "ours" opens a page, takes its lines, rulings and pictures, checks that they are seen, plans its route and
    makes blocks of it; the layout model is not part of it. "PDFium" loads the page and asks for the rectangles
    of its text and the text in each.
    """
    measured = {kind: list(_measured(documents / kind)) for kind in KINDS}
    rows = [_row(kind, found) for kind, found in measured.items()]
    everything = [figure for found in measured.values() for figure in found]
    rows.append(_row("all", everything))
    return Table(
        name="text_pages",
        title="Text pages, file to blocks",
        columns=("kind", "pages", "PDFium ms", "ours ms", "median ratio", "95 % ratio"),
        rows=rows,
        notes=("CPU milliseconds of one thread, medians; the ratio is taken page by page.",),
        goal=f"median ratio at most {_GOAL}",
    )


def _row(kind: str, found: list[tuple[float, float]]) -> tuple[str, int, float, float, float, float]:
    ratios = sorted(ours / theirs for theirs, ours in found)
    return (
        kind,
        len(found),
        round(1000 * median(theirs for theirs, _ in found), 1),
        round(1000 * median(ours for _, ours in found), 1),
        round(median(ratios), 2),
        round(ratios[int(0.95 * (len(ratios) - 1))], 2),
    )


def _measured(folder: Path) -> Iterator[tuple[float, float]]:
    """(PDFium, ours) in CPU seconds for the first pages of every PDF that has text of its own."""
    import pypdfium2 as pdfium

    for file in sorted(folder.glob("*.pdf")):
        document = pdfium.PdfDocument(file)
        with open_source(file, limits=LIMITS) as source:
            for number in range(1, min(len(document), _PAGES_A_FILE) + 1):
                if not source.page(number).lines:  # a first visit, so that neither side pays for the file's fonts
                    continue
                yield _theirs(document, number), _ours(source, number)
        document.close()


def _theirs(document: Any, number: int) -> float:
    begun = time.process_time()
    page = document[number - 1]
    textpage = page.get_textpage()
    for index in range(textpage.count_rects()):
        textpage.get_text_bounded(*textpage.get_rect(index))
    textpage.close()
    page.close()
    return max(1e-6, time.process_time() - begun)


def _ours(source: Source, number: int) -> float:
    begun = time.process_time()
    page = source.page(number)
    plan_page(page, TRIAGE)
    read_text(page)
    return time.process_time() - begun
