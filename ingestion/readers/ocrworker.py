"""An OCR process: ``python -m ingestion.readers.ocrworker SOCKET``, started by ``ocrpool`` and by nobody else.

It takes jobs from the socket one by one and answers each. When the socket's other end is gone, the server is,
and so it ends, also in the middle of a page.
"""

from __future__ import annotations

import logging
import pickle
import sys
from typing import TYPE_CHECKING

import numpy as np

from assistant.core.domain import Reading
from assistant.core.errors import PeritoError, WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.children import program
from ingestion.children.wire import Channel
from ingestion.readers.ocrpool import Job, Reply

if TYPE_CHECKING:
    from ingestion.readers.ocrpage import PageReader

log = logging.getLogger(__name__)

DONE = object()


def main(descriptor: int) -> None:
    channel = program.begin(descriptor)
    settings: OcrSettings = pickle.loads(channel.receive())
    reader = _open(channel, settings)
    if reader is None:
        return
    tasks = program.orders(channel, parts=2)
    warming = reader.warm()
    while True:
        while tasks.empty() and next(warming, DONE) is not DONE:  # while there is nothing better to do
            pass
        job, pixels = tasks.get()
        _reply(channel, *_work(reader, pickle.loads(job), pixels))


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
        program.end_without_memory()  # a fresh process may have the room
    except Exception as error:
        log.exception("a page of %s x %s pixels could not be read", job.width, job.height)
        return None, WorkerDied(
            f"The OCR failed on the page: {type(error).__name__}: {error}", "Report it with the page, please"
        )


def _reply(channel: Channel, reading: Reading | None, error: PeritoError | None) -> None:
    import psutil

    resident = psutil.Process().memory_info().rss
    program.answer(channel, pickle.dumps(Reply(reading, error, resident)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
