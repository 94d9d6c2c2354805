"""The path of a document: routes end to end, and a VLM that helps, lies or is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from assistant.core.domain import WHOLE_PAGE, Block, BlockKind, Box, PageReading, PageStatus, Reader, Reading
from assistant.core.errors import EndpointDown, Misconfigured, UnreadableFile, WorkerDied
from assistant.core.settings import load_settings
from ingestion.firstlook import FirstLook
from ingestion.openfiles import FilePool, OpenFile
from ingestion.pipeline import Draft, Pipeline, StructuringReader
from ingestion.readers.ocr import OcrReader
from ingestion.triage import Judgement
from tests.documents import shared
from tests.fakes import ScriptedReader, vlm_reading


async def read(path: Path, ocr: StructuringReader, vlm: ScriptedReader | None = None) -> list[PageReading]:
    pipeline = Pipeline(load_settings(), ocr, vlm, in_flight=3)
    with open_file(path) as file:
        return [page async for page in pipeline.read_document(file)]


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    settings = load_settings()
    files = FilePool(settings.limits, settings.triage)
    try:
        with files.open(path) as file:
            yield file
    finally:
        files.close()


MANUSCRIPT = "handwriting/htr_Francais_4108_f23.jpg"


async def test_a_manuscript_waits_for_a_vlm_where_there_is_none(ocr_reader: OcrReader) -> None:
    (page,) = await read(shared(MANUSCRIPT), ocr_reader)
    assert page.status is PageStatus.LOW_CONFIDENCE
    assert page.receipt.wants_vlm
    deciding = [decision for decision in page.receipt.decisions if decision.outcome == Reader.VLM]
    assert deciding
    assert page.receipt.reason


async def test_a_vlm_reading_is_published_and_all_readings_are_kept(ocr_reader: OcrReader) -> None:
    vlm = ScriptedReader(vlm_reading("Lettre du roi"))
    (page,) = await read(shared(MANUSCRIPT), ocr_reader, vlm)
    assert (page.reader, page.status) == (Reader.VLM, PageStatus.READ)
    assert page.text == "Lettre du roi"
    assert [reading.reader for reading in page.readings] == [Reader.OCR, Reader.VLM]
    assert page.receipt.visual_tokens == 1500
    assert not page.receipt.wants_vlm


@pytest.mark.parametrize(
    "answer",
    [
        EndpointDown("The endpoint does not answer"),
        Misconfigured("The endpoint serves no such model"),
        vlm_reading(note="It repeated itself."),
    ],
)
async def test_whatever_the_vlm_does_the_ocrs_reading_stands(
    ocr_reader: OcrReader, answer: Reading | Exception
) -> None:
    (page,) = await read(shared(MANUSCRIPT), ocr_reader, ScriptedReader(answer))
    assert page.reader is Reader.OCR
    assert page.status is PageStatus.LOW_CONFIDENCE
    assert page.text
    assert page.receipt.wants_vlm


async def test_regions_that_got_no_answer_keep_what_the_ocr_read() -> None:
    """Of two regions the VLM answers for one: the other's text must not go with it."""
    top, bottom = Box.of(0, 0, 1, 0.5), Box.of(0, 0.5, 1, 1)
    path = shared("charts_figures/embedded-images.pdf")
    cheap = Reading(
        Reader.OCR,
        (
            Block(BlockKind.PARAGRAPH, "kept", bottom, 0.9, Reader.OCR),
            Block(BlockKind.PARAGRAPH, "old", top, 0.9, Reader.OCR),
        ),
        0.9,
        0.1,
    )
    better = Reading(
        Reader.VLM, (Block(BlockKind.PARAGRAPH, "new", top, 0.9, Reader.VLM),), 0.9, 0.1, note="one was cut off"
    )
    pipeline = Pipeline(load_settings(), ScriptedReader(cheap), ScriptedReader(better), in_flight=1)
    with open_file(path) as file:
        page = file.look(1).result()
        draft = Draft(cheap.blocks, (cheap,))
        judgement = Judgement(PageStatus.READ, 0.9, wants_vlm=True, vlm_regions=(top, bottom))
        draft, _ = await pipeline._read_expensively(ScriptedReader(better), file, page, draft, judgement, False)
    assert {block.text for block in draft.blocks} == {"kept", "new"}


async def test_clean_print_never_reaches_the_vlm(ocr_reader: OcrReader) -> None:
    vlm = ScriptedReader(AssertionError("clean print costs no visual tokens"))
    (page,) = await read(shared("scan_clean/typewriter.png"), ocr_reader, vlm)
    assert (page.reader, page.status) == (Reader.OCR, PageStatus.READ)
    assert not vlm.shown


async def test_a_turned_page_is_shown_upright_to_the_vlm() -> None:
    lying = Block(BlockKind.PARAGRAPH, "illegible", WHOLE_PAGE, 0.3, Reader.OCR)
    features = {"mean_confidence": 0.3, "weak_share": 1.0}
    ocr = ScriptedReader(Reading(Reader.OCR, (lying,), 0.3, 0.1, turned=90, features=features))
    vlm = ScriptedReader(vlm_reading("Upright now"))
    (page,) = await read(shared("rotated/es_modelo145_sideways.jpg"), ocr, vlm)
    (seen, regions) = vlm.shown[0]
    (given, _) = ocr.shown[0]
    assert seen == (given[1], given[0])
    assert regions == ()
    assert (page.turned, page.width > 0) == (90, True)
    assert (page.width > page.height) == (seen[0] > seen[1])


async def test_a_page_that_kills_its_ocr_process_costs_that_page_only() -> None:
    ocr = ScriptedReader(WorkerDied("The OCR process ran out of time on this page"))
    pages = await read(shared("scan_clean/2206.01062.tif"), ocr)
    assert pages
    assert {page.status for page in pages} == {PageStatus.FAILED}
    assert all("ran out of time" in page.error for page in pages)


async def test_a_page_that_cannot_be_loaded_is_failed_and_the_others_are_read() -> None:
    path = shared("digital_text/multi_page.pdf")
    pipeline = Pipeline(load_settings(), ScriptedReader(AssertionError("no OCR here")), None, in_flight=2)
    with open_file(path) as file:

        class Torn:
            about = file.about

            def look(self, number: int) -> Future[FirstLook]:
                if number == 2:
                    raise UnreadableFile(f"Page {number} was cut off")
                if number == 3:
                    raise ZeroDivisionError("a bug in a library")
                return file.look(number)

        pages = [page async for page in pipeline.read_document(Torn())]  # pyright: ignore[reportArgumentType]
    by_number = {page.number: page for page in pages}
    assert sorted(by_number) == [1, 2, 3, 4, 5]
    assert "cut off" in by_number[2].error
    assert "ZeroDivisionError" in by_number[3].error
    assert {by_number[n].status for n in (1, 4, 5)} == {PageStatus.READ}


async def test_a_mixed_page_has_the_words_of_both_readers(ocr_reader: OcrReader) -> None:
    """A digital page with a scanned picture: its text from the layer, the picture's from OCR, none twice."""
    (page, *_) = await read(shared("charts_figures/embedded-images.pdf"), ocr_reader)
    assert page.reader in (Reader.MIXED, Reader.TEXT)
    readers = {reading.reader for reading in page.readings}
    assert readers == {Reader.TEXT, Reader.OCR}
    texts = [block.text for block in page.blocks if len(block.text) > 30]
    assert len(texts) == len(set(texts))
