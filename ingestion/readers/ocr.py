"""The OCR reader: PaddleOCR behind the kernel's ``ImageReader``, in processes of its own.

Nothing of the OCR is loaded into the process that calls: pictures go to worker processes and readings come
back, so that the event loop never waits and a page that crashes the OCR costs that page a retry, not the server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from assistant.core.domain import Box, Reading, Word
from assistant.core.errors import WorkerDied
from assistant.core.settings import OcrSettings
from ingestion.readers.ocrpool import Job, OcrPool

if TYPE_CHECKING:
    from PIL.Image import Image


_loading = threading.Lock()  # Pillow decodes lazily, and not the same picture from two threads


class OcrReader:
    """Reads pictures with PaddleOCR. Usable from several threads and event loops at once; ``aclose`` ends it."""

    def __init__(self, settings: OcrSettings) -> None:
        self._pool = OcrPool(settings)

    @property
    def processes(self) -> int:
        """How many pages are read at the same time, at most."""
        return self._pool.size

    @property
    def pids(self) -> list[int]:
        """The processes there are now (they start when first needed)."""
        return self._pool.pids

    async def read(self, image: Image, regions: Sequence[Box] = ()) -> Reading:
        """What stands on ``image`` (any size and mode), or only in ``regions`` of it (fractions of the image
        as given). The blocks come in reading order; their boxes are fractions of the upright image, which is
        ``image`` turned clockwise by ``Reading.turned``. WorkerDied; Misconfigured."""
        return await self._run(image, "read", tuple(regions), ())

    async def structure(self, image: Image, words: Sequence[Word]) -> Reading:
        """Layout and tables of ``image`` with another reader's ``words``: blocks of reader TEXT. The page is
        not turned. WorkerDied; Misconfigured."""
        return await self._run(image, "structure", (), tuple(words))

    async def warm(self) -> None:
        """Start all processes and load their models. WorkerDied; Misconfigured."""
        await asyncio.gather(*(asyncio.wrap_future(future) for future in self._pool.warm()))

    async def aclose(self) -> None:
        """End all processes."""
        await asyncio.to_thread(self._pool.close)

    def close(self) -> None:
        """End all processes, for callers without an event loop."""
        self._pool.close()

    async def _run(self, image: Image, task: str, regions: tuple[Box, ...], words: tuple[Word, ...]) -> Reading:
        pixels = await asyncio.to_thread(_pixels, image)
        job = Job(task, image.width, image.height, regions, words)
        cancelled = threading.Event()
        try:
            future: Future[Reading] = self._pool.submit(job, pixels, cancelled)
        except RuntimeError:  # the pool is closed
            raise WorkerDied("The OCR was ended", "Read the document again after the next start") from None
        try:
            return await asyncio.wrap_future(future)
        finally:
            cancelled.set()  # frees the process at once when the caller was cancelled


def _pixels(image: Image) -> bytes:
    """The picture on white, as RGB bytes row by row."""
    import PIL.Image

    with _loading:
        image.load()
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", rgba.size, "white"), rgba)
    return image.convert("RGB").tobytes()
