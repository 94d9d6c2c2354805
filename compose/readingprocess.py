"""`perito worker`: a process that reads and embeds what the web process over the same stores accepts.

One such process a home for now. They meet in the catalogue, which is the queue, in the Qdrant server and in the
blob folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from assistant.core.errors import Misconfigured, StoreBusy, TransientError
from assistant.core.settings import Settings
from compose.standalone import held, make_home, open_perito

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
LOCK = "worker.lock"
LOCK_SECONDS = 1.0  # for whoever only looks whether it is held


async def work(settings: Settings) -> None:
    """Read until SIGTERM or SIGINT; what is unfinished then goes on at the next start.

    Misconfigured where the server reads by itself; StoreBusy where another worker does.
    """
    if settings.worker.where != "elsewhere":
        raise Misconfigured(
            "worker.where is here, so the server reads what it accepts, and a worker would read it again",
            'Set worker.where to "elsewhere" for the server and for the worker',
        )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await asyncio.to_thread(make_home, settings.home)
    reading = settings.model_copy(update={"worker": settings.worker.model_copy(update={"where": "here"})})
    busy = StoreBusy(f"Another worker already reads for {settings.home}", "One is enough; stop it first")
    async with held(settings.home / LOCK, LOCK_SECONDS, busy), open_perito(reading) as perito:
        log.info("The worker reads what is accepted for %s", settings.home)
        while not stopped.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), LOOK_SECONDS)
            try:
                await perito.worker.take_up()
            except TransientError as error:  # e.g. PostgreSQL is being restarted
                log.warning("the queue cannot be looked at: %s", error)
    log.info("The worker ended")
