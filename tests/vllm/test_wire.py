"""Our client and our reader against the real vLLM serving a real, tiny Qwen3-VL."""

from __future__ import annotations

import asyncio
import io
import json
import random
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from assistant.core.domain import Box, Usage
from assistant.core.endpoints import RetryPolicy
from assistant.core.errors import BadRequest, EndpointDown, Misconfigured
from assistant.core.llm import OpenAIChatModel
from assistant.core.ports import Completion, Message
from assistant.core.settings import VlmSettings
from assistant.core.tokens import Family, fit_to_budget, resized, visual_tokens
from ingestion.readers.vlm import VlmReader
from tests.vllm.server import IMAGES, MODEL, VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

SIZES = [
    *((640, 480), (1000, 1414), (32, 32), (448, 448), (300, 60)),
    *((1654, 2339), (80, 48), (1234, 567), (97, 1013), (896, 896)),
]
FAMILIES: tuple[Family, ...] = ("qwen3-vl", "qwen2.5-vl")


@asynccontextmanager
async def client_of(server: VllmServer, **settings: Any) -> AsyncIterator[tuple[OpenAIChatModel, list[Usage]]]:
    usages: list[Usage] = []
    model = OpenAIChatModel(settings_of(server, **settings), usages.append, retry=RetryPolicy(first=0.05, cap=0.2))
    try:
        yield model, usages
    finally:
        await model.aclose()


def settings_of(server: VllmServer, **settings: Any) -> VlmSettings:
    values = {"base_url": server.base_url, "model": MODEL, "max_tokens": 16, "max_visual_tokens": 6000, **settings}
    return VlmSettings(**values)


