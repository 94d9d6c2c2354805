"""One document from its lease to its end: page by page it is read and published, and at last it says how it ended.

Everything is written under the lease. Where it was lost meanwhile, nothing is written to the catalogue, and what went
into the index is put in doubt, so that whoever has the document now looks it through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Document, DocumentStatus, PageReading, Usage
from assistant.core.errors import LeaseLost, PeritoError, TransientError
from assistant.core.ports import Progress, Upload
from assistant.core.queue import Claim
from ingestion.gates import Turn
from ingestion.openfiles import FilePool
from ingestion.parts import EVERYTHING, Parts
from ingestion.pipeline import Pipeline
from ingestion.publish import Cuts, Publisher
from ingestion.threads import to_its_end

log = logging.getLogger(__name__)

DEATHS = 3  # of the process while it read a document and got no page or part further; then it is left alone
CUTS_KEPT = 32  # documents of which it is remembered how they were cut, while others have their turn

_being_read: ContextVar[Document | None] = ContextVar("being_read", default=None)


@dataclass(eq=False, slots=True)
class Run:
    """A document that is being read here. ``is_held`` says whether nobody else may have it by now. ``steps_back``: it
    is to begin no further page. ``leaves``: its lease is being given back."""

    claim: Claim
    turn: Turn
    is_held: Callable[[], bool]
    begun: float = field(default_factory=time.monotonic)
    steps_back: bool = False
    leaves: bool = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def goes_on(self) -> bool:
        """Whether another page may be begun. Where somebody else may have the document by now, it is given back, so
        that the lease is looked at before anything is read for nothing."""
        if not self.is_held():
            self.steps_back = True
        return not self.steps_back


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the worker does for its runs: tell who follows, remove what is replaced, take in what lay in a file."""

    tell: Callable[[str, Progress], None]
    drop_older: Callable[[Document], Awaitable[None]]
    accept_part: Callable[[Upload], Awaitable[None]]


