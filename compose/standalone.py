"""All of Perito in one process: stores, worker and assistant, opened together and closed together."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from assistant.answering import Assistant
from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.embedder import open_embedder
from assistant.core.errors import DiskFull, Misconfigured, StoreBusy
from assistant.core.index import open_index
from assistant.core.ports import ChunkIndex, Embedder
from assistant.core.settings import Settings
from assistant.wiring import build_assistant
from ingestion.officepages import OfficePages
from ingestion.pageimages import SourcePageImages
from ingestion.wiring import build_worker
from ingestion.worker import Worker

LOCK_SECONDS = 20.0  # a second command waits this long for the first to finish
THREADS = 32  # as many as the catalogue has connections; files being accepted wait in some, and no question behind them


@dataclass(frozen=True, slots=True)
class Perito:
    """The running parts."""

    settings: Settings
    blobs: FolderBlobStore
    catalogue: SqlCatalogue
    embedder: Embedder
    index: ChunkIndex
    worker: Worker
    assistant: Assistant
    page_images: SourcePageImages


@contextlib.asynccontextmanager
async def open_perito(
    settings: Settings, *, reads: bool = True, patience: float = LOCK_SECONDS
) -> AsyncGenerator[Perito]:
    """Everything over ``settings.home``, started; with ``reads`` false it accepts and reads nothing. StoreBusy while
    another process uses that home, for longer than ``patience`` in seconds."""
    if not reads:
        settings = settings.model_copy(update={"worker": settings.worker.model_copy(update={"where": "elsewhere"})})
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, "perito"))
    await asyncio.to_thread(make_home, settings.home)
    async with contextlib.AsyncExitStack() as opened:
        await opened.enter_async_context(own_home(settings, patience))
        perito = await asyncio.to_thread(_build, settings, opened)
        opened.push_async_callback(perito.assistant.aclose)
        opened.push_async_callback(perito.worker.aclose)
        await perito.worker.start()
        yield perito


def make_home(home: Path) -> None:
    """Create the home, for its owner only. Misconfigured or DiskFull where that cannot be."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        kind = DiskFull if error.errno == 28 else Misconfigured
        raise kind(
            f"The home {home} cannot be used: {error.strerror}", "Set PERITO_HOME to a writable folder"
        ) from None
    if not os.access(home, os.W_OK):
        raise Misconfigured(f"The home {home} is not writable", "Set PERITO_HOME to a writable folder")


def catalogue_url(settings: Settings) -> str:
    """Where the catalogue is: what is set, else SQLite in the home."""
    return settings.catalogue.url or f"sqlite:///{settings.home / 'perito.db'}"


@contextlib.asynccontextmanager
async def own_home(settings: Settings, patience: float = LOCK_SECONDS) -> AsyncGenerator[None]:
    """Hold the home while the embedded index lives in it; with a Qdrant server many processes may share it."""
    if settings.index.kind != "edge":
        yield
        return
    busy = StoreBusy(
        f"Another Perito process works in {settings.home}",
        "Wait until it is done, or start `perito serve` and let commands share it",
    )
    lock = FileLock(settings.home / "perito.lock", thread_local=False)  # the threads below are not the same
    try:
        await asyncio.to_thread(lock.acquire, patience)
    except Timeout:
        raise busy from None
    try:
        yield
    finally:
        await asyncio.to_thread(lock.release)


def _build(settings: Settings, opened: contextlib.AsyncExitStack) -> Perito:
    """The parts; ``opened`` closes the stores, also when a later part fails."""
    blobs = FolderBlobStore(settings.home / "blobs", settings.limits.free_disk_mb)
    catalogue = SqlCatalogue.open(catalogue_url(settings))
    opened.callback(catalogue.close)
    embedder = open_embedder(settings.embedding)
    index = open_index(settings.index, settings.home / "index", embedder)
    opened.callback(index.close)
    worker = build_worker(settings, catalogue=catalogue, blobs=blobs, index=index, embedder=embedder)
    assistant = build_assistant(settings, index=index, embedder=embedder, catalogue=catalogue, ingestion=worker)
    office = OfficePages(blobs, worker.files, settings.limits.office_seconds)
    page_images = SourcePageImages(catalogue, blobs, worker.files, office)
    return Perito(settings, blobs, catalogue, embedder, index, worker, assistant, page_images)
