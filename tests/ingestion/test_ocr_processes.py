"""What a page may do to an OCR process, and what that costs: one page's retry, never the server."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import psutil
import pytest

from assistant.core.errors import Misconfigured, WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.children.process import ROOT
from ingestion.readers.ocr import OcrReader
from ingestion.readers.ocrpool import OcrPool, usable_processes
from tests.ingestion.processes import cpu_seconds, dense_page, is_gone, kill_when_busy, page, until


async def test_a_process_killed_in_the_middle_of_a_page_costs_a_retry() -> None:
    reader = OcrReader(OcrSettings(processes=1))
    try:
        await reader.warm()
        (first,) = reader.pids
        reading = asyncio.create_task(reader.read(dense_page()))
        await kill_when_busy(first, cpu_seconds(first))
        assert "LinnSequencer" in (await reading).blocks[0].text
        (second,) = reader.pids
        assert second != first
        os.kill(second, signal.SIGKILL)  # while it has nothing to do: that is no page's fault
        await until(lambda: is_gone(second))
        assert (await reader.read(page())).blocks
    finally:
        await reader.aclose()


async def test_a_process_killed_while_it_starts_costs_no_page() -> None:
    reader = OcrReader(OcrSettings(processes=1))
    try:
        reading = asyncio.create_task(reader.read(page()))
        await until(lambda: bool(reader.pids))
        (first,) = reader.pids
        os.kill(first, signal.SIGKILL)
        assert (await reading).blocks
        assert reader.pids != [first]
    finally:
        await reader.aclose()


def test_children_are_shown_where_the_package_lies_and_not_into_it() -> None:
    """Else its modules would stand in for libraries of the same names."""
    assert (ROOT / "ingestion" / "__init__.py").is_file()


async def test_a_reader_without_models_says_so() -> None:
    reader = OcrReader(OcrSettings(processes=1, models="/nowhere"))
    try:
        with pytest.raises(Misconfigured, match=r"ocr\.models names /nowhere"):
            await reader.read(page())
        assert reader.pids == []
    finally:
        await reader.aclose()


async def test_a_closed_reader_reads_no_more_and_leaves_nothing() -> None:
    reader = OcrReader(OcrSettings(processes=1))
    await reader.warm()
    pids = reader.pids
    await reader.aclose()
    assert all(is_gone(pid) for pid in pids)
    with pytest.raises(WorkerDied):
        await reader.read(page())


async def test_the_event_loop_goes_on_while_pages_are_read(ocr_reader: OcrReader) -> None:
    await ocr_reader.warm()
    reading = asyncio.create_task(ocr_reader.read(dense_page()))
    longest = 0.0
    while not reading.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    assert (await reading).blocks
    assert longest < 1.0  # a page takes seconds


async def test_warming_again_starts_nothing_more(ocr_reader: OcrReader) -> None:
    await ocr_reader.warm()
    pids = set(ocr_reader.pids)
    await ocr_reader.warm()
    assert set(ocr_reader.pids) == pids
    assert len(pids) == ocr_reader.processes == 2


def test_processes_are_as_many_as_cores_and_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OcrPool(OcrSettings(processes=3)).size == 3
    monkeypatch.setattr("ingestion.readers.ocrpool.usable_cores", lambda: 64)
    room = psutil.virtual_memory()._replace(total=8_000_000_000)
    monkeypatch.setattr("psutil.virtual_memory", lambda: room)
    assert usable_processes() == 5
