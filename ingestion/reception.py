"""Accepting for a worker in another process: what is stored and queued here, `perito worker` reads.

Both processes share the catalogue, the index on its server and the blob folder. The catalogue is the queue, and
the only way the two talk: progress is seen by looking at it, and a deletion by finding nothing there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from assistant.core.domain import Access, Document, DocumentStatus
from assistant.core.errors import NotFound, StoreBusy
from assistant.core.ports import Progress
from ingestion.worker import Worker

LOOK_SECONDS = 0.5
REMOVAL_TRIES = 20  # the other process writes at most a page or two before it notices


class Reception(Worker):
    """Implements the kernel's ``Ingestion`` without reading or embedding: only pictures in the chat are read here."""

    async def start(self) -> None:
        """Nothing: the other process takes up what is unfinished."""

    async def drain(self) -> None:
        """Nothing: no reading and no embedding is left to this process."""

    async def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        """As ``Worker.progress``, seen in the catalogue twice a second."""
        document, seen = await asyncio.to_thread(self._look, document_id, access)
        yield Progress(document)
        while not document.status.is_final:
            await asyncio.sleep(LOOK_SECONDS)
            before, known = document, seen
            try:
                document, seen = await asyncio.to_thread(self._look, document_id, access, before, known)
                for number in sorted(seen - known):
                    page = await asyncio.to_thread(self._catalogue.page, document_id, number, access)
                    yield Progress(replace(document, status=DocumentStatus.READING), page)  # the last comes below
            except NotFound:
                raise NotFound(f"{before.name} was deleted", "See the list of documents for what there is") from None
            if document != before:
                yield Progress(document)

    def _look(
        self, document_id: str, access: Access, before: Document | None = None, known: frozenset[int] = frozenset()
    ) -> tuple[Document, frozenset[int]]:
        """The document as it is now, and the numbers of its pages that ended; only looked for where any did."""
        document = self._catalogue.document(document_id, access)
        if before is not None and document.pages_done == before.pages_done:
            return document, known
        return document, frozenset(self._catalogue.pages_done(document_id))

    def _launch(self, document: Document) -> None:
        """Nothing: that it stands in the catalogue is enough for the other process to find it."""

    async def _remove(self, document_id: str, access: Access) -> None:
        """First what may be refused and then tried again; once the rows are gone, the other process's writes are
        refused and it withdraws what it published last. Here, what it published before."""

        def remove() -> None:
            self._publisher.withdraw(document_id, verify=False)
            self._discard(self._catalogue.delete_document(document_id, access))

        await asyncio.to_thread(remove)
        for tries_left in reversed(range(REMOVAL_TRIES)):
            try:
                return await asyncio.to_thread(self._publisher.withdraw, document_id)
            except StoreBusy:
                if not tries_left:
                    raise
                await asyncio.sleep(LOOK_SECONDS / 5)
