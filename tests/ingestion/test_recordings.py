"""Recordings on their way in: told by their content, as long as they say, and what is said in them, with its times."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from assistant.core.domain import Access, Document, DocumentStatus, PageStatus, Reader, TimeSpan
from assistant.core.errors import TooLarge, UnsupportedFile
from assistant.core.ports import SearchQuery, Segment, Transcript, Upload
from assistant.core.settings import LimitSettings, load_settings
from compose.reading import file_reader
from compose.standalone import Perito, open_perito
from ingestion.readers.speech import read_recording
from ingestion.sources import open_source
from ingestion.sources.sniffing import sniff
from tests.ingestion.recordings import flac, mp3, mp4, opus, reply, tone, transcribing, webm

ALL = Access("ana", None)
LIMITS = LimitSettings()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("data", "media_type", "pages"),
    [
        (tone(1.5), "audio/wav", 1),
        (mp3(610), "audio/mpeg", 2),
        (mp3(610, tagged=False), "audio/mpeg", 2),
        (mp3(1801, counted=True), "audio/mpeg", 4),
        (flac(1199), "audio/flac", 2),
        (opus(1201), "audio/ogg", 3),
        (mp4(4000), "audio/mp4", 7),
        (mp4(4000, b"qt  "), "video/quicktime", 7),
        (mp4(30, b"isom"), "video/mp4", 1),
        (webm(700), "video/webm", 2),
        (webm(700, b"matroska"), "video/x-matroska", 2),
        (b"#!AMR\n" + bytes(900), "audio/amr", 1),  # does not say how long it is
        (b"ID3\x04\x00\x00\x00\x00\x00\x00" + bytes(200), "audio/mpeg", 1),
        (b"OggS\x00\x02" + bytes(200), "audio/ogg", 1),
        (b"RIFF\xff\xff\xff\xffWAVEfmt ", "audio/wav", 1),
    ],
)
def test_a_recording_is_told_by_its_content_and_is_as_long_as_it_says(
    data: bytes, media_type: str, pages: int, tmp_path: Path
) -> None:
    path = tmp_path / "recording.pdf"
    path.write_bytes(data)
    with open_source(path, limits=LIMITS, recording_mb=25) as source:
        assert (source.media_type, source.page_count) == (media_type, pages)


def test_what_is_no_recording_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "a.mid").write_bytes(b"MThd\x00\x00\x00\x06" + bytes(50))
    assert sniff(tmp_path / "a.mid").detail == "a MIDI file"
    (tmp_path / "a.riff").write_bytes(b"RIFF\x00\x00\x00\x00RMID" + bytes(50))
    assert sniff(tmp_path / "a.riff").kind == "other"


def test_without_an_endpoint_it_is_told_what_is_missing_and_over_its_limit_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "acto.wav"
    path.write_bytes(tone(130))
    with pytest.raises(UnsupportedFile, match="no transcription endpoint is set") as refused:
        open_source(path, limits=LIMITS)
    assert "transcription.base_url" in refused.value.advice
    with pytest.raises(TooLarge, match="takes 1 MB at most") as large:
        open_source(path, limits=LIMITS, recording_mb=1)
    assert "transcription.max_mb" in large.value.advice


def test_pages_are_stretches_of_time_and_paragraphs_know_theirs() -> None:
    said = (
        Segment(TimeSpan(0.0, 4.0), "Buenos días.", 0.9),
        Segment(TimeSpan(4.0, 9.5), "Empezamos con el acta.", 0.7),
        Segment(TimeSpan(20.0, 25.0), "Punto segundo.", 0.9),  # after a pause
        Segment(TimeSpan(1300.0, 1310.0), "Fin.", 0.2),
        Segment(TimeSpan(1900.0, 1903.0), "Después del final.", None),
    )
    pages = list(read_recording(Transcript(said, "whisper", 6.0), 3, 0.85))
    assert [page.status for page in pages] == [PageStatus.LOW_CONFIDENCE, PageStatus.BLANK, PageStatus.LOW_CONFIDENCE]
    first, second = pages[0].blocks
    assert (first.text, first.time, second.time) == (
        "Buenos días. Empezamos con el acta.",
        TimeSpan(0.0, 9.5),
        TimeSpan(20.0, 25.0),
    )
    assert first.bbox.y1 < second.bbox.y0
    assert first.reader is Reader.SPEECH
    assert 0.7 < first.confidence < 0.8
    assert [block.text for block in pages[2].blocks] == ["Fin.", "Después del final."]
    assert pages[1].receipt.reason == "Nobody says anything in this stretch."
    assert sum(page.seconds for page in pages) == pytest.approx(6.0)


def test_a_long_speech_is_cut_at_its_sentences_and_stays_on_its_sheet() -> None:
    said = tuple(
        Segment(TimeSpan(n * 3.0, n * 3.0 + 3.0), f"Frase número {n} de un discurso bastante largo.", 0.95)
        for n in range(200)
    )
    (page,) = read_recording(Transcript(said, "whisper"), 1, 0.85)
    assert len(page.blocks) > 10
    assert all(block.text.endswith(".") and len(block.text) < 900 for block in page.blocks)
    assert " ".join(block.text for block in page.blocks) == " ".join(segment.text for segment in said)
    assert all(0 < block.bbox.y0 < block.bbox.y1 < 1 for block in page.blocks)
    assert page.height > 842


@asynccontextmanager
async def hearing(base_url: str) -> AsyncIterator[Perito]:
    endpoint = {"base_url": base_url, "model": "whisper-1", "retries": 0, "price_minute": 0.006}
    async with open_perito(load_settings(transcription=endpoint)) as perito:
        yield perito


async def sent(perito: Perito, folder: Path, data: bytes, name: str = "pleno.wav") -> Document:
    path = folder / name
    await asyncio.to_thread(path.write_bytes, data)
    submission = await perito.worker.submit(Upload(path, name, "actas"), ALL)
    return submission.document


async def ended(perito: Perito, document: Document) -> Document:
    async for _ in perito.worker.progress(document.id, ALL):
        pass
    await perito.worker.drain()
    return perito.catalogue.document(document.id, ALL)


SAID = reply(
    (1.0, 6.0, "Se abre la sesión del pleno."),
    (612.0, 640.0, "La cuota de la piscina municipal sube a cuarenta euros."),
    (650.0, 655.0, "Se levanta la sesión."),
    duration=700.0,
)


async def test_what_is_said_is_found_and_cited_by_its_time(tmp_path: Path) -> None:
    with transcribing((200, SAID, {})) as endpoint:
        async with hearing(endpoint.base_url) as perito:
            document = await ended(perito, await sent(perito, tmp_path, tone(700, rate=500)))
            assert (document.status, document.pages, dict(document.readers)) == (
                DocumentStatus.COMPLETE,
                2,
                {"speech": 2},
            )
            (hit,) = perito.index.search(SearchQuery("cuota piscina", None, ALL))[:1]
            assert (hit.chunk.page, hit.chunk.reader) == (2, Reader.SPEECH)
            assert [str(time) for time in hit.chunk.anchors[0].times] == ["10:12–10:40", "10:50–10:55"]
            answer = None
            async for piece in perito.assistant.answer("¿A cuánto sube la cuota de la piscina?", ALL):
                answer = piece
            assert answer is not None
            assert not isinstance(answer, str)
            assert str(answer.citations[0].time) == "10:12–10:40"
            image = perito.page_images.page_image(document.id, 2, ALL, answer.citations[0].boxes)
            with Image.open(io.BytesIO(image)) as sheet:
                assert sheet.width == round(595 * 130 / 72)
            (used,) = perito.catalogue.usage_totals(ALL)
            assert (used.purpose, used.collection, used.calls) == ("recording", "actas", 1)
            assert used.price == pytest.approx(700 / 60 * 0.006)
    assert [heard.name for heard in endpoint.heard] == ["recording.wav"]


async def test_who_is_to_step_back_meanwhile_keeps_what_was_written_down(tmp_path: Path) -> None:
    file = tmp_path / "pleno.wav"
    await asyncio.to_thread(file.write_bytes, tone(700, rate=500))
    answers = iter([True])
    with transcribing((200, SAID, {})) as endpoint:
        settings = load_settings(transcription={"base_url": endpoint.base_url, "model": "whisper-1"})
        async with file_reader(settings) as reader:
            with reader.files.open(file) as opened:
                pages = reader.pipeline.read_document(opened, goes_on=lambda: next(answers, False))
                assert [page.number async for page in pages] == [1, 2]


async def test_a_recording_waits_for_an_endpoint_that_is_down_and_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingestion import crew

    monkeypatch.setattr(crew, "RETRY_SECONDS", (0.2,))
    with transcribing((200, SAID, {})) as endpoint:
        port = endpoint.port
    async with hearing(f"http://127.0.0.1:{port}/v1") as perito:
        document = await sent(perito, tmp_path, tone(1))
        async with asyncio.timeout(20):
            async for step in perito.worker.progress(document.id, ALL):
                if "did not answer" in step.document.error:
                    break
        assert perito.catalogue.document(document.id, ALL).status in (DocumentStatus.QUEUED, DocumentStatus.READING)
        with transcribing((200, SAID, {}), port=port):
            after = await ended(perito, document)
    assert (after.status, after.error) == (DocumentStatus.COMPLETE, "")


async def test_what_the_endpoint_refuses_fails_with_its_own_sentence(tmp_path: Path) -> None:
    refusal = {"error": {"message": "Invalid file format.", "type": "invalid_request_error"}}
    with transcribing((400, refusal, {})) as endpoint:
        async with hearing(endpoint.base_url) as perito:
            document = await ended(perito, await sent(perito, tmp_path, tone(1)))
    assert document.status is DocumentStatus.FAILED
    assert "Invalid file format" in document.error


async def test_a_recording_of_silence_is_complete_and_blank(tmp_path: Path) -> None:
    with transcribing((200, reply(duration=1.0), {})) as endpoint:
        async with hearing(endpoint.base_url) as perito:
            document = await ended(perito, await sent(perito, tmp_path, tone(1)))
            assert perito.catalogue.page(document.id, 1, ALL).status is PageStatus.BLANK
    assert document.status is DocumentStatus.COMPLETE
