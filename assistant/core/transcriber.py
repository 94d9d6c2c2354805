"""The client for transcription: any endpoint with OpenAI's ``/v1/audio/transcriptions``, over the ``openai`` package.

Asks for ``verbose_json``, which says when each segment is said. Files are streamed from the disk. Failures and retries
are those of the language models (``endpoints``).
"""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
import math
import mmap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from typing_extensions import Buffer

from assistant.core import endpoints
from assistant.core.domain import TimeSpan, Usage
from assistant.core.endpoints import Failed, RetryPolicy
from assistant.core.errors import Misconfigured, TooLarge
from assistant.core.llm import Lane, failure_of, note_usage
from assistant.core.ports import Segment, Transcript
from assistant.core.settings import MEGABYTE, TranscriptionSettings

log = logging.getLogger(__name__)

# What endpoints tell formats by: they look at the name's ending.
ENDINGS = {
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/mp4": "m4a", "audio/ogg": "ogg", "audio/flac": "flac",
    "audio/aac": "aac", "audio/amr": "amr", "video/mp4": "mp4", "video/quicktime": "mov", "video/webm": "webm",
    "video/x-matroska": "mkv", "video/x-msvideo": "avi", "video/x-flv": "flv", "video/x-ms-asf": "wmv",
    "video/mpeg": "mpeg",
}  # fmt: skip


class OpenAITranscriber:
    """A ``Transcriber``, for one event loop. ``record`` is called in a thread with what each recording used."""

    def __init__(
        self, settings: TranscriptionSettings, record: Callable[[Usage], None], *, retry: RetryPolicy | None = None
    ) -> None:
        if not settings.configured:
            raise Misconfigured("No transcription endpoint is set", "Set transcription.base_url and .model")
        self._settings = settings
        self._record = record
        self._retry = retry or RetryPolicy()
        self._lane = Lane(asyncio.Semaphore(settings.concurrency))

    async def transcribe(self, path: Path, media_type: str) -> Transcript:
        """See ``Transcriber.transcribe``."""
        size = (await asyncio.to_thread(path.stat)).st_size
        if size > self._settings.max_mb * MEGABYTE:
            raise TooLarge(
                f"The recording has {size / MEGABYTE:.0f} MB, and the transcription endpoint takes "
                f"{self._settings.max_mb} MB at most",
                "Split it, or compress it to MP3 or Opus; or raise transcription.max_mb if the endpoint takes more",
            )
        for tries in itertools.count(1):
            started = time.perf_counter()
            try:
                async with self._lane.slots:
                    reply = await self._asked(path, media_type)
                seconds = time.perf_counter() - started
                transcript = Transcript(tuple(_segments(reply)), self._settings.model, seconds)
            except Failed as failed:
                if self._retry.gives_up(failed.failure, tries, self._settings.retries):
                    raise failed.failure.error from failed.__cause__
                delay = self._retry.delay(failed.failure, tries)
                log.warning("try %d failed, again in %.1f s: %s", tries, delay, failed.failure.error.message)
                await self._retry.sleep(delay)
            else:
                await self._keep(reply, transcript)
                return transcript
        raise AssertionError("a transcription ends with its text or an error")

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._lane.client = self._lane.client, None
        if client is not None:
            await client.close()

    async def _asked(self, path: Path, media_type: str) -> Any:
        """The endpoint's reply. Failed."""
        import openai

        client = await self._lane.connected(self._settings)
        file = await asyncio.to_thread(_MappedFile, path)
        try:
            reply = await client.audio.transcriptions.create(**self._arguments(file, media_type))
        except openai.APIError as error:
            raise Failed(failure_of(error, self._settings)) from error
        except ValueError as error:
            raise Failed(endpoints.garbled(f"sent something unintelligible: {error}", self._settings)) from error
        finally:
            file.close()
        if not isinstance(getattr(cast("Any", reply), "text", None), str):  # the package checks nothing
            raise Failed(endpoints.not_an_api("something else", self._settings))
        return reply

    def _arguments(self, file: _MappedFile, media_type: str) -> dict[str, Any]:
        name = f"recording.{ENDINGS.get(media_type, 'bin')}"
        return {
            "file": (name, file, media_type),
            "model": self._settings.model,
            "response_format": "verbose_json",
            "timestamp_granularities": ["segment"],
            "temperature": self._settings.temperature,
        } | ({"language": self._settings.language} if self._settings.language else {})

    async def _keep(self, reply: Any, transcript: Transcript) -> None:
        """Note in the ledger what it used."""
        told = _number(getattr(reply, "duration", None))
        length = told or max((segment.time.end for segment in transcript.segments), default=0.0)
        usage = Usage(
            purpose="recording",
            model=self._settings.model,
            seconds=transcript.seconds,
            price=length / 60 * self._settings.price_minute,
            estimated=told is None,
        )
        await note_usage(self._record, usage)


class _MappedFile(io.RawIOBase):
    """A file as memory: the HTTP library reads it piece by piece in the event loop, which must not wait for the disk,
    and it must not lie in our own memory. It is read ahead when it is opened. Blocks."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_WILLNEED"):
            self._data.madvise(mmap.MADV_WILLNEED)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        """As of any file."""
        view = memoryview(buffer)
        piece = self._data.read(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of any file."""
        base = (0, self._data.tell(), len(self._data))[whence]
        self._data.seek(base + offset)
        return self._data.tell()

    def tell(self) -> int:
        return self._data.tell()

    def close(self) -> None:
        if not self.closed:
            self._data.close()
        super().close()


def _segments(reply: Any) -> Iterator[Segment]:
    """What is said, in order, with sound times; the whole text as one where the endpoint tells no times."""
    told = getattr(reply, "segments", None) or ()
    segments = [segment for segment in map(_segment, told) if segment is not None]
    if segments:
        yield from sorted(segments, key=lambda segment: segment.time)
    elif text := reply.text.strip():
        yield Segment(TimeSpan(0.0, max(0.0, _number(getattr(reply, "duration", None)) or 0.0)), text)


def _segment(told: Any) -> Segment | None:
    """A segment that says something at a time; the package hands on what it was sent, checked or not."""
    fields = cast("dict[str, Any]", told if isinstance(told, dict) else getattr(told, "__dict__", {}))
    start, end, text = _number(fields.get("start")), _number(fields.get("end")), fields.get("text")
    if start is None or not isinstance(text, str) or not text.strip():
        return None
    start = max(0.0, start)
    logprob = _number(fields.get("avg_logprob"))
    sure = None if logprob is None else math.exp(min(0.0, logprob))
    return Segment(TimeSpan(start, max(start, end or start)), text.strip(), sure)


def _number(value: Any) -> float | None:
    """A finite number, else None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
