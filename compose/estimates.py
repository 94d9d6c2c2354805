"""What reading files would take, before anything is read: pages by reader, seconds, visual tokens, price.

Files are opened and a first look is taken at their pages (of long ones, at some), as when they are read; OCR and the
VLM are not asked. So pages that only turn out to be doubtful once the OCR has read them are counted for the VLM as
often as that happened to what this Perito read before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assistant.core.domain import WHOLE_PAGE, Box, Reader
from assistant.core.errors import BadInput, BadRequest
from assistant.core.machine import usable_cores
from assistant.core.settings import Settings, VlmSettings
from assistant.core.shapes import DocumentShape, UsageTotalsShape
from assistant.core.tokens import fit_to_budget, visual_tokens
from ingestion.firstlook import About, FirstLook
from ingestion.openfiles import FilePool, OpenFile
from ingestion.wiring import build_files

MOST_LOOKED_AT = 24  # pages of a file, spread evenly; the others are taken to be like them
LOOKS_AT_ONCE = 8
TEXT_SECONDS = 0.035  # CPU time of a page of text, and of one for OCR (eval/results.md, 2 cores)
OCR_SECONDS = 4.8
REPLY_TOKENS = 600  # of a page of print, where nothing is known of earlier ones
PROMPT_TOKENS = 300
FEWEST_PAGES = 20  # read before, from which on their share that went to the VLM counts


@dataclass(frozen=True, slots=True)
class History:
    """Of what was read before: the share of OCR's pages that went on to the VLM, and what a call to it took."""

    vlm_share: float = 0.0
    call_seconds: float | None = None
    reply_tokens: float = REPLY_TOKENS
    prompt_tokens: float = PROMPT_TOKENS

    @classmethod
    def of(cls, documents: Iterable[DocumentShape], usage: UsageTotalsShape) -> History:
        readers = Counter[str]()
        for document in documents:
            readers.update(document.readers)
        looked = readers["ocr"] + readers["vlm"]
        calls = [total for total in usage.usage if total.purpose == "page" and total.calls]
        count = sum(total.calls for total in calls)
        share = readers["vlm"] / looked if looked >= FEWEST_PAGES else 0.0
        if not count:
            return cls(share)
        text = sum(total.prompt_tokens - total.visual_tokens for total in calls)
        return cls(
            share,
            sum(total.seconds for total in calls) / count,
            sum(total.completion_tokens for total in calls) / count,
            max(0.0, text / count),
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """``pages`` by reader, each once: by its dearest. ``seconds`` of this machine, dense vectors not counted. None is
    what cannot be known. ``refused`` says why a file would not be accepted."""

    pages: int = 0
    readers: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float | None = 0.0
    visual_tokens: int = 0
    price: float | None = 0.0
    notes: tuple[str, ...] = ()
    refused: str = ""

    def __add__(self, other: Estimate) -> Estimate:
        readers = Counter(self.readers)
        readers.update(other.readers)
        return Estimate(
            self.pages + other.pages,
            dict(readers),
            _sum(self.seconds, other.seconds),
            self.visual_tokens + other.visual_tokens,
            _sum(self.price, other.price),
        )


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one page takes; ``calls`` to the VLM, with how many visual tokens together."""

    reader: str
    seconds: float
    calls: float = 0.0
    tokens: float = 0.0


@contextlib.asynccontextmanager
async def open_estimator(settings: Settings, history: History) -> AsyncGenerator[Estimator]:
    """An estimator with the processes that open its files, which end with it."""
    files = build_files(settings)
    try:
        yield Estimator(settings, files, history, settings.ocr.processes or usable_cores())
    finally:
        await asyncio.to_thread(files.close)


class Estimator:
    """Looks at files. ``processes``: that read by OCR at the same time."""

    def __init__(self, settings: Settings, files: FilePool, history: History, processes: int) -> None:
        self._settings = settings
        self._files = files
        self._history = history
        self._processes = processes

    async def of(self, path: Path, name: str, password: str = "") -> Estimate:
        """What reading a file takes."""
        with self._files.open(path, name=name, password=password) as file:
            try:
                about = await asyncio.wrap_future(file.about)
            except BadInput as error:
                return Estimate(refused=str(error))
            if about.page_count > self._settings.limits.pages:
                most = self._settings.limits.pages
                return Estimate(refused=f"It has {about.page_count:,} pages; the limit is {most:,}.")
            if about.seconds is not None:
                return self._of_recording(about)
            outlooks = await self._looks(file, about)
        return self._summed(about, outlooks)

    def _of_recording(self, about: About) -> Estimate:
        """How long the endpoint takes is not known, nor what it costs where the file does not say how long it is."""
        minute = self._settings.transcription.price_minute
        price = about.seconds / 60 * minute if about.seconds and minute else None
        return Estimate(about.page_count, {Reader.SPEECH.value: about.page_count}, None, 0, price)

    async def _looks(self, file: OpenFile, about: About) -> list[Outlook]:
        """At some of its pages."""
        outlooks: list[Outlook] = []
        numbers = _spread(about.page_count)
        in_pixels = about.media_type.startswith("image/")
        for start in range(0, len(numbers), LOOKS_AT_ONCE):
            looks = [asyncio.wrap_future(file.look(number)) for number in numbers[start : start + LOOKS_AT_ONCE]]
            for look in await asyncio.gather(*looks, return_exceptions=True):
                if isinstance(look, FirstLook):
                    outlooks.append(self._outlook(look, in_pixels))
                elif isinstance(look, BadInput):
                    outlooks.append(Outlook("failed", 0.0))
                else:
                    raise look
        return outlooks

    def _outlook(self, page: FirstLook, in_pixels: bool) -> Outlook:
        plan, vlm = page.plan, self._settings.vlm
        if plan.route is Reader.NONE:
            return Outlook("blank", TEXT_SECONDS)
        seconds = TEXT_SECONDS
        if plan.route is not Reader.TEXT:
            share = sum(region.area for region in plan.regions) if plan.regions else 1.0
            seconds += OCR_SECONDS * min(1.0, share) / self._processes
        if not vlm.configured:
            return Outlook(plan.route.value, seconds)
        scale = 1.0 if in_pixels else self._settings.ocr.dpi / 72
        width, height = page.width * scale, page.height * scale
        if plan.figures:
            tokens = sum(_tokens(width, height, box, vlm) for box in plan.figures)
            return Outlook("vlm", seconds, len(plan.figures), tokens)
        likely = self._history.vlm_share if plan.route is Reader.OCR else 0.0
        return Outlook(plan.route.value, seconds, likely, likely * _tokens(width, height, WHOLE_PAGE, vlm))

    def _summed(self, about: About, outlooks: Sequence[Outlook]) -> Estimate:
        each = about.page_count / max(1, len(outlooks))  # pages that one looked at stands for
        calls = sum(outlook.calls for outlook in outlooks) * each
        tokens = sum(outlook.tokens for outlook in outlooks) * each
        seconds: float | None = sum(outlook.seconds for outlook in outlooks) * each
        if calls:
            called = self._history.call_seconds
            seconds = None if called is None else seconds + calls * called / self._settings.vlm.concurrency
        return Estimate(
            pages=about.page_count,
            readers=_whole(Counter(outlook.reader for outlook in outlooks), about.page_count),
            seconds=seconds,
            visual_tokens=round(tokens),
            price=self._price(calls, tokens),
            notes=tuple(_notes(about, len(outlooks))),
        )

    def _price(self, calls: float, tokens: float) -> float | None:
        """None where calls have a price that nobody has told."""
        vlm, history = self._settings.vlm, self._history
        if not calls:
            return 0.0
        if not (vlm.price_in or vlm.price_out):
            return None
        asked = tokens + calls * history.prompt_tokens
        return (asked * vlm.price_in + calls * history.reply_tokens * vlm.price_out) / 1e6


def _tokens(width: float, height: float, box: Box, vlm: VlmSettings) -> int:
    size = max(1, round(width * box.width)), max(1, round(height * box.height))
    try:
        return visual_tokens(*fit_to_budget(*size, vlm.family, vlm.max_visual_tokens), vlm.family)
    except BadRequest:  # a strip, which is given white paper beside it
        return vlm.max_visual_tokens


def _spread(pages: int) -> list[int]:
    """Numbers of the pages looked at."""
    if pages <= MOST_LOOKED_AT:
        return list(range(1, pages + 1))
    return [1 + round(step * (pages - 1) / (MOST_LOOKED_AT - 1)) for step in range(MOST_LOOKED_AT)]


def _whole(counted: Counter[str], pages: int) -> dict[str, int]:
    """Counts of some pages, as whole numbers for all: what is left by rounding down goes to the largest rests."""
    looked = max(1, counted.total())
    exact = {reader: count * pages / looked for reader, count in counted.items()}
    whole = {reader: int(number) for reader, number in exact.items()}
    for reader in sorted(exact, key=lambda reader: whole[reader] - exact[reader])[: pages - sum(whole.values())]:
        whole[reader] += 1
    return {reader: count for reader, count in whole.items() if count}


def _notes(about: About, looked: int) -> Iterable[str]:
    if looked < about.page_count:
        yield f"{looked} of its pages looked at"
    if about.damage:
        yield about.damage
    within = sum(not enclosure.left_out for enclosure in about.enclosures)
    if within:
        yield f"{within} files within, not counted"


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
