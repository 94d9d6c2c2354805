"""What the commands work through: this process's own Perito, or the server that runs over the same home."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from assistant.core.domain import Access, Answer, JobState, Urgency
from assistant.core.errors import PeritoError, StoreBusy, UnreadableFile
from assistant.core.ports import DocumentQuery, Upload
from assistant.core.settings import Settings
from assistant.core.shapes import (
    AnswerShape,
    DocumentDetailShape,
    DocumentShape,
    JobShape,
    PageSummaryShape,
    ProgressShape,
    QueueShape,
    RejectedShape,
    UsageTotalsShape,
)
from compose.server import find_server
from compose.standalone import LOCK_SECONDS, Perito, open_perito

OnProgress = Callable[[ProgressShape], None]
LOCAL = Access("local", None)
FILES_AT_ONCE = 4
LOOK_SECONDS = 1.0  # for a server, while another process has the home


class Backend(Protocol):
    """What a command may do. All raise PeritoError with a sentence for people."""

    async def ingest(
        self, file: Path, collection: str, password: str, on_progress: OnProgress
    ) -> DocumentShape | RejectedShape:
        """Add a file and wait until it is read."""
        ...

    async def submit(self, file: Path, name: str, collection: str) -> DocumentShape | RejectedShape:
        """Add a file that is called ``name``; it is stored and queued when this returns."""
        ...

    async def follow(self, document_id: str, on_progress: OnProgress) -> DocumentShape:
        """Wait until a document is read. NotFound, also when it is deleted meanwhile."""
        ...

    async def rename(self, document_id: str, name: str) -> DocumentShape: ...

    async def finish(self) -> None:
        """Wait until what was added is embedded, where this process has to do it."""
        ...

    async def ask(self, question: str, collection: str | None, on_piece: Callable[[str], None]) -> AnswerShape: ...

    async def documents(self, collection: str | None, query: DocumentQuery) -> list[DocumentShape]: ...

    async def document(self, document_id: str) -> DocumentDetailShape: ...

    async def reread(self, document_id: str, on_progress: OnProgress) -> DocumentShape: ...

    async def delete(self, document_id: str) -> None: ...

    async def usage(self, days: int | None) -> UsageTotalsShape:
        """What models used, of all time or of the last ``days``."""
        ...

    async def jobs(self, state: JobState | None, limit: int) -> QueueShape:
        """The queue; without ``state``, all but what is done."""
        ...

    async def job(self, document_id: str) -> JobShape: ...

    async def retry(self, document_id: str) -> JobShape: ...

    async def cancel(self, document_id: str) -> JobShape: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...


@contextlib.asynccontextmanager
async def open_backend(settings: Settings, *, reads: bool = True) -> AsyncGenerator[Backend]:
    """The running server's, else one in this process, which then takes up what waits if it ``reads``. StoreBusy."""
    async with contextlib.AsyncExitStack() as opened:
        yield await _backend(settings, reads, opened)


async def _backend(settings: Settings, reads: bool, opened: contextlib.AsyncExitStack) -> Backend:
    """Whoever has the home may be a server that is only starting: so a server is looked for while it is waited for."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        server = await asyncio.to_thread(find_server, settings.home)
        if server is not None:
            from compose.remote import RemoteBackend

            return await opened.enter_async_context(RemoteBackend(server))
        try:
            perito = open_perito(settings, reads=reads, patience=LOOK_SECONDS)
            return LocalBackend(await opened.enter_async_context(perito))
        except StoreBusy:
            if time.monotonic() > deadline:
                raise


async def ingest_all(
    backend: Backend, files: Sequence[Path], collection: str, password: str, on_progress: OnProgress
) -> AsyncIterator[DocumentShape | RejectedShape]:
    """Every file's outcome, in the order they end, each before those of what was found in it (which have a ``parent``);
    one file's failure is its own."""
    slots = asyncio.Semaphore(FILES_AT_ONCE)

    async def one(file: Path) -> list[DocumentShape | RejectedShape]:
        async with slots:
            try:
                outcome = await backend.ingest(file, collection, password, on_progress)
                if isinstance(outcome, RejectedShape) or outcome.duplicate:
                    return [outcome]
                return [outcome, *await parts_of(backend, outcome.id, on_progress)]
            except PeritoError as error:
                return [RejectedShape.of(file.name, error)]
            except OSError as error:
                advice = "Check the path and its rights"
                return [RejectedShape.of(file.name, UnreadableFile(f"{file} cannot be read: {error.strerror}", advice))]

    for task in asyncio.as_completed([asyncio.create_task(one(file)) for file in files]):
        for outcome in await task:
            yield outcome
    await backend.finish()


