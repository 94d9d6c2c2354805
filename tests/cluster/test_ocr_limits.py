"""What a page may do to an OCR process at its worst, and what that costs: itself, never the next page."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from assistant.core.errors import WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.readers.ocr import OcrReader
from ingestion.readers.ocrpool import OcrProcess, Reply
from tests.documents import shared
from tests.ingestion.processes import cpu_seconds, dense_page, is_busy, is_gone, page, until

pytestmark = pytest.mark.slow


async def test_a_page_that_kills_twice_is_given_up_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    run = OcrProcess.run

    def deadly(process: OcrProcess, *arguments: Any) -> Reply:
        os.kill(process.pid, signal.SIGKILL)
        return run(process, *arguments)

    reader = OcrReader(OcrSettings(processes=1))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(OcrProcess, "run", deadly)
            with pytest.raises(WorkerDied, match="signal 9, twice on the same page"):
                await reader.read(page())
        assert (await reader.read(page())).blocks
    finally:
        await reader.aclose()


async def test_a_page_that_takes_too_long_is_given_up_and_its_process_ended() -> None:
    reader = OcrReader(OcrSettings(processes=1, page_seconds=1))
    try:
        await reader.warm()
        (pid,) = reader.pids
        psutil.Process(pid).suspend()  # an endless loop would look the same
        with pytest.raises(WorkerDied, match=r"longer than 1 seconds of computing.*ocr\.page_seconds"):
            await reader.read(page())
        assert reader.pids == []
        assert is_gone(pid)
    finally:
        await reader.aclose()


async def test_a_cancelled_page_frees_its_process() -> None:
    reader = OcrReader(OcrSettings(processes=1))
    try:
        await reader.warm()
        (pid,) = reader.pids
        before = cpu_seconds(pid)
        task = asyncio.create_task(reader.read(dense_page()))
        await until(lambda: is_busy(pid, before))
        waiting = asyncio.create_task(reader.read(dense_page()))
        await asyncio.sleep(0.1)
        for cancelled in (task, waiting):
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        await until(lambda: is_gone(pid))
        assert (await reader.read(page())).blocks
    finally:
        await reader.aclose()


async def test_processes_are_replaced_after_their_pages_and_when_they_grow_too_large() -> None:
    for settings in (OcrSettings(processes=1, pages_per_process=1), OcrSettings(processes=1, memory_mb=500)):
        reader = OcrReader(settings)
        try:
            await reader.warm()
            (pid,) = reader.pids
            assert (await reader.read(page())).blocks
            await until(lambda pid=pid: is_gone(pid))
            assert reader.pids == []
        finally:
            await reader.aclose()


async def test_a_runaway_is_stopped_in_the_middle_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = OcrReader(OcrSettings(processes=1, memory_mb=500))
    monkeypatch.setattr("ingestion.readers.ocrpool.RUNAWAY_MB", -250)  # so that loading the models is running away
    monkeypatch.setattr("ingestion.children.process.TICK_SECONDS", 0.01)
    try:
        with pytest.raises(WorkerDied, match="GB of memory"):
            await reader.read(dense_page())
        assert reader.pids == []
    finally:
        await reader.aclose()


def test_no_process_outlives_a_killed_server(tmp_path: Path) -> None:
    """Killed with -9 while a page is being read: nobody is left to tidy up."""
    program = tmp_path / "server.py"
    program.write_text(
        "import asyncio, sys\n"
        "from PIL import Image\n"
        "from assistant.core.settings import OcrSettings\n"
        "from ingestion.readers.ocr import OcrReader\n"
        "async def main():\n"
        "    reader = OcrReader(OcrSettings(processes=1))\n"
        "    await reader.warm()\n"
        "    print(*reader.pids, flush=True)\n"
        "    while True:\n"
        "        await reader.read(Image.open(sys.argv[1]))\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, str(program), str(shared("scan_clean/linn.png"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}) as p:
        assert p.stdout is not None
        pid = int(p.stdout.readline())
        before = cpu_seconds(pid)
        asyncio.run(until(lambda: is_busy(pid, before)))
        p.kill()
    asyncio.run(until(lambda: is_gone(pid), seconds=10))
