"""The vision-language reader over the real client, against a real HTTP server with scripted replies."""

from __future__ import annotations

import base64
import io
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PIL import Image

from assistant.core.domain import WHOLE_PAGE, BlockKind, Box, Reader, Usage
from assistant.core.endpoints import RetryPolicy
from assistant.core.errors import EndpointDown
from assistant.core.llm import OpenAIChatModel
from assistant.core.prompts import load_prompt
from assistant.core.settings import VlmSettings
from assistant.core.tokens import visual_tokens
from ingestion.readers.vlm import DEFAULT_CONFIDENCE, VlmReader, cropped
from tests.core.wire import Endpoint, Reply, endpoint, failing, saying
from tests.documents import shared

TABLE = "<table><tr><th>Concepto</th><th>Importe</th></tr><tr><td>IVA</td><td>21,00 €</td></tr></table>"
TEXT_TOKENS = math.ceil(len(load_prompt("read_page").template) / 4)


async def no_sleep(_: float) -> None:
    """Waits for nothing."""


@asynccontextmanager
async def reader_of(served: Endpoint, **settings: Any) -> AsyncIterator[VlmReader]:
    values = {"base_url": served.base_url, "model": "tiny", "retries": 1, **settings}
    model = OpenAIChatModel(VlmSettings(**values), list[Usage]().append, retry=RetryPolicy(sleep=no_sleep))
    reader = VlmReader(model, VlmSettings(**values))
    yield reader
    await reader.aclose()


def page() -> Image.Image:
    return Image.open(shared("scan_clean/linn.png")).convert("RGB")


def reading(*pieces: str, visual: int | None = None, **options: Any) -> Reply:
    """A reply whose usage fits the page sent, or claims ``visual`` tokens for it."""

    async def reply(exchange: Any) -> None:
        tokens = visual_tokens(*picture(exchange).size, "qwen3-vl") if visual is None else visual
        usage = {"prompt_tokens": TEXT_TOKENS + tokens, "completion_tokens": 50, "total_tokens": 0}
        await saying(*pieces, usage=usage, **options)(exchange)

    return reply


def picture(exchange: Any) -> Image.Image:
    url = exchange.body["messages"][0]["content"][0]["image_url"]["url"]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


async def test_a_page_becomes_blocks_with_their_reader_place_and_confidence() -> None:
    reply = reading("# Factura\n\n", TABLE, logprobs=[math.log(0.9), math.log(0.8)])
    async with endpoint(reply) as served, reader_of(served) as reader:
        result = await reader.read(page())
    assert [(block.kind, block.bbox, block.reader) for block in result.blocks] == [
        (BlockKind.HEADING, WHOLE_PAGE, Reader.VLM),
        (BlockKind.TABLE, WHOLE_PAGE, Reader.VLM),
    ]
    assert result.blocks[1].html == TABLE
    assert result.confidence == pytest.approx(0.85)
    assert (result.note, result.features["set_aside"], result.features["token_surprise"]) == ("", 0, 0)
    sent = picture(served.exchanges[0])
    assert result.visual_tokens == visual_tokens(*sent.size, "qwen3-vl") <= 2048
    assert sent.width / sent.height == pytest.approx(page().width / page().height, rel=0.03)
    assert result.text_tokens == TEXT_TOKENS + 50
    assert served.exchanges[0].body["messages"][0]["content"][1]["text"] == load_prompt("read_page").template


async def test_regions_are_cut_out_read_apart_and_keep_their_boxes() -> None:
    regions = [Box(0.1, 0.1, 0.5, 0.2), Box(0.1, 0.6, 0.9, 0.9)]
    async with endpoint(reading("first"), reading("second")) as served, reader_of(served, concurrency=1) as reader:
        result = await reader.read(page(), regions)
    assert [(block.text, block.bbox) for block in result.blocks] == [("first", regions[0]), ("second", regions[1])]
    assert result.confidence == DEFAULT_CONFIDENCE
    prompts = {exchange.body["messages"][0]["content"][1]["text"] for exchange in served.exchanges}
    assert prompts == {load_prompt("read_region").template}
    margin = 2 * 0.01 * max(page().size)
    assert cropped(page(), regions[0]).width == pytest.approx(0.4 * page().width + margin, abs=3)


