"""What the queue costs: the same pages read, published and kept through the worker and by hand; and nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Access, Document, DocumentStatus
from assistant.core.embedder import open_embedder
from assistant.core.index import open_index
from assistant.core.ports import Upload
from assistant.core.settings import Settings, load_settings
from eval.bench.long_document import repeated
from eval.bench.table import Table
from ingestion.publish import Cuts, Publisher
from ingestion.wiring import build_files, build_pipeline, build_worker
from ingestion.worker import Worker

PAGES = 300
ROUNDS = 3
NOTHINGS = 30
ALL = Access("bench", None)


def run(documents: Path) -> Table:
    """Seconds for 300 text pages by hand and through the worker, in turn; and milliseconds from asking for a document
    that is read already to be published anew, to its end."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(documents, Path(folder)))


async def _measured(documents: Path, folder: Path) -> Table:
    file = repeated(documents, folder / "long.pdf", PAGES)
    note = folder / "note.txt"
    note.write_text("A line.", "utf-8")
    by_hand: list[float] = []
    queued: list[float] = []
    nothings: list[float] = []
    for at in range(ROUNDS):
        by_hand.append(await _by_hand(load_settings(home=str(folder / f"hand-{at}")), file))
        seconds, nothings = await _queued(load_settings(home=str(folder / f"queue-{at}")), file, note)
        queued.append(seconds)
    hand, queue = median(by_hand), median(queued)
    row = (
        PAGES,
        round(hand, 2),
        round(queue, 2),
        round(100 * (queue / hand - 1), 1),
        round(1000 * median(nothings), 1),
    )
    columns = ("pages", "by hand s", "through the worker s", "dearer by %", "nothing to read ms")
    notes = (
        f"Medians of {ROUNDS} rounds in turn, vectors left out; by hand: read, publish, keep, cut again, in one loop.",
        "Nothing to read: a document of one page is put in the queue again, taken, looked through and ended.",
    )
    return Table("queue", "The queue's cost", columns, [row], notes, "at most 10 % dearer; nothing under 20 ms")


def _parts(settings: Settings, opened: contextlib.ExitStack) -> dict[str, Any]:
    settings.home.mkdir(parents=True)
    catalogue = SqlCatalogue.open(f"sqlite:///{settings.home / 'perito.db'}")
    opened.callback(catalogue.close)
    embedder = open_embedder(settings.embedding)
    index = open_index(settings.index, settings.home / "index", embedder)
    opened.callback(index.close)
    blobs = FolderBlobStore(settings.home / "blobs", settings.limits.free_disk_mb)
    return {"catalogue": catalogue, "blobs": blobs, "index": index, "embedder": embedder}


async def _by_hand(settings: Settings, file: Path) -> float:
    with contextlib.ExitStack() as opened:
        parts = _parts(settings, opened)
        catalogue: SqlCatalogue = parts["catalogue"]
        publisher = Publisher(catalogue, parts["index"], parts["embedder"], settings.chunking)
        publisher.warm()
        files, (pipeline, _) = build_files(settings), build_pipeline(settings, lambda _: None)
        opened.callback(files.close)
        files.warm()
        await asyncio.sleep(2)
        document, _ = catalogue.claim_document(
            Document("d", file.name, "0" * 64, "default", DocumentStatus.READING, pages=PAGES), "0" * 64
        )
        cuts, started = Cuts(), time.perf_counter()
        with files.open(file) as source:
            async for page in pipeline.read_document(source):
                await asyncio.to_thread(publisher.publish_page, document, page, cuts)
                await asyncio.to_thread(catalogue.put_page, document.id, page)
        pages = {page.number: page for page in catalogue.pages(document.id, ALL)}
        publisher.finish_document(document, sorted(pages), pages.__getitem__, cuts)
        catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE))
        seconds = time.perf_counter() - started
        await pipeline.aclose()
    return seconds


async def _queued(settings: Settings, file: Path, note: Path) -> tuple[float, list[float]]:
    with contextlib.ExitStack() as opened:
        parts = _parts(settings, opened)
        worker = build_worker(settings, **parts)
        worker._publisher.embed_pending = lambda *_: 0  # pyright: ignore
        worker._publisher.warm()  # pyright: ignore[reportPrivateUsage]
        await worker.start()
        await asyncio.sleep(2)
        accepted = (await worker.submit(Upload(note, note.name), ALL)).document
        await _ended(worker, accepted)
        submission = await worker.submit(Upload(file, file.name), ALL)
        started = time.perf_counter()
        await _ended(worker, submission.document)
        seconds = time.perf_counter() - started
        nothings = [await _nothing(worker, parts["catalogue"], accepted) for _ in range(NOTHINGS)]
        await worker.aclose()
    return seconds, nothings


async def _nothing(worker: Worker, catalogue: SqlCatalogue, document: Document) -> float:
    """Seconds from putting a read document in the queue again to its end; a whole one would not be tried again."""
    await asyncio.to_thread(catalogue.update_document, replace(document, status=DocumentStatus.PARTIAL))
    queued = await asyncio.to_thread(catalogue.queue.retry, document.id)
    assert queued.status is DocumentStatus.QUEUED
    started = time.perf_counter()
    worker._crew.wake()  # pyright: ignore[reportPrivateUsage]
    await _ended(worker, document)
    seconds = time.perf_counter() - started
    assert catalogue.document(document.id, ALL).status is DocumentStatus.COMPLETE
    return seconds


async def _ended(worker: Worker, document: Document) -> None:
    async for _ in worker.progress(document.id, ALL):
        pass