async def parts_of(backend: Backend, document_id: str, on_progress: OnProgress) -> list[DocumentShape]:
    """What was found in a document that ended, in that, and so on, once all of it has ended; by name."""
    ended: dict[str, DocumentShape] = {}
    while True:
        family = await backend.documents(None, DocumentQuery(ids=frozenset({document_id}), with_parts=True))
        waited_for = [one.id for one in family if one.id != document_id and one.id not in ended]
        if not waited_for:  # whoever ends has entered its parts before
            return sorted(ended.values(), key=lambda one: one.name)
        for part in waited_for:
            ended[part] = await backend.follow(part, on_progress)


class LocalBackend:
    """Commands over the parts in this process."""

    def __init__(self, perito: Perito) -> None:
        self._perito = perito

    async def ingest(self, file: Path, collection: str, password: str, on_progress: OnProgress) -> DocumentShape:
        upload = Upload(file, file.name, collection, password, urgency=Urgency.BULK)
        submission = await self._perito.worker.submit(upload, LOCAL)
        document = await self.follow(submission.document.id, on_progress)
        return document.model_copy(update={"duplicate": submission.duplicate})

    async def submit(self, file: Path, name: str, collection: str) -> DocumentShape:
        submission = await self._perito.worker.submit(Upload(file, name, collection, urgency=Urgency.BULK), LOCAL)
        return DocumentShape.of(submission.document, submission.duplicate)

    async def follow(self, document_id: str, on_progress: OnProgress) -> DocumentShape:
        shape: DocumentShape | None = None
        async for progress in self._perito.worker.progress(document_id, LOCAL):
            shape = DocumentShape.of(progress.document)
            page = PageSummaryShape.of(progress.page) if progress.page else None
            on_progress(ProgressShape(document=shape, page=page))
        assert shape is not None  # progress always yields the document first
        return shape

    async def rename(self, document_id: str, name: str) -> DocumentShape:
        return DocumentShape.of(await self._perito.worker.rename(document_id, name, LOCAL))

    async def finish(self) -> None:
        await self._perito.worker.drain()

    async def ask(self, question: str, collection: str | None, on_piece: Callable[[str], None]) -> AnswerShape:
        async for piece in self._perito.assistant.answer(question, LOCAL.narrowed(collection)):
            if isinstance(piece, Answer):
                return AnswerShape.of(piece)
            on_piece(piece)
        raise AssertionError("an answer always ends with an Answer")

    async def documents(self, collection: str | None, query: DocumentQuery) -> list[DocumentShape]:
        found = await asyncio.to_thread(self._perito.catalogue.documents, LOCAL.narrowed(collection), query)
        return [DocumentShape.of(document) for document in found]

    async def document(self, document_id: str) -> DocumentDetailShape:
        def find() -> DocumentDetailShape:
            document = self._perito.catalogue.document(document_id, LOCAL)
            pages = [PageSummaryShape.of(page) for page in self._perito.catalogue.pages(document_id, LOCAL)]
            return DocumentDetailShape(document=DocumentShape.of(document), pages=pages)

        return await asyncio.to_thread(find)

    async def reread(self, document_id: str, on_progress: OnProgress) -> DocumentShape:
        await self._perito.worker.reread(document_id, LOCAL)
        document = await self.follow(document_id, on_progress)
        await self.finish()
        return document

    async def delete(self, document_id: str) -> None:
        await self._perito.worker.delete(document_id, LOCAL)

    async def usage(self, days: int | None) -> UsageTotalsShape:
        since = datetime.now(UTC) - timedelta(days=days) if days is not None else None
        return UsageTotalsShape.of(await asyncio.to_thread(self._perito.catalogue.usage_totals, LOCAL, since))

    async def jobs(self, state: JobState | None, limit: int) -> QueueShape:
        states = (state,) if state else tuple(each for each in JobState if each is not JobState.DONE)
        return QueueShape.of(await self._perito.worker.jobs(LOCAL, states, limit))

    async def job(self, document_id: str) -> JobShape:
        return JobShape.of(await self._perito.worker.job(document_id, LOCAL))

    async def retry(self, document_id: str) -> JobShape:
        return JobShape.of(await self._perito.worker.retry(document_id, LOCAL))

    async def cancel(self, document_id: str) -> JobShape:
        return JobShape.of(await self._perito.worker.cancel(document_id, LOCAL))

    async def pause(self) -> None:
        await self._perito.worker.pause(LOCAL)

    async def resume(self) -> None:
        await self._perito.worker.resume(LOCAL)
