"""The whole path of a document, in order: source -> pages -> triage -> readers -> blocks -> judgement.

The first steps are taken in the process that has the file open: ``firstlook`` has their order. A bad page never kills
a document: it ends FAILED with the reason, and the others go on. What is read here is published by ``worker`` page by
page, as soon as each is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from assistant.core.domain import Block, PageReading, PageStatus, Reader, Reading, Receipt, Word
from assistant.core.errors import Misconfigured, PeritoError
from assistant.core.ports import ImageReader, Transcriber
from assistant.core.settings import Settings
from ingestion.blocks import merge_blocks, replace_regions
from ingestion.firstlook import About, FirstLook
from ingestion.gates import Gate, Turn
from ingestion.openfiles import OpenFile
from ingestion.readers.speech import read_recording
from ingestion.triage import Judgement, judge_page

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)


class StructuringReader(ImageReader, Protocol):
    """The OCR reader, which can also order another reader's words by the look of the page."""

    async def structure(self, image: Image, words: Sequence[Word]) -> Reading: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A page's blocks so far and the readings they come from."""

    blocks: tuple[Block, ...]
    readings: tuple[Reading, ...]

    @property
    def turned(self) -> int:
        """How the page is turned for its blocks to stand upright: by the first reading, which the others follow."""
        return self.readings[0].turned if self.readings else 0


class Pipeline:
    """Reads documents. One instance serves all documents; it holds no state of theirs."""

    def __init__(
        self,
        settings: Settings,
        ocr: StructuringReader,
        vlm: ImageReader | None,
        in_flight: int,
        transcriber: Transcriber | None = None,
    ) -> None:
        """``in_flight``: pages that are drawn for the OCR at the same time, over all documents; as many are drawn
        for the VLM as it answers at once. Of one document, as many pages as both together are begun."""
        self._settings = settings
        self._ocr = ocr
        self._vlm = vlm
        self._transcriber = transcriber
        self._drawn = Gate(in_flight)
        self._asked = Gate(settings.vlm.concurrency)
        self._in_flight = in_flight + (settings.vlm.concurrency if vlm else 0)

    async def read_document(
        self,
        file: OpenFile,
        skip: Collection[int] = (),
        turn: Turn | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        marked: Collection[int] = (),
    ) -> AsyncGenerator[PageReading]:
        """All pages but those in ``skip``, each as soon as it is read; once ``goes_on`` says no, only those that were
        begun. Of those in ``marked`` a person said that they were misread. What opening the file raises."""
        turn = turn or Turn()
        about = await asyncio.wrap_future(file.about)
        if about.seconds is not None:
            async for page in self._hear(file, about, skip, goes_on):
                yield page
            return
        numbers = (number for number in range(1, about.page_count + 1) if number not in skip)
        pending: set[asyncio.Task[PageReading]] = set()
        try:
            for number in numbers:
                if not goes_on():
                    break
                pending.add(asyncio.create_task(self.read_page(file, number, turn, number in marked)))
                if len(pending) >= self._in_flight:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in sorted(done, key=lambda task: task.result().number):
                        yield task.result()
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=lambda task: task.result().number):
                    yield task.result()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def aclose(self) -> None:
        """End the OCR processes and the endpoints' connections."""
        await self._ocr.aclose()
        for endpoint in (self._vlm, self._transcriber):
            if endpoint is not None:
                await endpoint.aclose()

    @property
    def has_better_reader(self) -> bool:
        """Whether there is one for what a person marks as misread."""
        return self._vlm is not None

    async def read_page(
        self, file: OpenFile, number: int, turn: Turn | None = None, marked: bool = False
    ) -> PageReading:
        """One page, whatever happens: what cannot be read comes back FAILED with the reason."""
        started = time.perf_counter()
        try:
            reading = await self._read(file, await asyncio.wrap_future(file.look(number)), turn or Turn(), marked)
        except PeritoError as error:
            reading = failed_page(number, str(error))
        except Exception as error:  # a library's bug on one page must not cost the document
            log.exception("page %d could not be read", number)
            reading = failed_page(number, f"This page could not be read: {type(error).__name__}: {error}")
        return replace(reading, seconds=time.perf_counter() - started)

    async def _read(self, file: OpenFile, page: FirstLook, turn: Turn, marked: bool) -> PageReading:
        draft = await self._read_cheaply(file, page, turn)
        judgement = self._judged(page, draft, marked)
        if judgement.wants_vlm and self._vlm is not None:
            async with self._asked.place(turn):
                draft, judgement = await self._read_expensively(self._vlm, file, page, draft, judgement, marked)
        return published_page(page, draft, judgement)

    def _judged(self, page: FirstLook, draft: Draft, marked: bool) -> Judgement:
        return judge_page(page.plan, draft.blocks, draft.readings, self._settings.triage, marked=marked)

    async def _hear(
        self, file: OpenFile, about: About, skip: Collection[int], goes_on: Callable[[], bool]
    ) -> AsyncGenerator[PageReading]:
        """A recording's pages. It is written down as a whole: no part of it can be sent by itself. What the
        transcription raises is the document's: it waits where the endpoint is down."""
        if self._transcriber is None:  # it was set when the file was accepted
            raise Misconfigured(
                "No transcription endpoint is set any more that could write down what is said",
                "Set transcription.base_url and transcription.model, and read it again",
            )
        if not goes_on():
            return
        transcript = await self._transcriber.transcribe(file.path, about.media_type)
        for page in read_recording(transcript, about.page_count, self._settings.triage.ocr_min_confidence):
            if page.number not in skip:  # also when it is to step back: what was said would have to be sent again
                yield page

    async def _read_cheaply(self, file: OpenFile, page: FirstLook, turn: Turn) -> Draft:
        """The page's own text, OCR, or both: whatever the plan says."""
        route = page.plan.route
        if route is Reader.NONE:
            return Draft((), ())
        if route is Reader.TEXT and page.text is not None:
            return Draft(page.text.blocks, (page.text,))
        async with self._drawn.place(turn):
            return await self._read_picture(file, page)

    async def _read_picture(self, file: OpenFile, page: FirstLook) -> Draft:
        route = page.plan.route
        image = await self._image(file, page)
        if route is Reader.TEXT:
            reading = await self._ocr.structure(image, page.words)
            return Draft(reading.blocks, (reading,))
        ocr = await self._ocr.read(image, page.plan.regions)
        if page.text is None:
            return Draft(ocr.blocks, (ocr,))
        return Draft(merge_blocks(page.text, ocr), (page.text, ocr))

    async def _image(self, file: OpenFile, page: FirstLook) -> Image:
        return await asyncio.wrap_future(file.render(page.number, self._settings.ocr.dpi))

    async def _read_expensively(
        self, vlm: ImageReader, file: OpenFile, page: FirstLook, draft: Draft, judgement: Judgement, marked: bool
    ) -> tuple[Draft, Judgement]:
        """Let the VLM read what the cheap readers could not; where it fails, their reading stands. The page is drawn
        again: its picture must not wait for the VLM in memory."""
        # Regions are places on the page as the file shows it; once it is turned, the VLM sees the whole of it.
        regions = () if draft.turned else judgement.vlm_regions
        try:
            image = await self._image(file, page)
            reading = await vlm.read(_turned(image, draft.turned), regions)
        except PeritoError as error:  # down, busy, or set wrongly: what was read cheaply is not lost for it
            log.warning("page %d keeps its cheap reading: %s", page.number, error)
            return draft, replace(judgement, reason=f"{judgement.reason} {error.message}, so the first reading stands.")
        draft = replace(draft, readings=(*draft.readings, reading))
        answered = tuple(region for region in regions if any(block.bbox == region for block in reading.blocks))
        if not reading.blocks or (regions and not answered):
            return draft, replace(judgement, reason=f"{judgement.reason} {reading.note}".strip())
        draft = replace(draft, blocks=replace_regions(draft.blocks, reading.blocks, answered))
        return draft, self._judged(page, draft, marked)


