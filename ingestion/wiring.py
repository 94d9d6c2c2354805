"""Builds the worker: the one place of the write path that reads settings and constructs its parts."""

from __future__ import annotations

from collections.abc import Callable

from assistant.core.blobs import FolderBlobStore
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Usage
from assistant.core.ports import ChunkIndex, Embedder
from assistant.core.settings import Settings
from ingestion.openfiles import FilePool
from ingestion.pipeline import Pipeline
from ingestion.publish import Publisher
from ingestion.readers.ocr import OcrReader
from ingestion.readers.vlm import VlmReader
from ingestion.runs import charged
from ingestion.worker import Worker


def build_pipeline(settings: Settings, record: Callable[[Usage], None]) -> tuple[Pipeline, OcrReader]:
    """The pipeline, which closes what it works with, and its OCR. ``record`` gets what the endpoints used."""
    ocr = OcrReader(settings.ocr)
    vlm = None
    if settings.vlm.configured:
        from assistant.core.llm import OpenAIChatModel

        vlm = VlmReader(OpenAIChatModel(settings.vlm, record), settings.vlm)
    transcriber = None
    if settings.transcription.configured:
        from assistant.core.transcriber import OpenAITranscriber

        transcriber = OpenAITranscriber(settings.transcription, record)
    return Pipeline(settings, ocr, vlm, ocr.processes + 1, transcriber), ocr


def build_files(settings: Settings) -> FilePool:
    """What opens the files that the pipeline reads."""
    recording_mb = settings.transcription.max_mb if settings.transcription.configured else 0
    return FilePool(settings.limits, settings.triage, recording_mb)


def build_worker(
    settings: Settings, *, catalogue: SqlCatalogue, blobs: FolderBlobStore, index: ChunkIndex, embedder: Embedder
) -> Worker:
    """The worker over the given stores. With the index in this process it is alone with them."""
    pipeline, ocr = build_pipeline(settings, charged(catalogue.record))
    files = build_files(settings)
    publisher = Publisher(catalogue, index, embedder, settings.chunking)
    alone = settings.index.kind == "edge"
    parts = (pipeline, publisher, catalogue, blobs, files, ocr, settings.limits, settings.worker)
    return Worker(*parts, alone=alone)
