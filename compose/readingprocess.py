"""`perito worker`: a process that reads and embeds what is accepted for the same catalogue, on this host or another.

Any number of them may run. They share the catalogue (which holds the queue), the Qdrant server and the blob folder.
"""

from __future__ import annotations

import asyncio
import logging
import signal

from assistant.core.errors import Misconfigured
from assistant.core.settings import Settings
from compose.standalone import open_perito

log = logging.getLogger(__name__)


async def work(settings: Settings) -> None:
    """Read until SIGTERM or SIGINT; what is unfinished then goes on elsewhere, or at the next start.

    Misconfigured where the index cannot be shared.
    """
    if settings.index.kind != "server":
        raise Misconfigured(
            "The index lives in the server's process, where no worker beside it can write to it",
            'Set index.kind to "server" and index.url to a Qdrant server, for the server and for the worker',
        )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    reading = settings.model_copy(update={"worker": settings.worker.model_copy(update={"where": "here"})})
    async with open_perito(reading):
        log.info("The worker reads what is accepted for %s", settings.home)
        await stopped.wait()
    log.info("The worker ended")
