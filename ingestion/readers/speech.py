"""The reader for recordings: a transcript becomes pages of paragraphs, each with the time in which it is said.

A page is a stretch of time. Paragraphs end where there is a pause, or with a sentence once they are long. They stand
on a sheet of rows, like the text of a format without pages, so that a citation has a box; a sheet is as long as what
is said in its stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assistant.core.domain import (
    Block,
    BlockKind,
    Box,
    Decision,
    PageReading,
    PageStatus,
    Reader,
    Reading,
    Receipt,
    TimeSpan,
)
from assistant.core.ports import Segment, Transcript
from ingestion.speechsheet import MARGIN, ROW, STRETCH_SECONDS, WIDTH, rows_of

DEFAULT_CONFIDENCE = 0.8  # where the endpoint tells none, as for a VLM
PAUSE_SECONDS = 2.0  # of silence, at which a paragraph ends
LONG = 350  # letters from which a paragraph ends with its sentence
LONGEST = 900
FEWEST_ROWS = 30
SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
SAID = "What is said in this stretch was written down by the transcription endpoint."
SILENT = "Nobody says anything in this stretch."
UNSURE = "The transcription endpoint is unsure of what is said."


def read_recording(transcript: Transcript, pages: int, least_confidence: float) -> Iterator[PageReading]:
    """The recording's pages 1 to ``pages``, in order; what is said after the last one's stretch belongs to it.
    Less sure than ``least_confidence``, a page is LOW_CONFIDENCE; without a word, BLANK."""
    said: list[list[Segment]] = [[] for _ in range(pages)]
    for segment in transcript.segments:
        said[min(pages - 1, int(segment.time.start // STRETCH_SECONDS))].append(segment)
    for number, segments in enumerate(said, start=1):
        yield _page(number, segments, transcript, pages, least_confidence)


def _page(
    number: int, segments: Sequence[Segment], transcript: Transcript, pages: int, least_confidence: float
) -> PageReading:
    blocks, height = _laid_out(list(_paragraphs(segments)))
    confidence = _mean(blocks)
    sure = Decision("speech sure?", confidence, least_confidence, Reader.SPEECH, UNSURE)
    unsure = bool(blocks) and confidence < least_confidence
    seconds = transcript.seconds / pages
    reading = Reading(Reader.SPEECH, blocks, confidence, seconds, note=transcript.model)
    return PageReading(
        number=number,
        reader=Reader.SPEECH if blocks else Reader.NONE,
        status=PageStatus.LOW_CONFIDENCE if unsure else PageStatus.READ if blocks else PageStatus.BLANK,
        confidence=confidence if blocks else 1.0,
        blocks=blocks,
        receipt=Receipt(
            reason=UNSURE if unsure else SAID if blocks else SILENT,
            decisions=(sure,) if unsure else (),
            features={"segments": float(len(segments))},
            seconds={str(Reader.SPEECH): seconds},
        ),
        seconds=seconds,
        width=WIDTH,
        height=height,
        readings=(reading,) if blocks else (),
    )


def _paragraphs(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    held: list[Segment] = []
    for segment in segments:
        length = sum(len(one.text) for one in held)
        ends = held and held[-1].text.endswith(SENTENCE_ENDS)
        paused = held and segment.time.start - held[-1].time.end >= PAUSE_SECONDS
        if held and (paused or length >= LONGEST or (ends and length >= LONG)):
            yield held
            held = []
        held.append(segment)
    if held:
        yield held


def _laid_out(paragraphs: Sequence[Sequence[Segment]]) -> tuple[tuple[Block, ...], float]:
    """The paragraphs with their places, an empty row between them; and the sheet's height in points."""
    texts = [" ".join(segment.text for segment in paragraph) for paragraph in paragraphs]
    rows = [len(rows_of(text)) for text in texts]
    total = max(FEWEST_ROWS, sum(rows) + len(rows))
    height = total * ROW + 2 * MARGIN
    blocks: list[Block] = []
    first = 0
    for paragraph, text, count in zip(paragraphs, texts, rows, strict=True):
        top = MARGIN + first * ROW
        box = Box.of(MARGIN / WIDTH, top / height, 1 - MARGIN / WIDTH, (top + count * ROW) / height)
        time = TimeSpan.around(segment.time for segment in paragraph)
        blocks.append(Block(BlockKind.PARAGRAPH, text, box, _sure(paragraph), Reader.SPEECH, time=time))
        first += count + 1
    return tuple(blocks), height


def _sure(segments: Sequence[Segment]) -> float:
    """How sure the endpoint is of a paragraph, by the length of what it is sure of."""
    told = [(one.confidence, len(one.text)) for one in segments if one.confidence is not None]
    letters = sum(length for _, length in told)
    if not letters:
        return DEFAULT_CONFIDENCE
    return min(1.0, sum(sure * length for sure, length in told) / letters)


def _mean(blocks: Sequence[Block]) -> float:
    letters = sum(len(block.text) for block in blocks)
    return sum(block.confidence * len(block.text) for block in blocks) / letters if letters else 0.0
