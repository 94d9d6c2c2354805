"""The queue around the pipeline: what was accepted is read to its end, across crashes and full disks.

A document is accepted when its bytes are in the blob store and its row is in the catalogue; from then on
the catalogue is the queue. After a restart, unfinished documents go on with the pages still missing.
Dense vectors follow in a loop of their own, so that pages are answerable before they are embedded.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import (
    Access,
    Correction,
    Document,
    DocumentStatus,
    PageReading,
    Reading,
    Usage,
    collection_name,
)
from assistant.core.errors import AccessDenied, NotFound, PeritoError, TooLarge, TransientError
from assistant.core.ports import Progress, Submission, Upload
from assistant.core.settings import LimitSettings
from ingestion.chunks import Carry
from ingestion.firstlook import About
from ingestion.openfiles import FilePool, OpenFile
from ingestion.parts import Parts
from ingestion.pipeline import Pipeline, StructuringReader
from ingestion.publish import Publisher
from ingestion.starts import Starts

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

DOCUMENTS_AT_ONCE = 3  # a long document does not hold up the short ones behind it
EMBED_BATCH = 16
DEATHS = 3  # of the process while it read a document and got no page further; then the document is left alone
RETRY_SECONDS = (1.0, 5.0, 15.0, 60.0)  # then every minute, until there is room again
EVERYTHING = Access("worker", None)

_being_read: ContextVar[Document | None] = ContextVar("being_read", default=None)

P = ParamSpec("P")
T = TypeVar("T")


class RequeuedError(Exception):
    """Another process asked for the document to be read again while it was being read here."""


class Worker:
    """Implements the kernel's ``Ingestion`` in this process. ``start`` it in the loop that uses it."""

    def __init__(
        self,
        pipeline: Pipeline,
        publisher: Publisher,
        catalogue: SqlCatalogue,
        blobs: FolderBlobStore,
        files: FilePool,
        ocr: StructuringReader,
        limits: LimitSettings,
    ) -> None:
        self._pipeline = pipeline
        self._publisher = publisher
        self._catalogue = catalogue
        self._blobs = blobs
        self.files = files
        self._starts = Starts(blobs)
        self._ocr = ocr
        self._limits = limits
        self._parts = Parts(catalogue, blobs, limits)
        self._slots = asyncio.Semaphore(DOCUMENTS_AT_ONCE)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()  # one document is stopped and requeued or removed at a time
        self._listeners: dict[str, set[asyncio.Queue[Progress | None]]] = defaultdict(set)
        self._to_embed = asyncio.Event()
        self._embedded = asyncio.Event()
        self._embedder: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._stopping = False

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take up what a former process left unfinished, and embed what waits for its vector."""
        self._embedder = asyncio.create_task(self._embed_forever())
        self._to_embed.set()
        self.files.warm()
        self._sweeper = asyncio.create_task(asyncio.to_thread(self._sweep))
        await self.take_up()

    async def take_up(self) -> None:
        """Begin with what is accepted and unfinished and not begun here, whichever process accepted it."""
        async with self._changing:
            begun = set(self._running)  # before looking: what ends meanwhile is not begun again
            for document in await asyncio.to_thread(self._catalogue.unfinished):
                if document.id not in begun and document.id not in self._running:
                    log.info("%s goes on at page %d", document.name, document.pages_done + 1)
                    self._launch(document)

    async def drain(self) -> None:
        """Wait until everything accepted is read and embedded."""
        while self._running:
            await asyncio.wait(list(self._running.values()))
        if self._embedder is not None and not self._embedder.done():
            await asyncio.wait(
                {asyncio.create_task(self._embedded.wait()), self._embedder}, return_when="FIRST_COMPLETED"
            )

    async def aclose(self) -> None:
        """Stop; what is unfinished goes on at the next start."""
        self._stopping = True
        tasks = [*self._running.values(), *filter(None, (self._embedder, self._sweeper))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.files.close)
        await self._pipeline.aclose()

    # -- the kernel's Ingestion ---------------------------------------------------------------

    async def submit(self, upload: Upload, access: Access) -> Submission:
        """Accept a file: when this returns it is stored and queued, and survives a crash."""
        collection = collection_name(upload.collection)
        if not access.allows(collection):
            raise AccessDenied(f"{access.user} may not add to the collection {collection}")
        claimed, created = await asyncio.to_thread(self._accept, upload, collection, access)
        if not created and claimed.status in (DocumentStatus.FAILED, DocumentStatus.PARTIAL):
            claimed = await self.reread(claimed.id, access)
        elif claimed.id not in self._running and not claimed.status.is_final:
            self._launch(claimed)
        return Submission(claimed, duplicate=not created)

    async def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        """What happens to a document, from now until its end (the last one is final). NotFound, also when it
        is deleted meanwhile."""
        queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._listeners[document_id].add(queue)
        try:
            document = await asyncio.to_thread(self._catalogue.document, document_id, access)
            yield Progress(document)
            while not document.status.is_final:
                progress = await queue.get()
                if progress is None:
                    raise NotFound(f"{document.name} was deleted", "See the list of documents for what there is")
                document = progress.document
                yield progress
        finally:
            self._listeners[document_id].discard(queue)
            if not self._listeners[document_id]:
                self._listeners.pop(document_id, None)

    async def reread(self, document_id: str, access: Access) -> Document:
        """Read all pages again; each is replaced when its new reading is there."""
        async with self._changing:
            await asyncio.to_thread(self._catalogue.document, document_id, access)  # NotFound where it is not theirs
            await self._stop(document_id)
            document = await asyncio.to_thread(self._catalogue.requeue, document_id)
            self._launch(document)
        return document

    async def move(self, document_id: str, collection: str, access: Access) -> Document:
        """See ``Ingestion.move``. The catalogue changes first: whatever is published from then on is published
        there. Should this process end before all chunks have followed, publishing them anew lets them follow."""
        collection = collection_name(collection)
        async with self._changing:
            document = await asyncio.to_thread(self._catalogue.document, document_id, access)
            family = await asyncio.to_thread(self._catalogue.move, document_id, collection, access)
            try:
                for moved in family:
                    await _to_its_end(self._publisher.move, moved, document.collection)
            finally:
                for moved in family:
                    self._launch_queued(moved)
        return family[0] if family else document

    async def correct(self, document_id: str, correction: Correction, access: Access) -> Document:
        """See ``Ingestion.correct``."""
        correction = replace(correction, by=access.user, at=datetime.now(UTC))
        return await self._change(document_id, access, lambda: self._catalogue.correct(document_id, correction, access))

    async def withdraw_correction(self, document_id: str, correction_id: int, access: Access) -> Document:
        """See ``Ingestion.withdraw_correction``."""
        withdraw = self._catalogue.withdraw_correction
        return await self._change(document_id, access, lambda: withdraw(document_id, correction_id, access))

    async def _change(self, document_id: str, access: Access, change: Callable[[], Document]) -> Document:
        """Make a change that what is being published now would miss, and publish anew where it asks for that."""
        async with self._changing:
            document = await asyncio.to_thread(self._catalogue.document, document_id, access)
            await self._stop(document_id)
            try:
                document = await asyncio.to_thread(change)
            finally:
                self._launch_queued(document)
        return document

    async def delete(self, document_id: str, access: Access) -> None:
        """Remove points, rows and blobs, and verify that none is left."""
        async with self._changing:
            await asyncio.to_thread(self._catalogue.document, document_id, access)  # NotFound where it is not theirs
            await self._remove_family(document_id, access)

    async def read_image(self, image: Image) -> Reading:
        """Read a picture without keeping it."""
        return await self._ocr.read(image)

    # -- accepting ----------------------------------------------------------------------------

    def _accept(self, upload: Upload, collection: str, access: Access) -> tuple[Document, bool]:
        """The document of these bytes, and whether it is new. BadInput where they cannot be read at all."""
        name, size = displayed_name(upload.name), upload.path.stat().st_size
        if size > self._limits.upload_mb * 1_000_000:
            raise TooLarge(f"{name} has {size // 1_000_000} MB; the limit is {self._limits.upload_mb} MB")
        with self.files.open(upload.path, name=name, password=upload.password) as file:
            document = self._described(upload, file.about.result(), collection, access)
            blob = self._put(upload, file)
            try:
                claimed, created = self._catalogue.claim_document(document, blob)
            except PeritoError:
                self._discard({blob})
                raise
            if created and not self._blobs.exists(blob):  # deleted with its last document just before the claim
                self._put(upload, file)
        file.wait()  # its process is the one that will read the document
        if not created:
            self._discard({blob})
        return claimed, created

    def _described(self, upload: Upload, about: About, collection: str, access: Access) -> Document:
        """The document that the file would become."""
        name = displayed_name(upload.name)
        if about.page_count > self._limits.pages:
            raise TooLarge(f"{name} has {about.page_count} pages; the limit is {self._limits.pages}")
        with upload.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Document(
            id=uuid.uuid4().hex,
            name=name,
            sha256=digest,
            collection=collection,
            status=DocumentStatus.QUEUED,
            pages=about.page_count,
            size=upload.path.stat().st_size,
            media_type=about.media_type,
            owner=access.user,
            created=datetime.now(UTC),
            parent=upload.parent,
        )

    def _put(self, upload: Upload, opened: OpenFile) -> str:
        """The blob of the file. A locked PDF is kept without its lock: nobody is asked for the password
        again when a citation shows its page, or when reading goes on after a crash."""
        if not upload.password:
            with upload.path.open("rb") as file:
                return self._blobs.put(file)
        with opened.unlocked() as copy:
            return self._blobs.put(copy)

    def _discard(self, blobs: Iterable[str]) -> None:
        for blob in blobs:
            self._catalogue.release_blob(blob, self._blobs.delete)

    def _sweep(self) -> None:
        """Let go of files that were stored but never claimed, because their process died in between."""
        self._discard([blob for blob in self._blobs.keys() if not self._catalogue.blob_in_use(blob)])  # noqa: SIM118 - no dict

    # -- reading ------------------------------------------------------------------------------

    def _launch(self, document: Document) -> None:
        task = asyncio.create_task(self._run(document), name=f"read {document.name}")
        self._running[document.id] = task
        task.add_done_callback(lambda ended: self._let_go(document.id, ended))

    def _launch_queued(self, document: Document) -> None:
        """Publish a document anew, if what was changed asks for it."""
        if not document.status.is_final:
            self._launch(document)

    def _let_go(self, document_id: str, task: asyncio.Task[None]) -> None:
        if self._running.get(document_id) is task:
            del self._running[document_id]

    async def _stop(self, document_id: str) -> None:
        task = self._running.get(document_id)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, document: Document) -> None:
        """Read one document to its end. Trouble that may pass is waited out; nothing accepted is dropped."""
        attempt = 0
        while True:
            try:
                async with self._slots:
                    await self._read_or_clear(document)
                return
            except RequeuedError:
                log.info("%s is read from its beginning, as another process asked", document.name)
            except TransientError as error:
                delay = RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)]
                log.warning("%s waits %.0f s: %s", document.name, delay, error)
                await self._note(document.id, str(error))
                await asyncio.sleep(delay)
                attempt += 1

    async def _read_or_clear(self, document: Document) -> None:
        """Read it. When it is deleted meanwhile, maybe by another process, nothing published since stays."""
        try:
            await self._read_or_fail(document)
        except NotFound:
            await asyncio.to_thread(self._publisher.withdraw, document.id)

    async def _read_or_fail(self, document: Document) -> None:
        """Read it, or write down why it cannot be read. TransientError; RequeuedError; NotFound when it is gone."""
        try:
            await self._read(document)
        except (TransientError, RequeuedError):
            raise
        except PeritoError as error:
            await self._end(document.id, DocumentStatus.FAILED, str(error))
        except Exception as error:  # a bad document never kills the worker
            log.exception("%s could not be read", document.name)
            message = f"{document.name} could not be read: {type(error).__name__}: {error}."
            await self._end(document.id, DocumentStatus.FAILED, message)

    async def _read(self, document: Document) -> None:
        _being_read.set(document)
        document = await self._update(document.id, status=DocumentStatus.READING, error="")
        done = await asyncio.to_thread(self._catalogue.pages_done, document.id)  # what is requeued later is noticed
        blob = await asyncio.to_thread(self._catalogue.blob, document.id, EVERYTHING)
        try:
            if await asyncio.to_thread(self._starts.begin, document.id, blob, len(done)) >= DEATHS:
                await self._give_up(document)
            else:
                await self._read_pages(document, await asyncio.to_thread(self._blobs.path, blob), done)
        finally:  # in order, whether read, stopped or put off
            await _to_its_end(self._starts.leave, document.id, blob)

    async def _give_up(self, document: Document) -> None:
        """End a document that ends the process."""
        document = await _to_its_end(self._finish, document)
        status = DocumentStatus.PARTIAL if document.pages_done > document.pages_failed else DocumentStatus.FAILED
        error = (
            f"Perito itself ended {DEATHS} times while it read {document.name}, and got no further than "
            f"{document.pages_done} of {document.pages} pages. Read it again, or save it anew in the program that "
            "made it and send that copy."
        )
        await self._end(document.id, status, error)

    async def _read_pages(self, document: Document, path: Path, done: Collection[int]) -> None:
        started, before = time.perf_counter(), document.seconds
        carries: dict[int, Carry] = {}
        with self.files.open(path, name=document.name) as file:
            async with contextlib.aclosing(self._pipeline.read_document(file, done)) as pages:
                async for page in pages:
                    carry = carries.get(max((number for number in carries if number < page.number), default=0), Carry())
                    document, carries[page.number] = await _to_its_end(self._publish, document, page, carry)
                    carries.pop(page.number - 64, None)
                    self._embed_soon()
                    self._tell(document.id, Progress(document, page))
            parts = await self._parts.take(document, file, self._accept_part)
        document = await _to_its_end(self._finish, document)
        self._embed_soon()
        error = await asyncio.to_thread(self._first_error, document.id) if document.pages_failed else ""
        damage = file.about.result().damage
        error = " ".join(filter(None, (damage, error, parts.told)))
        seconds = before + time.perf_counter() - started
        await self._end(document.id, ending(document, whole=not damage and not parts.lost), error, seconds)

    async def _accept_part(self, upload: Upload) -> None:
        """Accept a file found in a document of whoever owns that. BadInput where it cannot be read."""
        parent = await asyncio.to_thread(self._catalogue.document, upload.parent or "", EVERYTHING)
        owner = Access(parent.owner, frozenset({parent.collection}))
        document, _ = await _to_its_end(self._accept, upload, parent.collection, owner)
        if document.id not in self._running and not document.status.is_final:
            self._launch(document)

    def _publish(self, document: Document, page: PageReading, carry: Carry) -> tuple[Document, Carry]:
        """The page becomes answerable, then its row says that it is done: never the other way round."""
        carry = self._publisher.publish_page(document, page, carry)
        self._catalogue.put_page(document.id, page)
        return _still_mine(self._catalogue.document(document.id, EVERYTHING)), carry

    def _finish(self, document: Document) -> Document:
        """Publish the whole once more, now that every page is known."""
        self._publisher.finish_document(document, self._catalogue.pages(document.id, EVERYTHING))
        return self._catalogue.document(document.id, EVERYTHING)

    def _first_error(self, document_id: str) -> str:
        failed = [page for page in self._catalogue.pages(document_id, EVERYTHING) if page.error]
        numbers = ", ".join(str(page.number) for page in failed[:10]) + (", …" if len(failed) > 10 else "")
        return f"Not read: page {numbers}. {failed[0].error}" if failed else ""

    async def _end(self, document_id: str, status: DocumentStatus, error: str, seconds: float | None = None) -> None:
        changes: dict[str, object] = {"status": status, "error": error}
        if seconds is not None:
            changes["seconds"] = seconds
        if status is DocumentStatus.COMPLETE:  # before it says so: after a crash in between it is ended once more
            await self._drop_older(await asyncio.to_thread(self._catalogue.document, document_id, EVERYTHING))
        document = await self._update(document_id, **changes)
        log.info(
            "%s: %s, %d of %d pages read",
            document.name,
            status,
            document.pages_done - document.pages_failed,
            document.pages,
        )
        self._tell(document_id, Progress(document))

    async def _drop_older(self, document: Document) -> None:
        """Remove the versions this one replaces, now that it is whole."""
        async with self._changing:
            for old in await asyncio.to_thread(self._catalogue.older_versions, document):
                await self._remove_family(old.id, EVERYTHING)

    async def _note(self, document_id: str, error: str) -> None:
        """Say why a document waits, where that can still be written down."""
        with contextlib.suppress(PeritoError, RequeuedError):
            document = await self._update(document_id, error=error)
            self._tell(document_id, Progress(document))

    async def _update(self, document_id: str, **changes: object) -> Document:
        def update() -> Document:
            document = self._catalogue.document(document_id, EVERYTHING)
            if changes.get("status") is not DocumentStatus.READING:
                _still_mine(document)
            document = replace(document, **changes)  # pyright: ignore[reportArgumentType]
            self._catalogue.update_document(document)
            return document

        return await asyncio.to_thread(update)

    def _tell(self, document_id: str, progress: Progress | None) -> None:
        """Pass ``progress`` on to whoever follows the document; None: there is none any more."""
        for queue in self._listeners.get(document_id, ()):
            queue.put_nowait(progress)

    async def _remove_family(self, document_id: str, access: Access) -> None:
        """Stop and remove a document, after what was found in it and nowhere else."""
        await self._stop(document_id)
        for part in await asyncio.to_thread(self._catalogue.sole_parts, document_id):
            await self._remove_family(part.id, EVERYTHING)
        await self._remove(document_id, access)

    async def _remove(self, document_id: str, access: Access) -> None:
        def remove() -> None:
            self._publisher.withdraw(document_id)
            self._discard(self._catalogue.delete_document(document_id, access))

        await asyncio.to_thread(remove)
        self._tell(document_id, None)

    # -- embedding ----------------------------------------------------------------------------

    def _embed_soon(self) -> None:
        self._to_embed.set()
        self._embedded.clear()

    async def _embed_forever(self) -> None:
        """Give waiting chunks their dense vectors, a small batch at a time."""
        while True:
            await self._to_embed.wait()
            self._to_embed.clear()  # before looking: what is published meanwhile sets it again
            try:
                embedded = await asyncio.to_thread(self._publisher.embed_pending, EMBED_BATCH, lambda: self._stopping)
            except Exception as error:  # words are found without vectors; nothing may end the embedding for good
                log.warning("embedding waits: %s", error, exc_info=not isinstance(error, PeritoError))
                self._to_embed.set()
                await asyncio.sleep(RETRY_SECONDS[1])
                continue
            if embedded:
                self._to_embed.set()
            elif not self._to_embed.is_set():
                self._embedded.set()


def charged(record: Callable[[Usage], None]) -> Callable[[Usage], None]:
    """``record`` for models that read pages: they know what they used, the worker knows for which document."""

    def charge(usage: Usage) -> None:
        document = _being_read.get()
        if document is not None:
            usage = replace(usage, user=document.owner, collection=document.collection, document_id=document.id)
        record(usage)

    return charge


async def _to_its_end(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """``function`` in a thread. A thread cannot be stopped: who is cancelled waits for it first, so that nothing
    is written behind the back of a deletion."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise


def _still_mine(document: Document) -> Document:
    """RequeuedError where another process queued it while it was being read here: its pages count no more."""
    if document.status is DocumentStatus.QUEUED:
        raise RequeuedError(document.id)
    return document


def ending(document: Document, *, whole: bool) -> DocumentStatus:
    """How a document ended of which every page ended; ``whole`` says that the file itself was not cut off."""
    if document.pages_failed >= document.pages:
        return DocumentStatus.FAILED
    return DocumentStatus.COMPLETE if whole and not document.pages_failed else DocumentStatus.PARTIAL


def displayed_name(name: str) -> str:
    """The last part of a path, without control characters, at most 200 characters with its ending kept."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    clean = "".join(character for character in last if character.isprintable()).strip() or "document"
    if len(clean) <= 200:
        return clean
    suffix = Path(clean).suffix[:20]
    return clean[: 199 - len(suffix)] + "…" + suffix
