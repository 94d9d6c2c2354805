"""The reader for what OCR cannot read: a vision-language model behind an OpenAI-compatible endpoint.

A page or a region goes out as one picture, resized to the token budget here (vLLM refuses a request's
own processor options unless started for it), and comes back as Markdown with HTML tables.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assistant.core.domain import WHOLE_PAGE, Block, Box, Reader, Reading
from assistant.core.errors import PermanentError
from assistant.core.pictures import encode_picture
from assistant.core.ports import ChatModel, Completion, Message
from assistant.core.prompts import Prompt, load_prompt
from assistant.core.settings import VlmSettings
from assistant.core.tokens import fit_to_budget, visual_tokens
from ingestion.readers.reply import fault_of, is_blank, pieces_of

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

DEFAULT_CONFIDENCE = 0.8  # where the endpoint tells no probabilities: better than weak OCR, no more
MARGIN = 0.01  # of the page's longer side, left around a region so that no letter is cut
LONGEST_CROP = 20  # length to width of a crop; white paper is added beyond, so that lines keep their shape
TOKEN_SLACK = 16  # by which reported visual tokens may differ from ours


@dataclass(frozen=True, slots=True)
class Crop:
    """A region as it is sent, and what came of it. ``fault`` is empty for a reply that can be used."""

    region: Box
    predicted: int  # visual tokens
    seconds: float
    completion: Completion | None = None
    fault: str = ""

    @property
    def confidence(self) -> float:
        known = self.completion.confidence if self.completion else None
        return DEFAULT_CONFIDENCE if known is None else known


class VlmReader:
    """Implements ``ImageReader``.

    A reply that cannot be trusted (a loop, cut off, a refusal, leaked reasoning, nothing where ink is,
    or a request that the endpoint refused) is set aside: its region yields no blocks and ``note`` says
    why, so that the pipeline keeps the OCR's. When no region is left, ``confidence`` is 0. Blocks carry
    the box of their region, since the model gives none. Confidence is the mean probability of the
    reply's tokens, or ``DEFAULT_CONFIDENCE`` where the endpoint tells none.
    """

    def __init__(self, model: ChatModel, settings: VlmSettings) -> None:
        self._model = model
        self._settings = settings
        self._page_prompt = load_prompt("read_page")
        self._region_prompt = load_prompt("read_region")
        self._ledger = TokenCheck()

    async def read(self, image: Image, regions: Sequence[Box] = ()) -> Reading:
        """Read ``image``, or only ``regions`` of it, all at once as far as the endpoint lets us.
        EndpointDown, EndpointBusy."""
        started = time.perf_counter()
        tasks = [asyncio.create_task(self._read_region(image, region)) for region in regions or (WHOLE_PAGE,)]
        try:
            crops = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # one failure ends the page: do not pay for the rest
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._reading(crops, time.perf_counter() - started)

    async def aclose(self) -> None:
        """Close the model's connections: the reader owns the model it was given."""
        await self._model.aclose()

    async def _read_region(self, image: Image, region: Box) -> Crop:
        started = time.perf_counter()
        prompt = self._page_prompt if region == WHOLE_PAGE else self._region_prompt
        picture, predicted, inked = await asyncio.to_thread(self._prepare, image, region)
        message = Message("user", prompt.render(), images=(picture,), prompt=prompt.label)
        try:
            completion = await self._model.complete([message], purpose="page")
        except PermanentError as error:
            log.warning("a region was not read: %s", error)
            return Crop(region, predicted, time.perf_counter() - started, fault=error.message)
        self._ledger.check(prompt, predicted, completion)
        fault = fault_of(completion.text, truncated=completion.truncated, inked=inked)
        if not fault and not is_blank(completion.text) and not pieces_of(completion.text):
            fault = "The model's reply holds no text"
        return Crop(region, predicted, time.perf_counter() - started, completion, fault)

    def _prepare(self, image: Image, region: Box) -> tuple[bytes, int, bool]:
        """The picture file to send, its visual tokens, and whether there is ink on it."""
        crop = cropped(image, region)
        family, budget = self._settings.family, self._settings.max_visual_tokens
        size = fit_to_budget(*crop.size, family, budget)
        return encode_picture(crop, family, budget), visual_tokens(*size, family), has_ink(crop)

    def _reading(self, crops: Sequence[Crop], seconds: float) -> Reading:
        good = [crop for crop in crops if not crop.fault]
        blocks = tuple(block for crop in good for block in _blocks(crop))
        usages = [crop.completion.usage for crop in crops if crop.completion]
        visual = sum(usage.visual_tokens for usage in usages)
        faults = dict.fromkeys(crop.fault for crop in crops if crop.fault)
        features = {
            "regions": float(len(crops)),
            "set_aside": float(len(crops) - len(good)),
            "truncated": float(sum(bool(crop.completion and crop.completion.truncated) for crop in crops)),
            "predicted_tokens": float(sum(crop.predicted for crop in crops)),
            "token_surprise": self._ledger.surprise,
        }
        return Reading(
            reader=Reader.VLM,
            blocks=blocks,
            confidence=sum(crop.confidence for crop in good) / len(good) if good else 0.0,
            seconds=seconds,
            text_tokens=sum(usage.prompt_tokens + usage.completion_tokens for usage in usages) - visual,
            visual_tokens=visual,
            features=features,
            note=" ".join(f"{fault.rstrip('.')}." for fault in faults),
        )


