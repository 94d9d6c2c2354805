"""The language model client against a real HTTP server that misbehaves in every way seen in the field."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from PIL import Image

from assistant.core.domain import Usage
from assistant.core.endpoints import RetryPolicy
from assistant.core.errors import BadRequest, EndpointBusy, EndpointDown, Misconfigured, PeritoError
from assistant.core.llm import OpenAIChatModel
from assistant.core.ports import Completion, Message
from assistant.core.prompts import load_prompt
from assistant.core.settings import EndpointSettings, VlmSettings
from tests.core.wire import Endpoint, Exchange, answer_raw, chunk, endpoint, failing, hang, saying

ASK = [Message("user", "What is the rent?")]
USAGE = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}


class Model:
    """A client of a test endpoint, with what it recorded and how long it slept."""

    def __init__(
        self,
        base_url: str,
        kind: type[EndpointSettings] = EndpointSettings,
        sleep: Callable[[float], Awaitable[object]] | None = None,
        **settings: Any,
    ) -> None:
        self.usages: list[Usage] = []
        self.slept: list[float] = []
        values = {"base_url": base_url, "model": "tiny", "timeout": 20, **settings}
        policy = RetryPolicy(sleep=sleep or self._sleep, random=lambda: 1.0)
        self.client = OpenAIChatModel(kind(**values), self.usages.append, retry=policy)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def complete(self) -> Completion:
        return await self.client.complete(ASK, purpose="answer")

    async def pieces(self) -> list[str | Completion]:
        return [piece async for piece in self.client.stream(ASK, purpose="answer")]


@asynccontextmanager
async def model_of(served: Endpoint | str, **settings: Any) -> AsyncIterator[Model]:
    model = Model(served if isinstance(served, str) else served.base_url, **settings)
    try:
        yield model
    finally:
        await model.client.aclose()


async def test_pieces_arrive_while_the_reply_is_still_being_written() -> None:
    seen = asyncio.Event()

    async def until_seen(exchange: Exchange) -> None:
        await asyncio.wait_for(seen.wait(), 10)  # the end is sent only after the beginning was seen

    async with (
        endpoint(saying("The rent ", "is 950 €.", usage=USAGE, before_end=until_seen)) as served,
        model_of(served, price_in=2.0, price_out=6.0) as model,
    ):
        pieces: list[str | Completion] = []
        async for piece in model.client.stream(ASK, purpose="answer"):
            pieces.append(piece)
            seen.set()
    assert pieces[:2] == ["The rent ", "is 950 €."]
    completion = pieces[2]
    assert isinstance(completion, Completion)
    assert (completion.text, completion.truncated) == ("The rent is 950 €.", False)
    usage = completion.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (1000, 500, False)
    assert usage.price == pytest.approx(1000 * 2 / 1e6 + 500 * 6 / 1e6)
    assert usage.seconds > 0
    assert [(u.purpose, u.model, u.prompt_tokens) for u in model.usages] == [("answer", "tiny", 1000)]
    asked = served.exchanges[0].body
    assert asked["messages"] == [{"role": "user", "content": "What is the rent?"}]
    assert asked["stream_options"] == {"include_usage": True}


async def test_the_first_call_does_not_block_the_event_loop() -> None:
    async with endpoint(saying("yes", usage=USAGE)) as served, model_of(served) as model:
        with blockbuster_ctx(["assistant", "openai", "httpx", "httpx2"]):
            assert (await model.complete()).text == "yes"


async def test_pictures_go_before_the_text_fitted_to_the_budget() -> None:
    file = io.BytesIO()
    Image.effect_noise((1600, 1200), 80).save(file, "PNG")
    message = Message("user", "What is this?", images=(file.getvalue(),))
    async with (
        endpoint(saying("noise", usage=USAGE)) as served,
        model_of(served, kind=VlmSettings, max_visual_tokens=300) as model,
    ):
        completion = await model.client.complete([message], purpose="picture")
    content = served.exchanges[0].body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image_url", "text"]
    media, _, data = content[0]["image_url"]["url"].partition(";base64,")
    assert media == "data:image/jpeg"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (640, 480)
    assert completion.usage.visual_tokens == 300  # (640 / 32) x (480 / 32)


async def test_reported_picture_tokens_win_over_predicted_ones() -> None:
    usage = USAGE | {"prompt_tokens_details": {"multimodal_tokens": {"image": 77}}}
    async with endpoint(saying("x", usage=usage)) as served, model_of(served) as model:
        assert (await model.complete()).usage.visual_tokens == 77


async def test_more_pictures_than_the_endpoint_takes_are_refused_here() -> None:
    message = Message("user", "?", images=(b"a", b"b", b"c"))
    async with endpoint(saying("x")) as served, model_of(served, kind=VlmSettings, images_per_prompt=2) as model:
        with pytest.raises(BadRequest, match="3 pictures in one request, the endpoint takes 2"):
            await model.client.complete([message], purpose="picture")
    assert served.exchanges == []


async def test_busy_is_tried_again_after_the_wait_it_asked_for() -> None:
    async with (
        endpoint(failing(429, retry_after="3"), saying("now", usage=USAGE)) as served,
        model_of(served) as model,
    ):
        assert (await model.complete()).text == "now"
    assert model.slept == [3.5]  # what was asked, and up to half a second so that not all return at once
    assert len(model.usages) == 1


async def test_a_wait_beyond_our_patience_is_told_at_once() -> None:
    async with endpoint(failing(503, "loading", retry_after="900")) as served, model_of(served) as model:
        with pytest.raises(EndpointBusy, match="loading"):
            await model.complete()
    assert (model.slept, len(served.exchanges)) == ([], 1)


async def test_failures_back_off_exponentially_and_end_as_down() -> None:
    async with endpoint(failing(500, "EngineCore died")) as served, model_of(served, retries=3) as model:
        with pytest.raises(EndpointDown, match=r"HTTP 500.*EngineCore died"):
            await model.complete()
    assert model.slept == [0.5, 1.0, 2.0]
    assert len(served.exchanges) == 4
    assert model.usages == []


def test_the_jitter_is_full_and_capped() -> None:
    from assistant.core.endpoints import Failure

    failure = Failure(EndpointDown("down"), transient=True)
    assert RetryPolicy(random=lambda: 0.0).delay(failure, 3) == 0.0
    assert RetryPolicy(random=lambda: 0.5).delay(failure, 2) == 0.5
    assert RetryPolicy(random=lambda: 1.0).delay(failure, 9) == 8.0


@pytest.mark.parametrize(
    ("status", "message", "error", "told"),
    [
        (400, "At most 2 image(s) may be provided in one prompt.", BadRequest, "--limit-mm-per-prompt"),
        (400, "This model's maximum context length is 8192 tokens.", BadRequest, "larger context"),
        (422, "temperature must be a number", BadRequest, "temperature must be a number"),
        (401, "Unauthorized", Misconfigured, "llm.api_key"),
        (403, "no", Misconfigured, "llm.api_key"),
        (405, "Method Not Allowed", Misconfigured, "llm.base_url"),
    ],
)
async def test_what_will_not_get_better_is_not_tried_again(
    status: int, message: str, error: type[PeritoError], told: str
) -> None:
    async with endpoint(failing(status, message)) as served, model_of(served) as model:
        with pytest.raises(error) as caught:
            await model.complete()
    assert message.rstrip(".") in str(caught.value)
    assert told in str(caught.value)
    assert (len(served.exchanges), model.slept) == (1, [])


async def test_a_model_that_is_not_served_names_those_that_are() -> None:
    refusal = failing(404, "The model `tiny` does not exist.")
    async with endpoint(refusal, models=["qwen3-vl-8b", "bge-m3"]) as served, model_of(served) as model:
        with pytest.raises(Misconfigured, match=r"no model 'tiny'; it serves qwen3-vl-8b, bge-m3.*llm\.model"):
            await model.complete()


@pytest.mark.parametrize("models", [["tiny"], []])
async def test_a_wrong_path_is_not_blamed_on_the_model(models: list[str]) -> None:
    page = answer_raw(404, b"<html>Not Found</html>", "text/html")
    async with endpoint(page, models=models) as served, model_of(served) as model:
        with pytest.raises(Misconfigured, match=r"has no chat completions \(HTTP 404\).*/v1"):
            await model.complete()


async def test_a_web_page_instead_of_a_reply_is_a_wrong_address() -> None:
    page = answer_raw(200, b"<html>Please sign in</html>", "text/html")
    async with endpoint(page) as served, model_of(served) as model:
        with pytest.raises(Misconfigured, match=r"answered with text/html"):
            await model.complete()
    assert model.usages == []


async def test_nothing_is_sent_again_after_the_first_piece() -> None:
    async with endpoint(saying("Half an ", done=False), saying("whole")) as served, model_of(served) as model:
        seen: list[str | Completion] = []
        with pytest.raises(EndpointDown):
            async for piece in model.client.stream(ASK, purpose="answer"):
                seen.append(piece)
    assert (seen, len(served.exchanges)) == (["Half an "], 1)
    assert [usage.estimated for usage in model.usages] == [True]  # the half was paid for


async def test_a_stream_that_breaks_before_the_first_piece_is_tried_again() -> None:
    async with endpoint(saying(done=False), saying("whole", usage=USAGE)) as served, model_of(served) as model:
        assert (await model.pieces())[0] == "whole"
    assert len(served.exchanges) == 2


async def test_a_whole_reply_that_nobody_saw_is_asked_for_again() -> None:
    async with (
        endpoint(saying("Half an ", done=False), saying("whole", usage=USAGE)) as served,
        model_of(served) as model,
    ):
        assert (await model.complete()).text == "whole"


async def test_a_stream_that_ends_politely_without_a_reason_broke_off() -> None:
    async with endpoint(saying("Half", finish=None)) as served, model_of(served, retries=0) as model:
        with pytest.raises(EndpointDown, match="broke off"):
            await model.complete()


@pytest.mark.parametrize("event", ['{"choices": [', "null", "[1, 2]", '{"no": "chunk"}', '{"choices": null}'])
async def test_garbage_in_the_stream_is_no_answer(event: str) -> None:
    async with endpoint(saying(extra=[event]), saying("fine", usage=USAGE)) as served, model_of(served) as model:
        assert (await model.complete()).text == "fine"
    assert len(served.exchanges) == 2


async def test_an_error_in_the_middle_of_a_stream_keeps_its_meaning() -> None:
    event = {"error": {"message": "prompt too long", "type": "BadRequestError", "code": 400}}
    async with endpoint(saying(extra=[event])) as served, model_of(served) as model:
        with pytest.raises(BadRequest, match="prompt too long"):
            await model.complete()


async def test_silence_is_given_up_after_the_time_limit_and_repeated_once_only() -> None:
    async with endpoint(hang) as served, model_of(served, timeout=1, retries=3) as model:
        with pytest.raises(EndpointDown, match="sent nothing for 1 seconds"):
            await model.complete()
    assert len(served.exchanges) == 2  # four times the limit would be a long wait for a person


async def test_nobody_there_is_down_and_back_again_works_without_a_restart() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with model_of(f"http://127.0.0.1:{port}/v1", retries=2) as model:
        with pytest.raises(EndpointDown, match=f"127.0.0.1:{port}/v1 did not answer"):
            await model.complete()
        assert len(model.slept) == 2
        async with endpoint(saying("back", usage=USAGE), port=port):
            assert (await model.complete()).text == "back"


@pytest.mark.parametrize("address", ["http://127.0.0.1:port/v1", "http://[::1/v1"])
async def test_an_address_that_no_request_can_go_to_is_a_wrong_setting(address: str) -> None:
    async with model_of(address) as model:
        with pytest.raises(Misconfigured, match=r"llm\.base_url"):
            await model.complete()
    assert model.slept == []


async def test_a_password_in_the_address_stays_out_of_messages() -> None:
    async with (
        endpoint(failing(400, "no")) as served,
        model_of(served.base_url.replace("http://", "http://me:hunter2@")) as model,
    ):
        with pytest.raises(BadRequest) as caught:
            await model.complete()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_stopping_closes_the_connection(way: str) -> None:
    gone = asyncio.Event()

    async def until_gone(exchange: Exchange) -> None:
        await exchange.hung_up()
        gone.set()

    async with endpoint(saying("And so ", before_end=until_gone)) as served, model_of(served) as model:
        begun = asyncio.Event()

        async def listen() -> None:
            async with aclosing(model.client.stream(ASK, purpose="answer")) as pieces:
                async for _ in pieces:
                    begun.set()
                    if way == "close":
                        return

        task = asyncio.create_task(listen())
        await asyncio.wait_for(begun.wait(), 10)
        if way == "cancel":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.wait_for(gone.wait(), 10)  # the server saw us hang up
    assert [(usage.estimated, usage.completion_tokens) for usage in model.usages] == [(True, 2)]


async def test_the_prompt_is_named_in_the_log_and_in_the_ledger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    prompt = load_prompt("read_page")
    messages = [Message("user", "before"), Message("user", prompt.render(), prompt=prompt.label), *ASK]
    async with endpoint(saying("x", usage=USAGE)) as served, model_of(served) as model:
        await model.client.complete(messages, purpose="page")
    assert [usage.prompt for usage in model.usages] == [f"read_page@{prompt.hash}"]
    assert re.search(rf"page by tiny: 1000 tokens in, 500 out, [\d.]+ s, prompt read_page@{prompt.hash}", caplog.text)


async def test_requests_in_flight_are_limited() -> None:
    async def wait(exchange: Exchange) -> None:
        await asyncio.sleep(0.05)

    async with (
        endpoint(saying("x", usage=USAGE, before_end=wait)) as served,
        model_of(served, concurrency=2) as model,
    ):
        await asyncio.gather(*(model.complete() for _ in range(6)))
    assert (len(served.exchanges), served.most) == (6, 2)


async def test_who_waits_before_trying_again_holds_up_nobody() -> None:
    async with endpoint(failing(503), saying("x", usage=USAGE)) as served:
        waiting, other_done = asyncio.Event(), asyncio.Event()

        async def sleep(seconds: float) -> None:
            waiting.set()
            await asyncio.wait_for(other_done.wait(), 10)

        model = Model(served.base_url, sleep=sleep, concurrency=1)
        first = asyncio.create_task(model.complete())
        await asyncio.wait_for(waiting.wait(), 10)
        assert (await asyncio.wait_for(model.complete(), 10)).text == "x"
        other_done.set()
        assert (await first).text == "x"
        await model.client.aclose()


async def test_one_client_serves_several_event_loops() -> None:
    async with endpoint(saying("x", usage=USAGE)) as served:
        model = Model(served.base_url)

        async def elsewhere() -> str:
            text = (await model.complete()).text
            await model.client.aclose()
            return text

        assert (await model.complete()).text == "x"
        assert await asyncio.to_thread(asyncio.run, elsewhere()) == "x"
        assert (await model.complete()).text == "x"
        await model.client.aclose()


async def test_without_reported_usage_it_is_estimated_and_says_so() -> None:
    async with endpoint(saying("four", " and ", "some")) as served, model_of(served) as model:
        usage = (await model.complete()).usage
    assert usage.estimated
    assert 3 <= usage.completion_tokens <= 6
    assert 3 <= usage.prompt_tokens <= 20


async def test_a_ledger_that_fails_does_not_cost_the_answer() -> None:
    def full(_: Usage) -> None:
        raise OSError("disk full")

    async with endpoint(saying("kept", usage=USAGE)) as served:
        settings = EndpointSettings(base_url=served.base_url, model="tiny")
        client = OpenAIChatModel(settings, full)
        assert (await client.complete(ASK, purpose="answer")).text == "kept"
        await client.aclose()


async def test_token_probabilities_become_a_confidence() -> None:
    reply = saying("a", "b", usage=USAGE, logprobs=[-0.1053605, -0.6931472])  # ln .9, ln .5
    async with endpoint(reply) as served, model_of(served, kind=VlmSettings) as model:
        assert (await model.complete()).confidence == pytest.approx(0.7)
        assert served.exchanges[0].body["logprobs"] is True
    async with endpoint(saying("a", usage=USAGE)) as served, model_of(served) as model:
        assert (await model.complete()).confidence is None
        assert "logprobs" not in served.exchanges[0].body


async def test_a_reply_at_its_limit_says_so() -> None:
    async with endpoint(saying("a lot", usage=USAGE, finish="length")) as served, model_of(served) as model:
        assert (await model.complete()).truncated


async def test_chunks_without_choices_and_empty_pieces_are_passed_over() -> None:
    extra = [{**chunk({}), "choices": []}, chunk({"role": "assistant", "content": ""}), chunk({"content": "x"})]
    async with endpoint(saying(extra=extra, usage=USAGE)) as served, model_of(served) as model:
        assert [piece for piece in await model.pieces() if isinstance(piece, str)] == ["x"]


def test_without_an_endpoint_there_is_no_client() -> None:
    with pytest.raises(Misconfigured, match=r"llm\.base_url"):
        OpenAIChatModel(EndpointSettings(), print)