def test_a_thin_strip_gets_paper_and_not_another_shape() -> None:
    strip = cropped(Image.new("L", (4000, 3000)), Box(0.0, 0.5, 1.0, 0.5))
    assert strip.size == (4000, 200)
    assert strip.getpixel((10, 199)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (reading("and again " * 300, finish="length"), "repeated itself"),
        (reading("A long page", finish="length"), "cut off at its token limit"),
        (reading(""), "saw nothing on a page that is not empty"),
        (reading("[blank]"), "saw nothing"),
        (reading("<think>Let me look</think>Hello"), "reasoning"),
        (reading("I'm sorry, I can't help with this image."), "refused"),
        (failing(400, "At most 0 image(s) may be provided in one prompt."), "At most 0 image"),
    ],
)
async def test_a_reply_not_to_be_trusted_is_set_aside_with_the_reason(reply: Reply, told: str) -> None:
    async with endpoint(reply) as served, reader_of(served) as reader:
        result = await reader.read(page())
    assert result.blocks == ()
    assert result.confidence == 0.0
    assert told in result.note
    assert result.features["set_aside"] == 1


async def test_one_bad_region_does_not_cost_the_others() -> None:
    regions = [Box(0.1, 0.1, 0.9, 0.3), Box(0.1, 0.6, 0.9, 0.9)]
    cut, good = reading("cut", finish="length"), reading("good")
    between = page().width * 0.8 / (page().height * 0.25)

    async def reply(exchange: Any) -> None:
        """By what it is shown: which region is asked about first is nobody's promise."""
        shown = picture(exchange)
        await (cut if shown.width / shown.height > between else good)(exchange)

    async with endpoint(reply) as served, reader_of(served, concurrency=1) as reader:
        result = await reader.read(page(), regions)
    assert [(block.text, block.bbox) for block in result.blocks] == [("good", regions[1])]
    assert "cut off" in result.note
    assert result.confidence == DEFAULT_CONFIDENCE


async def test_a_blank_page_is_read_as_blank() -> None:
    async with endpoint(reading("[blank]")) as served, reader_of(served) as reader:
        result = await reader.read(Image.new("RGB", (1000, 1400), "white"))
    assert (result.blocks, result.note) == ((), "")
    assert result.confidence == DEFAULT_CONFIDENCE


async def test_a_dead_endpoint_is_told_after_the_tries() -> None:
    async with endpoint(failing(500)) as served, reader_of(served) as reader:
        with pytest.raises(EndpointDown):
            await reader.read(page())
    assert len(served.exchanges) == 2


async def test_one_dead_region_ends_the_page_and_stops_the_others() -> None:
    regions = [Box(0.0, n / 10, 1.0, n / 10 + 0.05) for n in range(10)]
    async with endpoint(failing(500)) as served, reader_of(served, retries=0, concurrency=1) as reader:
        with pytest.raises(EndpointDown):
            await reader.read(page(), regions)
    assert len(served.exchanges) < 10


@pytest.mark.parametrize("reported", [True, False])
async def test_an_endpoint_that_counts_pictures_otherwise_is_noticed(
    reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A Qwen2.5-VL behind a setting that says Qwen3-VL: its cells are 28 pixels wide, not 32."""

    async def other_family(exchange: Any) -> None:
        tokens = visual_tokens(*picture(exchange).size, "qwen2.5-vl")
        usage: dict[str, Any] = {"prompt_tokens": TEXT_TOKENS + tokens, "completion_tokens": 5, "total_tokens": 0}
        if reported:
            usage["prompt_tokens_details"] = {"multimodal_tokens": {"image": tokens}}
        await saying("text", usage=usage)(exchange)

    async with endpoint(other_family) as served, reader_of(served) as reader:
        with caplog.at_level(logging.WARNING):
            result = await reader.read(page())
    assert result.features["token_surprise"] > 100
    assert "check vlm.family" in caplog.text


async def test_estimated_usage_surprises_nobody() -> None:
    async with endpoint(saying("text")) as served, reader_of(served) as reader:
        assert (await reader.read(page())).features["token_surprise"] == 0


async def test_real_pages_of_every_kind_are_prepared_within_the_budget() -> None:
    paths = ["scan_clean/linn.png", *sorted(str(p.relative_to(shared("."))) for p in shared("photo").glob("*.jpg"))[:4]]
    async with endpoint(reading("text")) as served, reader_of(served, max_visual_tokens=1024) as reader:
        for path in paths:
            with Image.open(shared(path)) as image:
                result = await reader.read(image.convert("RGB"))
            assert 700 < result.visual_tokens <= 1024, path
            assert result.features["predicted_tokens"] == result.visual_tokens
