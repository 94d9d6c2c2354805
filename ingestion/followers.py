"""Who follows documents while they are read, in this process or in another.

What happens here is told at once; what happens in another process is seen by looking into the catalogue. Whoever does
not keep up misses the oldest pages, never the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator
from dataclasses import replace

from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Access, Document, DocumentStatus
from assistant.core.errors import NotFound
from assistant.core.ports import Progress

LOOK_SECONDS = 0.5
KEPT = 256  # steps not yet taken by who follows; then the oldest is dropped

Steps = asyncio.Queue[Progress | None]


class Followers:
    """For one event loop."""

    def __init__(self, catalogue: SqlCatalogue) -> None:
        self._catalogue = catalogue
        self._steps: dict[str, set[Steps]] = defaultdict(set)

    def tell(self, document_id: str, progress: Progress | None) -> None:
        """Pass ``progress`` on to whoever follows the document; None: there is none any more."""
        for steps in self._steps.get(document_id, ()):
            if steps.full():
                steps.get_nowait()
            steps.put_nowait(progress)

    async def follow(self, document_id: str, access: Access, read_here: bool) -> AsyncGenerator[Progress]:
        """What happens to a document, from now until its end (the last one is final). ``read_here``: all of it is
        told, so that nobody has to look. NotFound, also when it is deleted meanwhile."""
        steps: Steps = asyncio.Queue(KEPT)
        self._steps[document_id].add(steps)
        try:
            document, seen = await asyncio.to_thread(self._look, document_id, access)
            yield Progress(document)
            while not document.status.is_final:
                progress = await self._next(steps, read_here)
                if progress is not None:
                    seen |= {progress.page.number} if progress.page else set[int]()
                    document = progress.document
                    yield progress
                    continue
                before, known = document, seen
                document, seen = await asyncio.to_thread(self._look_again, before, known, access)
                for number in sorted(seen - known):
                    page = await asyncio.to_thread(self._catalogue.page, document_id, number, access)
                    yield Progress(replace(document, status=DocumentStatus.READING), page)  # the last comes below
                if document != before:
                    yield Progress(document)
        finally:
            self._steps[document_id].discard(steps)
            if not self._steps[document_id]:
                self._steps.pop(document_id, None)

    async def _next(self, steps: Steps, read_here: bool) -> Progress | None:
        """What is told next; None when it is time to look."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if read_here else LOOK_SECONDS):
                return await steps.get()
        return None

    def _look(self, document_id: str, access: Access) -> tuple[Document, set[int]]:
        document = self._catalogue.document(document_id, access)
        return document, self._catalogue.pages_done(document_id)

    def _look_again(self, before: Document, known: set[int], access: Access) -> tuple[Document, set[int]]:
        """The document as it is now, and the numbers of its pages that ended; only looked for where any did."""
        try:
            document = self._catalogue.document(before.id, access)
            if document.pages_done == before.pages_done:
                return document, known
            return document, self._catalogue.pages_done(before.id)
        except NotFound:
            raise NotFound(f"{before.name} was deleted", "See the list of documents for what there is") from None
