"""The transcription client against a fake endpoint on the wire (``tests/ingestion/recordings.py``): what it sends, what
it makes of replies, and what it calls failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from assistant.core.domain import TimeSpan, Usage
from assistant.core.endpoints import RetryPolicy
from assistant.core.errors import BadRequest, EndpointBusy, EndpointDown, Misconfigured, TooLarge
from assistant.core.ports import Segment, Transcript
from assistant.core.settings import TranscriptionSettings
from assistant.core.transcriber import OpenAITranscriber
from tests.ingestion.recordings import Transcriptions, reply, tone, transcribing

SAID = reply((0.0, 2.5, "Hola."), (2.5, 4.0, "Adiós."), sure=0.9)


async def quickly(_: float) -> None: ...


async def heard(
    endpoint: Transcriptions, folder: Path, used: list[Usage] | None = None, **settings: object
) -> Transcript:
    values = {"base_url": endpoint.base_url, "model": "whisper-1", "api_key": "secret", "timeout": 5.0} | settings
    client = OpenAITranscriber(
        TranscriptionSettings(**values),  # pyright: ignore[reportArgumentType]
        (used if used is not None else []).append,
        retry=RetryPolicy(sleep=quickly),
    )
    path = folder / "voz.wav"
    await asyncio.to_thread(path.write_bytes, tone(2))
    try:
        with blockbuster_ctx(["assistant", "openai", "httpx"]):
            return await client.transcribe(path, "audio/wav")
    finally:
        await client.aclose()


async def test_it_asks_as_documented_and_streams_the_file(tmp_path: Path) -> None:
    used: list[Usage] = []
    with transcribing((200, SAID, {})) as endpoint:
        transcript = await heard(endpoint, tmp_path, used, language="es", price_minute=0.6)
    (asked,) = endpoint.heard
    assert (asked.path, asked.authorization) == ("/v1/audio/transcriptions", "Bearer secret")
    assert asked.fields == {
        "model": "whisper-1",
        "response_format": "verbose_json",
        "timestamp_granularities[]": "segment",
        "temperature": "0.0",
        "language": "es",
    }
    assert (asked.name, asked.media_type, asked.data) == ("recording.wav", "audio/wav", tone(2))
    assert [segment.text for segment in transcript.segments] == ["Hola.", "Adiós."]
    assert transcript.segments[0].time == TimeSpan(0.0, 2.5)
    assert transcript.segments[0].confidence == pytest.approx(0.9)
    assert (used[0].purpose, used[0].price, used[0].estimated) == ("recording", pytest.approx(4 / 60 * 0.6), False)


async def test_replies_without_times_or_with_odd_ones_are_made_the_best_of(tmp_path: Path) -> None:
    with transcribing((200, {"text": "Hola. Adiós."}, {})) as endpoint:
        whole = await heard(endpoint, tmp_path)
    assert whole.segments == (Segment(TimeSpan(0.0, 0.0), "Hola. Adiós."),)
    odd = {"text": "x", "duration": "9.5", "segments": [
        {"start": 5, "end": 4, "text": "b"}, {"start": "nan", "end": 1, "text": "no"}, {"start": 0, "text": "a"},
        {"start": -1, "end": 2, "text": " "}, {"start": 7, "end": 8, "text": None},
    ]}  # fmt: skip
    with transcribing((200, odd, {})) as endpoint:
        transcript = await heard(endpoint, tmp_path)
    assert transcript.segments == (Segment(TimeSpan(0.0, 0.0), "a"), Segment(TimeSpan(5.0, 5.0), "b"))


async def test_trouble_is_tried_again_and_then_named(tmp_path: Path) -> None:
    busy = (503, {"error": {"message": "loading"}}, {})
    with transcribing(busy, busy, (200, SAID, {})) as endpoint:
        assert (await heard(endpoint, tmp_path)).segments
    assert len(endpoint.heard) == 3
    with transcribing(busy) as endpoint, pytest.raises(EndpointBusy, match="loading"):
        await heard(endpoint, tmp_path, retries=1)
    with pytest.raises(EndpointDown, match="did not answer"):
        await heard(endpoint, tmp_path, retries=0)  # it is gone by now


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "words"),
    [
        (400, {"error": {"message": "Invalid file format."}}, {}, BadRequest, "Invalid file format"),
        (401, {"error": {"message": "no key"}}, {}, Misconfigured, "refused the key"),
        (404, {"detail": "Not Found"}, {}, Misconfigured, "has no transcriptions"),
        (200, b"<html>Sign in</html>", {"Content-Type": "text/html"}, Misconfigured, "instead of a reply"),
        (200, {"choices": []}, {}, Misconfigured, "instead of a reply"),
        (200, b"{", {}, EndpointDown, "unintelligible"),
    ],
)
async def test_what_will_not_pass_is_told_at_once(
    tmp_path: Path, status: int, body: object, headers: dict[str, str], kind: type[Exception], words: str
) -> None:
    with transcribing((status, body, headers)) as endpoint, pytest.raises(kind, match=words):
        await heard(endpoint, tmp_path, retries=0)
    assert len(endpoint.heard) == 1


async def test_what_is_over_the_endpoints_limit_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(tone(150))
    with transcribing((200, SAID, {})) as endpoint:
        settings = TranscriptionSettings(base_url=endpoint.base_url, model="whisper-1", max_mb=1)  # pyright: ignore
        with pytest.raises(TooLarge, match="takes 1 MB at most"):
            await OpenAITranscriber(settings, print).transcribe(path, "audio/wav")
    assert endpoint.heard == []
