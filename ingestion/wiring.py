"""Builds the worker: the one place of the write path that reads settings and constructs its parts."""

from __future__ import annotations

import os
from collections.abc import Callable

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Usage
from assistant.core.ports import ChunkIndex, Embedder
from assistant.core.settings import Settings
from ingestion.pipeline import Pipeline
from ingestion.publish import Publisher
from ingestion.readers.ocr import OcrReader
from ingestion.readers.vlm import VlmReader
from ingestion.worker import Worker


def build_pipeline(settings: Settings, record: Callable[[Usage], None]) -> tuple[Pipeline, OcrReader]:
    """The pipeline and the OCR processes it works with (to be closed by whoever owns them)."""
    ocr = OcrReader(settings.ocr)
    vlm = None
    if settings.vlm.configured:
        from assistant.core.llm import OpenAIChatModel

        vlm = VlmReader(OpenAIChatModel(settings.vlm, record), settings.vlm)
    processes = settings.ocr.processes or os.cpu_count() or 1
    in_flight = processes + 1 + (settings.vlm.concurrency if vlm else 0)
    return Pipeline(settings, ocr, vlm, in_flight), ocr


def build_worker(
    settings: Settings, *, catalogue: SqlCatalogue, blobs: FolderBlobStore, index: ChunkIndex, embedder: Embedder
) -> Worker:
    """The worker over the given stores."""
    pipeline, ocr = build_pipeline(settings, catalogue.record)
    publisher = Publisher(catalogue, index, embedder, settings.chunking)
    return Worker(pipeline, publisher, catalogue, blobs, ocr, settings.limits)