def picture(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(file, "PNG")
    return file.getvalue()


def asking(*images: bytes, text: str = "Read it.") -> list[Message]:
    return [Message("user", text, images=images)]


async def test_tokens_of_ten_sizes_are_as_predicted(server: VllmServer) -> None:
    async with client_of(server) as (model, _):
        bare = (await model.complete(asking(), purpose="test")).usage.prompt_tokens
        for size in SIZES:
            usage = (await model.complete(asking(picture(*size)), purpose="test")).usage
            predicted = visual_tokens(*size, "qwen3-vl")
            around = 2  # the marks where a picture begins and ends
            assert usage.prompt_tokens - bare - around == predicted, size
            assert (usage.visual_tokens, usage.estimated) == (predicted, False), size


async def test_a_picture_over_the_budget_costs_what_was_planned(server: VllmServer) -> None:
    planned = visual_tokens(*fit_to_budget(2480, 3508, "qwen3-vl", 500), "qwen3-vl")
    async with client_of(server, max_visual_tokens=500) as (model, _):
        usage = (await model.complete(asking(picture(2480, 3508)), purpose="test")).usage
    assert usage.visual_tokens == planned <= 500


async def test_too_many_pictures_are_refused_in_the_servers_own_words(server: VllmServer) -> None:
    async with client_of(server, images_per_prompt=10) as (model, usages):
        with pytest.raises(BadRequest, match=rf"At most {IMAGES} image\(s\) may be provided.*--limit-mm-per-prompt"):
            await model.complete(asking(*[picture(64, 64)] * (IMAGES + 1)), purpose="test")
        assert usages == []
        assert (await model.complete(asking(*[picture(64, 64)] * IMAGES), purpose="test")).usage.visual_tokens == 128


async def test_more_than_the_context_holds_is_refused_with_advice(server: VllmServer) -> None:
    async with client_of(server) as (model, _):
        with pytest.raises(BadRequest, match=r"maximum context length.*larger context"):
            await model.complete(asking(text="word " * 9000), purpose="test")


async def test_a_wrong_model_names_the_right_one(server: VllmServer) -> None:
    async with client_of(server, model="Qwen/Qwen3-VL-8B-Instruct") as (model, _):
        with pytest.raises(Misconfigured, match=f"it serves {MODEL}"):
            await model.complete(asking(), purpose="test")


async def test_pieces_arrive_one_by_one_with_usage_and_probabilities(server: VllmServer) -> None:
    times: list[float] = []
    async with client_of(server, max_tokens=200) as (model, usages):
        async for piece in model.stream(asking(), purpose="test"):
            times.append(time.monotonic())
            last = piece
    assert isinstance(last, Completion)
    assert len(times) > 20
    assert times[-1] - times[0] > 2 * (times[1] - times[0])  # spread out, not all at the end
    assert 0 < last.usage.completion_tokens <= 200
    assert last.confidence is not None
    assert 0 < last.confidence < 0.01  # random weights: every token is as likely as any of 150,000
    assert usages == [last.usage]


async def running(server: VllmServer, wanted: int) -> bool:
    """Whether the server comes to work on so many requests within ten seconds."""
    for _ in range(100):
        if await asyncio.to_thread(server.metric, "vllm:num_requests_running") == wanted:
            return True
        await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_stopping_makes_the_server_stop(server: VllmServer, way: str) -> None:
    begun, stop = asyncio.Event(), asyncio.Event()
    async with client_of(server, max_tokens=7000) as (model, usages):

        async def listen() -> None:
            async with aclosing(model.stream(asking(), purpose="test")) as pieces:
                async for _ in pieces:
                    begun.set()
                    if stop.is_set():
                        return

        task = asyncio.create_task(listen())
        await asyncio.wait_for(begun.wait(), 120)
        assert await running(server, 1)
        if way == "cancel":
            task.cancel()
        else:
            stop.set()
        await asyncio.gather(task, return_exceptions=True)
        assert await running(server, 0), "the server went on generating for nobody"
    assert [usage.estimated for usage in usages] == [True]
    assert usages[0].completion_tokens < 5000


async def test_gibberish_up_to_the_limit_is_set_aside(server: VllmServer) -> None:
    """The tiny model never ends by itself, as a large one does in a loop: OCR's reading must stand."""
    page = Image.effect_noise((800, 1100), 90).convert("RGB")
    settings = settings_of(server, max_tokens=48, max_visual_tokens=1024)
    reader = VlmReader(OpenAIChatModel(settings, list[Usage]().append), settings)
    whole = await reader.read(page)
    regions = await reader.read(page, [Box(0.1, 0.1, 0.9, 0.4), Box(0.1, 0.5, 0.6, 0.9)])
    await reader.aclose()
    for reading in (whole, regions):
        assert reading.blocks == ()
        assert reading.confidence == 0
        assert "cut off" in reading.note or "leaked" in reading.note
        assert reading.visual_tokens == reading.features["predicted_tokens"]
        assert reading.features["token_surprise"] == 0
    assert 700 < whole.visual_tokens <= 1024


async def test_a_dead_server_is_told_and_a_returning_one_is_used_again(server: VllmServer) -> None:
    async with client_of(server, retries=2) as (model, usages):
        assert (await model.complete(asking(), purpose="test")).text
        await asyncio.to_thread(server.kill)
        with pytest.raises(EndpointDown, match="did not answer"):
            await model.complete(asking(), purpose="test")
        await asyncio.to_thread(server.start)
        assert (await model.complete(asking(picture(64, 64)), purpose="test")).usage.visual_tokens == 64
    assert len(usages) == 2


async def test_a_server_that_dies_in_the_middle_of_a_reply_is_told(server: VllmServer) -> None:
    async with client_of(server, max_tokens=7000, retries=2) as (model, _):
        with pytest.raises(EndpointDown):
            async for _piece in model.stream(asking(), purpose="test"):
                await asyncio.to_thread(server.kill)


def test_sizes_are_those_of_the_installed_preprocessor(vllm_python: Path) -> None:
    draw = random.Random(20261129)
    sizes = [(int(2 ** draw.uniform(3, 14)), int(2 ** draw.uniform(3, 14))) for _ in range(2000)]
    sizes = [size for size in sizes if max(size) <= 200 * min(size)]
    script = Path(__file__).with_name("reference_sizes.py")
    done = subprocess.run(
        [vllm_python, script], input=json.dumps(sizes), capture_output=True, text=True, check=True, timeout=600
    )
    for row in json.loads(done.stdout):
        for family in FAMILIES:
            assert list(resized(*row["size"], family)) == row[family], row["size"]
