"""The worker as the rest of Perito sees it: it accepts files, tells how they are read, and steers the queue.

A document is accepted when its bytes are in the blob store and its row and its job are in the catalogue. The crew of
this process, or of another one over the same stores, takes it from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import (
    Access,
    Correction,
    Document,
    DocumentStatus,
    Job,
    JobState,
    Reading,
    collection_name,
)
from assistant.core.errors import AccessDenied, NotFound, PeritoError, StoreBusy, TooLarge
from assistant.core.ports import Progress, QueueView, Submission, Upload
from assistant.core.settings import MEGABYTE, LimitSettings, WorkerSettings
from ingestion.crew import Crew
from ingestion.embedding import Embedding
from ingestion.firstlook import About
from ingestion.followers import Followers
from ingestion.openfiles import FilePool, OpenFile
from ingestion.parts import EVERYTHING, LONGEST_NAME, Parts
from ingestion.pipeline import Pipeline, StructuringReader
from ingestion.publish import Publisher
from ingestion.runs import Hooks, Runner
from ingestion.threads import to_its_end

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

REMOVAL_TRIES = 20  # another process writes at most a page or two before it notices that its document is gone
REMOVAL_SECONDS = 0.1
REMOVAL_ASIDE_SECONDS = 60.0  # nobody begins to read a document again that is being removed; said anew in between
REMOVED_AT_ONCE = 50  # of its parts, in a few seconds
WARM_AFTER_SECONDS = 5.0  # a command has ended by then


class Worker:
    """Implements the kernel's ``Ingestion`` and ``Queue``. ``start`` it in the loop that uses it."""

    def __init__(
        self,
        pipeline: Pipeline,
        publisher: Publisher,
        catalogue: SqlCatalogue,
        blobs: FolderBlobStore,
        files: FilePool,
        ocr: StructuringReader,
        limits: LimitSettings,
        settings: WorkerSettings,
        *,
        alone: bool,
    ) -> None:
        """``alone``: no other process works on the same stores."""
        self._pipeline = pipeline
        self._publisher = publisher
        self._catalogue = catalogue
        self._queue = catalogue.queue
        self._blobs = blobs
        self.files = files
        self._ocr = ocr
        self._limits = limits
        self._reads = settings.where == "here"
        self._read_here = self._reads and alone
        self._changing = asyncio.Lock()  # one document is stopped and requeued or removed at a time
        self._followers = Followers(catalogue)
        self._embedding = Embedding(publisher)
        parts = Parts(catalogue, blobs, limits)
        hooks = Hooks(self._tell, self._drop_older, self._accept_part)
        self._runner = Runner(pipeline, publisher, catalogue, blobs, files, parts, hooks)
        self._crew = Crew(self._queue, self._runner, publisher, self._followers, settings, alone=alone)
        self._aside: set[asyncio.Task[None]] = set()

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take up what a former process left unfinished, and embed what waits for its vector."""
        if not self._reads:
            return
        self._embedding.start()
        self.files.warm()
        await self._crew.start()
        self._aside = {asyncio.create_task(work) for work in (self._warm(), asyncio.to_thread(self._sweep))}

    async def _warm(self) -> None:
        """Load what long passages need, unless this process is one that answers a command and ends."""
        await asyncio.sleep(WARM_AFTER_SECONDS)
        await asyncio.to_thread(self._publisher.warm)

    async def drain(self) -> None:
        """Wait until everything accepted is read and embedded, where that is done in this process."""
        if self._reads:
            await self._crew.drain()
            await self._embedding.drain()

    async def aclose(self) -> None:
        """Stop; what is unfinished goes on elsewhere, or at the next start."""
        await self._crew.aclose()
        await self._embedding.aclose()
        for task in self._aside:
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)
        await asyncio.to_thread(self.files.close)
        await self._pipeline.aclose()

    # -- the kernel's Ingestion ---------------------------------------------------------------

    async def submit(self, upload: Upload, access: Access) -> Submission:
        """Accept a file: when this returns it is stored and queued, and survives a crash."""
        collection = collection_name(upload.collection)
        access.require(collection)
        claimed, created = await asyncio.to_thread(self._accept, upload, collection, access)
        if not created and claimed.status in (DocumentStatus.FAILED, DocumentStatus.PARTIAL):
            claimed = (await self.retry(claimed.id, access)).document
        self._crew.wake()
        return Submission(claimed, duplicate=not created)

    def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        """What happens to a document, from now until its end (the last one is final). NotFound, also when it
        is deleted meanwhile."""
        return self._followers.follow(document_id, access, self._read_here)

    async def reread(self, document_id: str, access: Access) -> Document:
        """Read all pages again; each is replaced when its new reading is there."""
        return await self._change(document_id, access, lambda: self._catalogue.requeue(document_id))

    async def move(self, document_id: str, collection: str, access: Access) -> Document:
        """See ``Ingestion.move``. The catalogue changes first: whatever is published from then on is published
        there. Should this process end before all chunks have followed, publishing them anew lets them follow."""
        collection = collection_name(collection)
        async with self._changing:
            document = await asyncio.to_thread(self._catalogue.document, document_id, access)
            family = await asyncio.to_thread(self._catalogue.move, document_id, collection, access)
            try:
                for moved in family:
                    await to_its_end(self._publisher.move, moved, document.collection)
            finally:
                self._crew.wake()
        return family[0] if family else document

    async def rename(self, document_id: str, name: str, access: Access) -> Document:
        """See ``Ingestion.rename``. The catalogue changes first, as in ``move``."""
        async with self._changing:
            document = await asyncio.to_thread(self._catalogue.document, document_id, access)
            family = await asyncio.to_thread(self._catalogue.rename, document_id, displayed_name(name), access)
            try:
                for renamed in family:
                    await to_its_end(self._publisher.rename, renamed)
            finally:
                self._crew.wake()
        return family[0] if family else document

    async def correct(self, document_id: str, correction: Correction, access: Access) -> Document:
        """See ``Ingestion.correct``."""
        correction = replace(correction, by=access.user, at=datetime.now(UTC))
        again = self._pipeline.has_better_reader

        def correct() -> Document:
            return self._catalogue.correct(document_id, correction, access, read_marked=again)

        return await self._change(document_id, access, correct)

    async def withdraw_correction(self, document_id: str, correction_id: int, access: Access) -> Document:
        """See ``Ingestion.withdraw_correction``."""
        withdraw = self._catalogue.withdraw_correction
        return await self._change(document_id, access, lambda: withdraw(document_id, correction_id, access))

    async def _change(self, document_id: str, access: Access, change: Callable[[], Document]) -> Document:
        """Make a change that a reading of the document under way would miss, with that stopped; then it may go on."""
        async with self._changing:
            await asyncio.to_thread(self._catalogue.document, document_id, access)  # NotFound where it is not theirs
            await self._crew.stop(document_id)
            try:
                return await asyncio.to_thread(change)
            finally:
                await self._crew.give_back(document_id)

    async def delete(self, document_id: str, access: Access) -> None:
        """Remove points, rows and blobs, and verify that none is left."""
        async with self._changing:
            await asyncio.to_thread(self._catalogue.document, document_id, access)  # NotFound where it is not theirs
            await self._remove_family(document_id, access)

    async def read_image(self, image: Image) -> Reading:
        """Read a picture without keeping it."""
        return await self._ocr.read(image)

    # -- the kernel's Queue -------------------------------------------------------------------

    async def jobs(self, access: Access, states: Sequence[JobState] = (), limit: int | None = None) -> QueueView:
        """The queue: of the states named, else of all."""

        def look() -> QueueView:
            found = self._catalogue.jobs(access, states, limit)
            return QueueView(self._queue.is_paused(), tuple(found), tuple(self._queue.workers()))

        return await asyncio.to_thread(look)

    async def job(self, document_id: str, access: Access) -> Job:
        """A document's place in the queue. NotFound."""
        return await asyncio.to_thread(self._catalogue.job, document_id, access)

    async def retry(self, document_id: str, access: Access) -> Job:
        """Read on where it failed, was cancelled or left pages out. NotFound."""
        await self.job(document_id, access)  # NotFound where it is not theirs
        await asyncio.to_thread(self._queue.retry, document_id)
        self._crew.wake()
        return await self.job(document_id, access)

    async def cancel(self, document_id: str, access: Access) -> Job:
        """Stop reading it, in the middle of a page; what was read stays. NotFound."""
        cancelled = await self._change(document_id, access, lambda: self._queue.cancel(document_id, access.user))
        self._tell(document_id, Progress(cancelled))
        return await self.job(document_id, access)

    async def pause(self, access: Access) -> None:
        """Nobody begins a page any more, in any process, until ``resume``. AccessDenied."""
        _require_all(access)
        await asyncio.to_thread(self._queue.pause, access.user)
        self._crew.step_back()

    async def resume(self, access: Access) -> None:
        """Go on. AccessDenied."""
        _require_all(access)
        await asyncio.to_thread(self._queue.resume)
        self._crew.wake()

    # -- accepting ----------------------------------------------------------------------------

    def _accept(self, upload: Upload, collection: str, access: Access) -> tuple[Document, bool]:
        """The document of these bytes, and whether it is new. BadInput where they cannot be read at all."""
        name, size = displayed_name(upload.name), upload.path.stat().st_size
        if size > self._limits.upload_mb * MEGABYTE:
            raise TooLarge(f"{name} has {size // MEGABYTE} MB; the limit is {self._limits.upload_mb} MB")
        with self.files.open(upload.path, name=name, password=upload.password) as file:
            document = self._described(upload, name, file.about.result(), collection, access)
            blob = self._put(upload, file)
            try:
                claimed, created = self._catalogue.claim_document(document, blob, upload.urgency)
            except PeritoError:
                self._discard({blob})
                raise
            if created and not self._blobs.exists(blob):  # deleted with its last document just before the claim
                self._put(upload, file)
        file.wait()  # its process is the one that will read the document
        if not created:
            self._discard({blob})
        return claimed, created

    def _described(self, upload: Upload, name: str, about: About, collection: str, access: Access) -> Document:
        """The document that the file would become."""
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
        try:
            self._discard([blob for blob in self._blobs.keys() if not self._catalogue.blob_in_use(blob)])  # noqa: SIM118 - no dict
        except Exception:  # the next start tries again
            log.exception("files that nobody claimed are still there")

    async def _accept_part(self, upload: Upload) -> None:
        """Accept a file found in a document of whoever owns that. BadInput where it cannot be read."""
        parent = await asyncio.to_thread(self._catalogue.document, upload.parent or "", EVERYTHING)
        owner = Access(parent.owner, frozenset({parent.collection}))
        await to_its_end(self._accept, upload, parent.collection, owner)
        self._crew.wake()

    # -- following and removing ---------------------------------------------------------------

    def _tell(self, document_id: str, progress: Progress) -> None:
        self._followers.tell(document_id, progress)
        if progress.page is not None or progress.document.status.is_final:
            self._embedding.soon()

    async def _drop_older(self, document: Document) -> None:
        """Remove the versions this one replaces, now that it is whole."""
        older = await asyncio.to_thread(self._catalogue.older_versions, document)
        if older:
            async with self._changing:
                for old in older:
                    await self._remove_family(old.id, EVERYTHING)

    async def _remove_family(self, document_id: str, access: Access) -> None:
        """Stop and remove a document, after what was found in it and nowhere else. Meanwhile nobody takes it up, or
        more would be found in it that nobody removes; should this process end, it is read on after a while."""
        await self._crew.stop(document_id)
        while True:
            await asyncio.to_thread(self._queue.set_aside, document_id, REMOVAL_ASIDE_SECONDS)
            parts = await asyncio.to_thread(self._catalogue.sole_parts, document_id)
            for part in parts[:REMOVED_AT_ONCE]:
                await self._remove_family(part.id, EVERYTHING)
            if not parts and await self._remove(document_id, access):
                return

    async def _remove(self, document_id: str, access: Access) -> bool:
        """First what may be refused and then tried again; False where more was found in it just now, which goes first.
        Once the rows are gone, writes of another process are refused and it withdraws what it published last; what it
        published before is withdrawn here."""

        def remove() -> bool:
            self._publisher.withdraw(document_id, verify=False)
            try:
                unused = self._catalogue.delete_document(document_id, access)
            except NotFound:  # somebody was faster
                return True
            if unused is None:
                return False
            self._discard(unused)
            if left := self._catalogue.rows_left(document_id):
                raise StoreBusy(f"{left} rows of a deleted document are still in the catalogue", "Delete it once more")
            return True

        if not await asyncio.to_thread(remove):
            return False
        self._followers.tell(document_id, None)
        for tries_left in reversed(range(REMOVAL_TRIES)):
            try:
                await asyncio.to_thread(self._publisher.withdraw, document_id)
                break
            except StoreBusy:
                if not tries_left:
                    raise
                await asyncio.sleep(REMOVAL_SECONDS)
        return True


def _require_all(access: Access) -> None:
    if access.collections is not None:
        raise AccessDenied(f"{access.user} may not stop the reading for everybody")


def displayed_name(name: str) -> str:
    """The last part of a path, without control characters, at most 200 characters with its ending kept."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    clean = "".join(character for character in last if character.isprintable()).strip() or "document"
    if len(clean) <= LONGEST_NAME:
        return clean
    suffix = Path(clean).suffix[:20]
    return clean[: LONGEST_NAME - 1 - len(suffix)] + "…" + suffix
