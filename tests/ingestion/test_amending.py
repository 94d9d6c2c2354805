"""Moving and correcting through the real worker: what is found follows, at once and wholly; nothing is read again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from assistant.core.domain import Access, Answer, Correction, Document, DocumentStatus
from assistant.core.errors import BadRequest, NotFound, StoreBusy
from assistant.core.ports import SearchQuery, Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion.pipeline import Pipeline
from tests.fakes import ScriptedReader, vlm_reading
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

ALL = Access("ana", None)
TEXT = "La renta mensual es de 1.250 eur0s.\n\nEl contrato vence el 31 de diciembre de 2027.\n"


@pytest_asyncio.fixture
async def perito() -> AsyncIterator[Perito]:
    async with open_perito(load_settings()) as perito:
        yield perito


async def ended(perito: Perito, document_id: str) -> Document:
    async for _ in perito.worker.progress(document_id, ALL):
        pass
    await perito.worker.drain()
    return perito.catalogue.document(document_id, ALL)


async def taken_in(perito: Perito, folder: Path, name: str = "renta.txt", text: str = TEXT) -> Document:
    path = folder / name
    path.write_text(text, "utf-8")
    submission = await perito.worker.submit(Upload(path, name, "legal"), ALL)
    return await ended(perito, submission.document.id)


def found(perito: Perito, words: str, collection: str | None = None) -> list[str]:
    hits = perito.index.search(SearchQuery(words, None, ALL.narrowed(collection)))
    return [hit.chunk.text for hit in hits]


async def test_a_moved_document_is_found_there_and_only_there(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await taken_in(perito, tmp_path)
    monkeypatch.setattr(Pipeline, "read_page", None)  # nothing is read again
    await perito.worker.move(document.id, "archive", ALL)
    assert found(perito, "renta", "legal") == []
    assert len(found(perito, "renta", "archive")) == 1
    after = await ended(perito, document.id)
    assert after == replace(document, collection="archive", seconds=after.seconds)
    assert after.chunks == after.chunks_embedded == perito.index.count(document.id) > 0
    with pytest.raises(NotFound):
        perito.catalogue.document(document.id, ALL.narrowed("legal"))


async def test_a_renamed_document_is_cited_by_its_new_name_and_read_no_more(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await taken_in(perito, tmp_path)
    monkeypatch.setattr(Pipeline, "read_page", None)
    monkeypatch.setattr(perito.embedder, "embed_passages", None)  # and no vector is made again
    await perito.worker.rename(document.id, "2031 › lease.txt", ALL)
    after = await ended(perito, document.id)
    assert after == replace(document, name="2031 › lease.txt", seconds=after.seconds)
    hits = perito.index.search(SearchQuery("renta", None, ALL))
    assert {hit.chunk.document for hit in hits} == {"2031 › lease.txt"}


async def test_chunks_left_behind_by_a_crash_follow_at_the_next_start(
    perito: Perito, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await taken_in(perito, tmp_path)

    def fail(*_: object) -> None:
        raise StoreBusy("the index is busy")

    with monkeypatch.context() as patched:
        patched.setattr(perito.index, "move", fail)
        with pytest.raises(StoreBusy):
            await perito.worker.move(document.id, "archive", ALL)
    assert (await ended(perito, document.id)).status is DocumentStatus.COMPLETE
    assert found(perito, "renta", "legal") == []
    assert len(found(perito, "renta", "archive")) == 1


async def test_what_a_person_corrects_is_found_and_stays_through_readings(perito: Perito, tmp_path: Path) -> None:
    document = await taken_in(perito, tmp_path)
    block = perito.catalogue.page(document.id, 1, ALL).blocks[0]
    word = Correction(1, block.bbox, "La renta mensual es de 1.250 euros.", block.text)
    queued = await perito.worker.correct(document.id, word, ALL)
    assert not queued.status.is_final
    await ended(perito, document.id)
    assert "1.250 euros." in found(perito, "euros")[0]
    shown = perito.catalogue.page(document.id, 1, ALL).blocks[0]
    assert (shown.text, shown.corrected_by, shown.confidence) == (word.text, "ana", 1.0)
    pieces = [piece async for piece in perito.assistant.answer("¿Cuánto es la renta?", ALL)]
    answer = next(piece for piece in pieces if isinstance(piece, Answer))
    assert [cited.corrected_by for cited in answer.citations] == [("ana",)]  # it is told where it is cited

    await perito.worker.reread(document.id, ALL)
    assert (await ended(perito, document.id)).status is DocumentStatus.COMPLETE
    assert "1.250 euros." in found(perito, "euros")[0]
    (kept,) = perito.catalogue.corrections(document.id, ALL)
    await perito.worker.withdraw_correction(document.id, kept.id, ALL)
    await ended(perito, document.id)
    (back,) = perito.index.search(SearchQuery("renta", None, ALL))
    assert "eur0s" in back.chunk.text
    assert back.chunk.corrected_by == ()


async def test_a_mark_without_a_text_changes_nothing_that_is_found(perito: Perito, tmp_path: Path) -> None:
    document = await taken_in(perito, tmp_path)
    block = perito.catalogue.page(document.id, 1, ALL).blocks[0]
    marked = await perito.worker.correct(document.id, Correction(1, block.bbox, None, block.text), ALL)
    assert marked.status is DocumentStatus.COMPLETE
    assert "eur0s" in found(perito, "renta")[0]
    with pytest.raises(BadRequest):
        await perito.worker.move(document.id, " ", ALL)


async def test_the_page_of_a_mark_is_read_by_the_better_reader_and_no_other(perito: Perito, tmp_path: Path) -> None:
    words = ("The first page speaks of apples.", "The second page speaks of pe@rs.", "The third page speaks of plums.")
    path = write_pdf(tmp_path / "fruit.pdf", [PdfPage(text_at(72, 700, f"{line} " * 2)) for line in words])
    submission = await perito.worker.submit(Upload(path, "fruit.pdf", "legal"), ALL)
    document = await ended(perito, submission.document.id)
    assert document.readers == {"text": 3}
    block = perito.catalogue.page(document.id, 2, ALL).blocks[0]
    mark = Correction(2, block.bbox, None, block.text)
    await perito.worker.correct(document.id, mark, ALL)  # there is no better reader: nothing is read again
    assert perito.catalogue.document(document.id, ALL).status is DocumentStatus.COMPLETE

    expert = ScriptedReader(vlm_reading("The second page speaks of pears."))
    perito.worker._pipeline._vlm = expert  # pyright: ignore[reportPrivateUsage]
    queued = await perito.worker.correct(document.id, mark, ALL)
    assert (queued.status, queued.pages_done) == (DocumentStatus.QUEUED, 2)
    after = await ended(perito, document.id)
    assert (after.status, after.readers) == (DocumentStatus.COMPLETE, {"text": 2, "vlm": 1})
    assert len(expert.shown) == 1
    assert "pears" in found(perito, "pears")[0]
    assert not any("pe@rs" in text for text in found(perito, "pears"))
    page = perito.catalogue.page(document.id, 2, ALL)
    assert "marked as misread?" in [decision.question for decision in page.receipt.decisions]

    await perito.worker.reread(document.id, ALL)  # the mark outlives the reading
    assert (await ended(perito, document.id)).readers == {"text": 2, "vlm": 1}
    assert len(expert.shown) == 2


async def test_a_text_of_ours_is_not_looked_at_for_a_mark(perito: Perito, tmp_path: Path) -> None:
    """A text file's page is drawn by us: no reader can see more on it than the file says."""
    document = await taken_in(perito, tmp_path)
    expert = ScriptedReader(vlm_reading("Something else."))
    perito.worker._pipeline._vlm = expert  # pyright: ignore[reportPrivateUsage]
    block = perito.catalogue.page(document.id, 1, ALL).blocks[0]
    await perito.worker.correct(document.id, Correction(1, block.bbox, None, block.text), ALL)
    await perito.worker.reread(document.id, ALL)
    assert (await ended(perito, document.id)).readers == {"text": 1}
    assert expert.shown == []
