"""A recording as pages: stretches of time. What is said in them, a transcription endpoint tells."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.core.errors import NotFound, TooLarge, UnsupportedFile
from assistant.core.settings import MEGABYTE, LimitSettings
from ingestion.pages import Page
from ingestion.sources.media.lengths import length_of
from ingestion.sources.sections import HEIGHT, WIDTH
from ingestion.speechsheet import STRETCH_SECONDS

if TYPE_CHECKING:
    from PIL.Image import Image


class RecordingSource:
    """A recording that a transcription endpoint may be asked about. Where the file does not say how long it is, it is
    one page."""

    damage = ""

    def __init__(self, path: Path, name: str, media_type: str, limits: LimitSettings, recording_mb: int) -> None:
        """``recording_mb``: the most the transcription endpoint takes; 0: there is none."""
        if not recording_mb:
            raise UnsupportedFile(
                f"{name} is a sound or video recording, and no transcription endpoint is set that could write down "
                "what is said in it",
                "Set transcription.base_url and transcription.model to an OpenAI-compatible transcription endpoint "
                "(PERITO_TRANSCRIPTION__BASE_URL, …__MODEL) and send it again, or send a transcript",
            )
        size = path.stat().st_size
        if size > recording_mb * MEGABYTE:
            raise TooLarge(
                f"{name} has {size / MEGABYTE:.0f} MB; the transcription endpoint takes {recording_mb} MB at most",
                "Split it, or compress it to MP3 or Opus; or raise transcription.max_mb if the endpoint takes more",
            )
        self.media_type = media_type
        self._name = name
        self.seconds = length_of(path, media_type) or 0.0
        self.page_count = max(1, math.ceil(self.seconds / STRETCH_SECONDS))
        if self.page_count > limits.pages:
            raise TooLarge(f"{name} is {self.seconds / 3600:.0f} hours long; the limit is {limits.pages} pages")

    def page(self, number: int) -> Page:
        """A stretch of time, as an empty sheet."""
        if not 1 <= number <= self.page_count:
            raise NotFound(f"{self._name} has no page {number}")
        return Page(number=number, width=WIDTH, height=HEIGHT, draw=_empty_sheet)

    def close(self) -> None:
        """Nothing stays open."""

    def __enter__(self) -> RecordingSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _empty_sheet(dpi: float) -> Image:
    from PIL import Image

    scale = min(dpi, 200) / 72
    return Image.new("RGB", (round(WIDTH * scale), round(HEIGHT * scale)), "white")
