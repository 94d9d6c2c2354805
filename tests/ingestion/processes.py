"""Child processes seen from a test, what it takes to kill one in the middle of its work, and the pages it reads."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import psutil
from PIL import Image

from tests.documents import shared


def page() -> Image.Image:
    """A receipt, read in a second."""
    return Image.open(shared("scan_hard/sroie_316.jpg")).convert("RGB")


def dense_page() -> Image.Image:
    """Takes seconds."""
    return Image.open(shared("scan_clean/linn.png")).convert("RGB")


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


def is_busy(pid: int, before: float) -> bool:
    """Whether it has computed for a while since it had computed for ``before`` seconds."""
    try:
        return cpu_seconds(pid) > before + 0.3
    except psutil.Error:
        return False


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def kill_when_busy(pid: int, before: float) -> None:
    await until(lambda: is_busy(pid, before))
    os.kill(pid, signal.SIGKILL)
