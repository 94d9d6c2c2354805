"""The whole path of a page with a real endpoint that talks nonsense: what OCR read must stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.core.domain import PageReading, Reader, Usage
from assistant.core.llm import OpenAIChatModel
from assistant.core.settings import load_settings
from ingestion.pipeline import Pipeline
from ingestion.readers.ocr import OcrReader
from ingestion.readers.vlm import VlmReader
from ingestion.wiring import build_files
from tests.documents import shared
from tests.vllm.server import MODEL, VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PAGE = "handwriting/htr_Francais_4108_f23.jpg"  # OCR is unsure of it, so it is escalated


async def read(base_url: str, home: Path, usages: list[Usage]) -> PageReading:
    vlm = {"base_url": base_url, "model": MODEL, "max_tokens": 32, "max_visual_tokens": 1024, "retries": 0}
    settings = load_settings(home=home, vlm=vlm, ocr={"processes": 1})
    reader = VlmReader(OpenAIChatModel(settings.vlm, usages.append), settings.vlm)
    ocr = OcrReader(settings.ocr)
    try:
        files = build_files(settings)
        try:
            with files.open(shared(PAGE), name="page.jpg") as file:
                return await Pipeline(settings, ocr, reader, in_flight=1).read_page(file, 1)
        finally:
            files.close()
    finally:
        await ocr.aclose()
        await reader.aclose()


async def test_a_hard_page_is_asked_for_and_nonsense_is_set_aside(server: VllmServer, tmp_path: Path) -> None:
    usages: list[Usage] = []
    page = await read(server.base_url, tmp_path, usages)
    assert (page.error, page.reader) == ("", Reader.OCR)
    assert page.blocks
    assert [reading.reader for reading in page.readings] == [Reader.OCR, Reader.VLM]
    nonsense = page.readings[1]
    assert (nonsense.blocks, nonsense.confidence) == ((), 0.0)
    assert nonsense.note and nonsense.note in page.receipt.reason
    assert 700 < page.receipt.visual_tokens <= 1024
    assert [(usage.purpose, usage.visual_tokens) for usage in usages] == [("page", page.receipt.visual_tokens)]
    assert page.receipt.wants_vlm  # it stays in the backlog for a better model


async def test_a_hard_page_is_read_all_the_same_when_nobody_answers(tmp_path: Path) -> None:
    page = await read("http://127.0.0.1:9/v1", tmp_path, [])
    assert (page.error, page.reader) == ("", Reader.OCR)
    assert page.blocks
    assert "did not answer" in page.receipt.reason