def failed_page(number: int, error: str) -> PageReading:
    """A page that nobody could read."""
    return PageReading(number, Reader.NONE, PageStatus.FAILED, 0.0, (), Receipt(reason=error), 0.0, error=error)


def published_page(page: FirstLook, draft: Draft, judgement: Judgement) -> PageReading:
    """The page as it will be found, with the receipt of how it came about."""
    plan = page.plan
    lying = draft.turned in (90, 270)
    seconds = {str(reading.reader): 0.0 for reading in draft.readings}
    features = dict(plan.features)
    for reading in draft.readings:
        seconds[str(reading.reader)] += reading.seconds
        features |= {f"{reading.reader}_{name}": value for name, value in reading.features.items()}
    return PageReading(
        number=page.number,
        reader=_reader_of(draft.blocks),
        status=judgement.status,
        confidence=judgement.confidence,
        blocks=draft.blocks,
        receipt=Receipt(
            reason=judgement.reason or plan.reason,
            decisions=(*plan.decisions, *judgement.decisions),
            features=features,
            seconds=seconds,
            visual_tokens=sum(reading.visual_tokens for reading in draft.readings),
            wants_vlm=judgement.wants_vlm,
        ),
        seconds=0.0,
        turned=draft.turned,
        width=page.height if lying else page.width,
        height=page.width if lying else page.height,
        readings=draft.readings,
    )


def _reader_of(blocks: Sequence[Block]) -> Reader:
    readers = {block.reader for block in blocks}
    if not readers:
        return Reader.NONE
    return readers.pop() if len(readers) == 1 else Reader.MIXED


def _turned(image: Image, degrees: int) -> Image:
    """``image`` turned clockwise by quarters."""
    return image.rotate(-degrees, expand=True) if degrees else image
