"""What the tests of the write path share: one OCR reader, because loading its models takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assistant.core.settings import OcrSettings
from ingestion.readers.ocr import OcrReader


@pytest.fixture(scope="session")
def ocr_reader() -> Iterator[OcrReader]:
    """The real OCR in two processes. Tests may use it from any event loop; none may close it."""
    reader = OcrReader(OcrSettings(processes=2, page_seconds=300))
    yield reader
    reader.close()
