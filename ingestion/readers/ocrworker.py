"""An OCR process: ``python -m ingestion.readers.ocrworker SOCKET``, started by ``ocrpool`` and by nobody else.

It takes jobs from the socket one by one and answers each. When the socket's other end is gone, the server is,
and so it ends, also in the middle of a page.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np

from assistant.core.domain import Reading
from assistant.core.errors import PeritoError, WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.readers.ocrpool import Job, Reply
from ingestion.readers.ocrwire import Channel

if TYPE_CHECKING:
    from ingestion.readers.ocrpage import PageReader

log = logging.getLogger(__name__)

Task = tuple[Job, bytearray]


def main(descriptor: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to answer; it then closes the socket
    os.nice(2)  # answering people goes a little before reading pages
    logging.disable(logging.INFO)  # the libraries' chatter; what is left is kept for the log should we crash
    channel = Channel(socket.socket(fileno=descriptor))
    settings: OcrSettings = pickle.loads(channel.receive())
    reader = _open(channel, settings)
    if reader is None:
        return
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, tasks), daemon=True).start()
    for _ in reader.warm():  # while there is nothing better to do
        if not tasks.empty():
            break
    while True:
        job, pixels = tasks.get()
        _reply(channel, *_work(reader, job, pixels))


def _listen(channel: Channel, tasks: queue.SimpleQueue[Task]) -> None:
    """Pass jobs on; end the process at once when the server is gone, whatever page it is at."""
    try:
        while True:
            job: Job = pickle.loads(channel.receive())
            tasks.put((job, channel.receive()))
    except EOFError:
        os._exit(0)


def _open(channel: Channel, settings: OcrSettings) -> PageReader | None:
    from ingestion.readers.ocrpage import PageReader

    try:
        reader = PageReader.open(settings.models)
    except PeritoError as error:
        _reply(channel, None, error)
        return None
    _reply(channel, None, None)
    return reader


def _work(reader: PageReader, job: Job, pixels: bytearray) -> tuple[Reading | None, PeritoError | None]:
    image = np.frombuffer(pixels, np.uint8).reshape(job.height, job.width, 3)
    try:
        if job.task == "structure":
            return reader.structure(image, job.words), None
        return reader.read(image, job.regions), None
    except PeritoError as error:
        return None, error
    except MemoryError:
        os._exit(70)  # a fresh process may have the room
    except Exception as error:
        log.exception("a page of %s x %s pixels could not be read", job.width, job.height)
        return None, WorkerDied(
            f"The OCR failed on the page: {type(error).__name__}: {error}", "Report it with the page, please"
        )


def _reply(channel: Channel, reading: Reading | None, error: PeritoError | None) -> None:
    import psutil

    resident = psutil.Process().memory_info().rss
    try:
        channel.send(pickle.dumps(Reply(reading, error, resident)))
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
