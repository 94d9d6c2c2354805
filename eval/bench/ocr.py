"""How fast and how right the OCR is: our reader against plain PaddleOCR with its defaults, same pages, one run.

``python -m eval.bench.ocr --all`` takes every page whose text is known instead of a sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from assistant.core.domain import Block, BlockKind, Box, PageReading, PageStatus, Reader, Reading, Receipt
from assistant.core.settings import LimitSettings, OcrSettings
from eval.bench.table import Cell, Table
from eval.metrics.cer import Errors, errors_by_line
from eval.parsing import Truth, load_truths
from ingestion.readers.ocr import OcrReader
from ingestion.sources import open_source

KINDS = ("hand_read", "text_layer", "sroie")
SAMPLE = {"hand_read": 4, "text_layer": 3, "sroie": 5}
HANDWRITTEN = ("handwriting/", "photo/jscanify_test10.jpg")  # hand_read also holds handwriting: not OCR's to read
PROCESSES = 2
WARM_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its truth, as a picture on disk."""

    truth: Truth
    picture: Path


@dataclass(slots=True)
class Measured:
    """What an engine made of the pages, and what that took."""

    name: str
    pages: list[PageReading] = field(default_factory=list[PageReading])
    wall: float = 0.0
    cpu: float = 0.0
    resident: int = 0  # bytes, all processes together, at most
    turned: list[bool] = field(default_factory=list[bool])


def run(documents: Path, everything: bool = False) -> Table:
    """Pages a minute, CPU-seconds a page, character errors and memory of both."""
    with tempfile.TemporaryDirectory() as folder:
        pages = list(_pages(documents, Path(folder), everything))
        ours = asyncio.run(_ours(pages))
        plain = _plain(pages)
    upright = [not turned for turned in ours.turned]
    rows = [_row(engine, pages, upright, plain) for engine in (plain, ours)]
    return Table(
        name="ocr",
        title=f"OCR of {len(pages)} pages with known text, {'all of them' if everything else 'a sample'}",
        columns=(
            "engine", "pages/min", "times", "CPU-s/page", "times less", *(f"CER % {kind}" for kind in KINDS), "MB",
        ),
        rows=rows,
        notes=(
            "plain: PaddleOCR's defaults with PP-OCRv6 small on ONNX Runtime, one process, all cores",
            f"ours: {PROCESSES} processes with one OCR thread each, models loaded; layout, tables and orientation "
            "are part of it",
            f"{sum(ours.turned)} pages that had to be turned count for speed, not for errors: plain does not turn",
            "MB: resident, largest sum over the engine's processes",
        ),
        goal="3 times the pages a minute, CER at most 0.2 points above plain, under 3,000 MB",
    )  # fmt: skip


def _row(engine: Measured, pages: Sequence[Page], upright: Sequence[bool], plain: Measured) -> list[Cell]:
    rates: list[Cell] = []
    for kind in KINDS:
        found = [
            errors_of(page.truth, reading)
            for page, reading, stands in zip(pages, engine.pages, upright, strict=True)
            if stands and page.truth.kind == kind
        ]
        rate = sum(found, Errors(0, 0)).rate
        rates.append(None if rate is None else round(100 * rate, 2))
    return [
        engine.name,
        round(60 * len(pages) / engine.wall, 1),
        round(plain.wall / engine.wall, 2),
        round(engine.cpu / len(pages), 2),
        round(plain.cpu / engine.cpu, 2),
        *rates,
        round(engine.resident / 1e6),
    ]


def errors_of(truth: Truth, page: PageReading) -> Errors:
    """Errors whatever the order of the lines on the page: reading order is measured elsewhere, and plain
    PaddleOCR has none."""
    if truth.lines or truth.region is not None:
        return truth.errors(page)
    return errors_by_line(truth.text.splitlines(), page.text)


def _pages(documents: Path, folder: Path, everything: bool) -> list[Page]:
    pages: list[Page] = []
    for kind in KINDS:
        truths = [
            truth
            for truth in load_truths(documents)
            if truth.kind == kind and not any(part in truth.file.as_posix() for part in HANDWRITTEN)
        ]
        step = 1 if everything else max(1, len(truths) // SAMPLE[kind])
        chosen = truths if everything else truths[min(1, step - 1) :: step][: SAMPLE[kind]]
        for truth in chosen:
            picture = folder / f"{len(pages)}.png"
            _picture(truth).save(picture, compress_level=1)
            pages.append(Page(truth, picture))
    return pages


def _picture(truth: Truth) -> Image.Image:
    limits = LimitSettings()  # pyright: ignore[reportCallIssue]
    with open_source(truth.file, limits=limits) as source:
        return source.page(truth.page).render(OcrSettings().dpi).convert("RGB")  # pyright: ignore[reportCallIssue]


async def _ours(pages: Sequence[Page]) -> Measured:
    measured = Measured("ours")
    reader = OcrReader(OcrSettings(processes=PROCESSES, page_seconds=600))  # pyright: ignore[reportCallIssue]
    try:
        await reader.warm()
        first = Image.open(pages[0].picture)
        await asyncio.sleep(WARM_SECONDS)  # a server's processes are idle before the first page, and use it
        await asyncio.gather(*(reader.read(first) for _ in range(PROCESSES)))
        with _Watched(reader) as watched:
            wall = time.perf_counter()
            readings = await asyncio.gather(*(reader.read(Image.open(page.picture)) for page in pages))
            measured.wall = time.perf_counter() - wall
        measured.cpu, measured.resident = watched.cpu, watched.resident
    finally:
        await reader.aclose()
    measured.pages = [_page(reading.blocks) for reading in readings]
    measured.turned = [bool(reading.turned) for reading in readings]
    return measured


class _Watched:
    """CPU-seconds and largest resident memory of a reader's processes while the block runs."""

    def __init__(self, reader: OcrReader) -> None:
        self._reader = reader
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._spent: dict[int, float] = {}
        self.cpu = 0.0
        self.resident = 0

    def __enter__(self) -> _Watched:
        self._before = self._cpu_seconds()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.cpu = self._cpu_seconds() - self._before

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        """Of all the reader's processes so far, those that were replaced included."""
        resident = 0
        for pid in self._reader.pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                times = process.cpu_times()
                self._spent[pid] = times.user + times.system
                resident += process.memory_info().rss
        self.resident = max(self.resident, resident)
        return sum(self._spent.values())


def _plain(pages: Sequence[Page]) -> Measured:
    """One process after ours has ended, so that they do not share the cores."""
    command = [sys.executable, "-m", "eval.bench._paddle", *(str(page.picture) for page in pages)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    measured = Measured("plain")
    for found in map(json.loads, done.stdout.splitlines()):
        measured.wall += found["wall"]
        measured.cpu += found["cpu"]
        measured.resident = max(measured.resident, found["resident"])
        measured.pages.append(_page(tuple(_line_block(line) for line in found["lines"])))
    return measured


def _line_block(line: dict[str, Any]) -> Block:
    return Block(BlockKind.PARAGRAPH, line["text"], Box.of(*line["box"]), min(1.0, line["score"]), Reader.OCR)


def _page(blocks: tuple[Block, ...]) -> PageReading:
    reading = Reading(Reader.OCR, blocks, 0.0, 0.0)
    return PageReading(1, Reader.OCR, PageStatus.READ, 0.0, reading.blocks, Receipt(""), 0.0)


if __name__ == "__main__":
    from eval.bench.__main__ import default_documents

    run(default_documents(), everything="--all" in sys.argv[1:]).print()