class TokenCheck:
    """Holds predicted visual tokens against what the endpoint counts, and warns once a size they part.

    Where it reports pictures' tokens, they are compared. Where it only reports the prompt's, the rest
    of the prompt is the same for every page, so it must not change from page to page, and it must be
    about as long as its text.
    """

    def __init__(self) -> None:
        self.surprise = 0.0  # the last difference in tokens, 0 when within the slack
        self._rests: dict[str, int] = {}

    def check(self, prompt: Prompt, predicted: int, completion: Completion) -> None:
        usage = completion.usage
        if usage.estimated:
            return
        rest = usage.prompt_tokens - predicted
        usual = self._rests.setdefault(prompt.hash, rest)
        lowest, highest = len(prompt.template) / 8, len(prompt.template) / 2 + 64
        surprise = max(
            abs(usage.visual_tokens - predicted), abs(rest - usual), lowest - rest, rest - highest, key=float
        )
        self.surprise = float(surprise) if surprise > TOKEN_SLACK else 0.0
        if self.surprise:
            log.warning(
                "%s counts pictures otherwise than we do (%d tokens off, %d predicted): check vlm.family",
                usage.model,
                surprise,
                predicted,
            )


def cropped(image: Image, region: Box) -> Image:
    """The region with a margin; a narrow strip gets white paper beside it."""
    import PIL.Image

    if region == WHOLE_PAGE:
        crop = image
    else:
        margin = max(image.size) * MARGIN
        left, top = region.x0 * image.width - margin, region.y0 * image.height - margin
        right, bottom = region.x1 * image.width + margin, region.y1 * image.height + margin
        crop = image.crop((max(0, int(left)), max(0, int(top)), *_corner(right, bottom, image)))
    least = -(-max(crop.size) // LONGEST_CROP)
    if min(crop.size) >= least:
        return crop
    paper = PIL.Image.new("RGB", (max(crop.width, least), max(crop.height, least)), "white")
    paper.paste(crop.convert("RGB"), (0, 0))
    return paper


def has_ink(image: Image) -> bool:
    """Whether anything stands on the picture, by the same measure as the OCR reader's."""
    import numpy as np

    from ingestion.readers.ink import is_blank as is_blank_picture  # late: it needs OpenCV

    return not is_blank_picture(np.asarray(image.convert("RGB")))


def _corner(right: float, bottom: float, image: Image) -> tuple[int, int]:
    return min(image.width, int(right) + 1), min(image.height, int(bottom) + 1)


def _blocks(crop: Crop) -> list[Block]:
    if crop.completion is None:
        return []
    return [
        Block(piece.kind, piece.text, crop.region, crop.confidence, Reader.VLM, html=piece.html, level=piece.level)
        for piece in pieces_of(crop.completion.text)
    ]