class Runner:
    """Reads documents under their leases. For one event loop."""

    def __init__(
        self,
        pipeline: Pipeline,
        publisher: Publisher,
        catalogue: SqlCatalogue,
        blobs: FolderBlobStore,
        files: FilePool,
        parts: Parts,
        hooks: Hooks,
    ) -> None:
        self._pipeline = pipeline
        self._publisher = publisher
        self._catalogue = catalogue
        self._blobs = blobs
        self._files = files
        self._parts = parts
        self._hooks = hooks
        self._tell = hooks.tell
        self._cuts: OrderedDict[tuple[str, int], Cuts] = OrderedDict()

    async def run(self, run: Run) -> None:
        """Read it to its end, or until it is to step back, or write down why it cannot be read.

        TransientError; LeaseLost; NotFound when the document is gone.
        """
        name = run.claim.document.name
        try:
            await self._read(run)
        except (TransientError, LeaseLost):
            raise
        except PeritoError as error:
            await self._end(run, DocumentStatus.FAILED, str(error))
        except Exception as error:  # a bad document never kills the worker
            log.exception("%s could not be read", name)
            message = f"{name} could not be read: {type(error).__name__}: {error}."
            await self._end(run, DocumentStatus.FAILED, message)

    async def tidy(self, document: Document) -> None:
        """Look the index of an ended document through: what stands there is what its pages say."""
        done = await asyncio.to_thread(self._catalogue.pages_done, document.id)
        await to_its_end(self._publisher.finish_document, document, sorted(done), self._pages(document.id), Cuts())

    # -- reading ------------------------------------------------------------------------------

    async def _read(self, run: Run) -> None:
        document = run.claim.document
        _being_read.set(document)
        self._tell(document.id, Progress(document))
        path = await asyncio.to_thread(self._blobs.path, run.claim.blob)
        done = await asyncio.to_thread(self._catalogue.pages_done, document.id)
        if run.claim.deaths >= DEATHS:
            await self._give_up(run, document, done)
            return
        cuts = self._cuts_of(run.claim)
        with self._files.open(path, name=document.name) as file:
            marked = await asyncio.to_thread(self._catalogue.marked, document.id) if document.has_looks else ()
            pages = self._pipeline.read_document(file, done, run.turn, run.goes_on, marked)
            async with contextlib.aclosing(pages):
                async for page in pages:
                    document = await to_its_end(self._publish, run.claim, page, cuts)
                    self._tell(document.id, Progress(document, page))
            if run.steps_back and document.pages_done < document.pages:
                await self._step_back(run)
                return
            parts = await self._parts.take(document, file, lambda part: self._accept_part(run, part))
        damage = file.about.result().damage
        error = await asyncio.to_thread(self._first_error, document.id) if document.pages_failed else ""
        error = " ".join(filter(None, (damage, error, parts.told)))
        await self._end(run, ending(document, whole=not damage and not parts.lost), error, cuts)

    async def _accept_part(self, run: Run, part: Upload) -> None:
        await asyncio.to_thread(self._catalogue.queue.check, run.claim.lease)  # who removes it, takes it away first
        await self._hooks.accept_part(replace(part, urgency=run.claim.urgency))

    def _publish(self, claim: Claim, page: PageReading, cuts: Cuts) -> Document:
        """The page becomes answerable, then its row says that it is done: never the other way round."""
        self._catalogue.queue.check(claim.lease)
        with self._doubting(claim):
            self._publisher.publish_page(claim.document, page, cuts)
            self._catalogue.put_page(claim.document.id, page, claim.lease)
        return self._catalogue.document(claim.document.id, EVERYTHING)

    async def _step_back(self, run: Run) -> None:
        run.leaves = True
        await to_its_end(self._catalogue.queue.step_back, run.claim.lease, run.seconds)

    # -- ending -------------------------------------------------------------------------------

    async def _give_up(self, run: Run, document: Document, done: Collection[int]) -> None:
        """End a document that ends the process."""
        status = DocumentStatus.PARTIAL if document.pages_done > document.pages_failed else DocumentStatus.FAILED
        error = (
            f"Perito itself ended {DEATHS} times while it read {document.name}, and got no further than "
            f"{len(done)} of {document.pages} pages. Read it again, or save it anew in the program that "
            "made it and send that copy."
        )
        await self._end(run, status, error, Cuts())

    async def _end(self, run: Run, status: DocumentStatus, error: str, cuts: Cuts | None = None) -> None:
        """Publish the whole, where there are ``cuts`` of it, now that every page is known; then say how it ended."""
        document_id = run.claim.document.id
        while True:
            doubts = None if cuts is None else await to_its_end(self._finish, run.claim, cuts)
            document = await asyncio.to_thread(self._catalogue.document, document_id, EVERYTHING)
            if status is DocumentStatus.COMPLETE:  # before it says so: after a crash in between it is ended once more
                await self._hooks.drop_older(document)
            document = replace(document, status=status, error=error, seconds=document.seconds + run.seconds)
            run.leaves = True
            if await to_its_end(self._catalogue.queue.end, run.claim.lease, document, doubts):
                break
            cuts, run.leaves = Cuts(), False
        self._cuts.pop((document_id, run.claim.generation), None)
        read = document.pages_done - document.pages_failed
        log.info("%s: %s, %d of %d pages read", document.name, status, read, document.pages)
        self._tell(document_id, Progress(document))

    def _finish(self, claim: Claim, cuts: Cuts) -> int:
        """Publish the whole; how many doubts about the index that dispels."""
        doubts = self._catalogue.queue.check(claim.lease)
        numbers = sorted(self._catalogue.pages_done(claim.document.id))
        with self._doubting(claim):
            pages = self._pages(claim.document.id)
            self._publisher.finish_document(claim.document, numbers, pages, Cuts() if doubts else cuts)
            self._catalogue.queue.check(claim.lease)
        return doubts

    @contextlib.contextmanager
    def _doubting(self, claim: Claim) -> Generator[None]:
        """Who finds the lease lost after writing to the index says so to whoever has the document now."""
        try:
            yield
        except LeaseLost:
            self._catalogue.queue.doubt(claim.document.id)
            raise

    def _first_error(self, document_id: str) -> str:
        failed = [page for page in self._catalogue.pages(document_id, EVERYTHING) if page.error]
        numbers = ", ".join(str(page.number) for page in failed[:10]) + (", …" if len(failed) > 10 else "")
        return f"Not read: page {numbers}. {failed[0].error}" if failed else ""

    # -- what is known of a document ----------------------------------------------------------

    def _cuts_of(self, claim: Claim) -> Cuts:
        """How its pages were cut here since it was last asked for, if that is still known."""
        key = (claim.document.id, claim.generation)
        cuts = self._cuts.setdefault(key, Cuts())
        self._cuts.move_to_end(key)
        while len(self._cuts) > CUTS_KEPT:
            self._cuts.popitem(last=False)
        return cuts

    def _pages(self, document_id: str) -> Callable[[int], PageReading]:
        """Its pages by number; asked for in a row, they are loaded a few at a time."""
        last, row = -1, iter(())

        def load(number: int) -> PageReading:
            nonlocal last, row
            following, last = number == last + 1, number
            if not following:
                row = iter(())
                return self._catalogue.page(document_id, number, EVERYTHING)
            page = next(row, None)
            if page is None or page.number != number:
                row = self._catalogue.pages(document_id, EVERYTHING, number)
                page = next(row)
            return page

        return load


def charged(record: Callable[[Usage], None]) -> Callable[[Usage], None]:
    """``record`` for models that read pages: they know what they used, the worker knows for which document."""

    def charge(usage: Usage) -> None:
        document = _being_read.get()
        if document is not None:
            usage = replace(usage, user=document.owner, collection=document.collection, document_id=document.id)
        record(usage)

    return charge


def ending(document: Document, *, whole: bool) -> DocumentStatus:
    """How a document ended of which every page ended; ``whole`` says that the file itself was not cut off."""
    if document.pages_failed >= document.pages:
        return DocumentStatus.FAILED
    all_read = document.pages_done >= document.pages and not document.pages_failed
    return DocumentStatus.COMPLETE if whole and all_read else DocumentStatus.PARTIAL
