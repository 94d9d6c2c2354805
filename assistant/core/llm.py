"""The client for language and vision-language models: any OpenAI-compatible endpoint (vLLM, LiteLLM,
Ollama, TensorRT-LLM, …), over the ``openai`` package.

The package's own retries are off: which failures are worth another try, and what they are called, is
decided in ``endpoints``. Replies are always streamed, so that the time limit is one of silence, not of
length, and giving up closes the connection, at which vLLM stops generating.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from assistant.core import endpoints
from assistant.core.domain import Usage
from assistant.core.endpoints import Failed, Failure, RetryPolicy
from assistant.core.errors import BadRequest, Misconfigured
from assistant.core.pictures import data_url, fit_picture
from assistant.core.ports import Completion, Message
from assistant.core.settings import EndpointSettings, VlmSettings

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionChunk

log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0  # a host that is there answers a connection at once
BYTES_PER_TOKEN = 4  # of English and Spanish text, roughly; for estimates where nothing is reported


class OpenAIChatModel:
    """A ``ChatModel``. Usable from several event loops at once: each has its client and its share of
    ``settings.concurrency``. With ``VlmSettings`` pictures are fitted to the token budget before they
    are sent, and their tokens are known.

    ``record`` is called with the usage of every reply that began, also one that was stopped, in a
    thread; where the endpoint reported none, the tokens are estimated and marked so.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        record: Callable[[Usage], None],
        *,
        retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not settings.configured:
            raise Misconfigured("No endpoint is set", f"Set {endpoints.section(settings)}.base_url and .model")
        self._settings = settings
        self._record = record
        self._retry = retry or RetryPolicy()
        self._clock = clock
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._guard = threading.Lock()  # event loops run in threads of their own

    @property
    def model(self) -> str:
        return self._settings.model

    def stream(self, messages: Sequence[Message], *, purpose: str) -> AsyncGenerator[str | Completion]:
        """Pieces of text as they come, then one Completion.

        Transient failures are retried until the first piece is out; after that nothing is sent again
        (the reader would see two beginnings) and the failure is raised. Closing the iterator, or
        cancelling the task that reads it, closes the connection. Raises EndpointDown, EndpointBusy,
        Misconfigured, or BadRequest with the endpoint's own sentence.
        """
        return self._reply(messages, purpose, resend=False)

    async def complete(self, messages: Sequence[Message], *, purpose: str) -> Completion:
        """The whole reply. Raises as ``stream``, but a reply that breaks off is asked for again."""
        async with aclosing(self._reply(messages, purpose, resend=True)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    return piece
        raise AssertionError("a reply ends with a Completion or an error")

    async def aclose(self) -> None:
        """Close the connections, also those of other event loops that still run."""
        here = asyncio.get_running_loop()
        with self._guard:
            lanes, self._lanes = self._lanes, {}
        for loop, lane in lanes.items():
            if lane.client is None or loop.is_closed():
                continue
            if loop is here:
                await lane.client.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lane.client.close(), loop))

    async def _reply(
        self, messages: Sequence[Message], purpose: str, *, resend: bool
    ) -> AsyncGenerator[str | Completion]:
        lane = self._lane()
        request: _Request | None = None
        for tries in itertools.count(1):
            delay: float | None = None
            async with lane.slots:
                request = request or await asyncio.to_thread(_request, messages, self._settings)
                client = await lane.connected(self._settings)
                answer = _Answer(request, self._clock())
                try:
                    async with aclosing(self._pieces(client, answer)) as pieces:
                        async for piece in pieces:
                            yield piece
                except Failed as failed:
                    told = bool(answer.text) and not resend
                    if told or self._retry.gives_up(failed.failure, tries, self._settings.retries):
                        raise failed.failure.error from failed.__cause__
                    delay = self._retry.delay(failed.failure, tries)
                    log.warning("try %d failed, again in %.1f s: %s", tries, delay, failed.failure.error.message)
                finally:
                    usage = answer.usage(purpose, self._settings, self._clock())
                    if answer.begun:
                        await self._keep(usage)
            if delay is None:
                yield answer.completion(usage)
                return
            await self._retry.sleep(delay)  # the slot is free meanwhile: others need not wait with us

    async def _pieces(self, client: AsyncOpenAI, answer: _Answer) -> AsyncGenerator[str]:
        """The text pieces of one try. Raises Failed, nothing else."""
        import openai

        try:
            stream = await client.chat.completions.create(**answer.request.arguments)
            try:
                kind = stream.response.headers.get("content-type", "")
                if "event-stream" not in kind:
                    raise Failed(endpoints.not_an_api(kind, self._settings))
                answer.begun = True
                async for chunk in stream:
                    if piece := answer.absorb(chunk):
                        yield piece
            finally:
                await stream.close()
        except openai.NotFoundError as error:
            raise Failed(await self._not_found(client, error)) from error
        except openai.APIError as error:
            raise Failed(failure_of(error, self._settings)) from error
        except ValueError as error:  # no JSON, or JSON that is no chunk
            raise Failed(endpoints.garbled(f"sent something unintelligible: {error}", self._settings)) from error
        if not answer.finish:
            raise Failed(endpoints.garbled("broke off in the middle of its reply", self._settings))

    async def _not_found(self, client: AsyncOpenAI, error: Any) -> Failure:
        """Is it the model that is not there, or the path? Its list of models tells."""
        import openai

        try:
            served = [model.id for model in (await client.models.list(timeout=CONNECT_SECONDS)).data]
        except (openai.APIError, ValueError, TypeError, AttributeError):  # no list of models, e.g. a web page
            served = []
        sentence = endpoints.sentence_of(error.body)
        if self._settings.model in served or not (served or "model" in sentence.lower()):
            return endpoints.refused(404, sentence, {}, self._settings)
        return endpoints.unknown_model(served, self._settings)

    async def _keep(self, usage: Usage) -> None:
        log.info(
            "%s by %s: %d tokens in, %d out, %.1f s, prompt %s",
            usage.purpose,
            usage.model,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.seconds,
            usage.prompt or "-",
        )
        await note_usage(self._record, usage)

    def _lane(self) -> Lane:
        loop = asyncio.get_running_loop()
        with self._guard:
            if loop not in self._lanes:
                # an event loop that ended took its connections with it
                self._lanes = {other: lane for other, lane in self._lanes.items() if not other.is_closed()}
                self._lanes[loop] = Lane(asyncio.Semaphore(self._settings.concurrency))
            return self._lanes[loop]


async def note_usage(record: Callable[[Usage], None], usage: Usage) -> None:
    """``record`` it in a thread. A ledger that cannot be written must not cost what was paid for."""
    try:
        await asyncio.to_thread(record, usage)
    except Exception:
        log.exception("usage was not recorded: %s", usage)


@dataclass(slots=True)
class Lane:
    """What one event loop has of its own: places for requests, and a client that is opened when first asked for."""

    slots: asyncio.Semaphore
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    client: AsyncOpenAI | None = None

    async def connected(self, settings: EndpointSettings) -> AsyncOpenAI:
        async with self.lock:
            if self.client is None:  # in a thread: importing openai and reading certificates takes a second
                self.client = await asyncio.to_thread(_open, settings)
            return self.client


def _open(settings: EndpointSettings) -> AsyncOpenAI:
    """The package's client, without its own retries. Blocks. Misconfigured where the address cannot be used."""
    from openai import AsyncOpenAI, Timeout

    try:
        return AsyncOpenAI(
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value() or "none",  # the package insists on one, vLLM does not
            timeout=Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout)),
            max_retries=0,
        )
    except Exception as error:  # nothing is sent yet: the address or a certificate file is at fault
        raise endpoints.unusable(str(error), settings).error from error


@dataclass(frozen=True, slots=True)
class _Request:
    arguments: dict[str, Any]
    text_tokens: int  # estimated
    visual_tokens: int
    prompt: str = ""


def _request(messages: Sequence[Message], settings: EndpointSettings) -> _Request:
    """The request's arguments, its pictures fitted and encoded."""
    shown = sum(len(message.images) for message in messages)
    if isinstance(settings, VlmSettings) and shown > settings.images_per_prompt:
        raise BadRequest(
            f"{shown} pictures in one request, the endpoint takes {settings.images_per_prompt}", "Send fewer pictures"
        )
    visual, sent = 0, list[dict[str, Any]]()
    for message in messages:
        pictures: list[str] = []
        for image in message.images:
            fitted, cost = _fitted(image, settings)
            pictures.append(data_url(fitted))
            visual += cost
        sent.append({"role": message.role, "content": _content(message.text, pictures)})
    arguments: dict[str, Any] = {
        "model": settings.model,
        "messages": sent,
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if isinstance(settings, VlmSettings) and settings.logprobs:
        arguments["logprobs"] = True
    tokens = sum(_estimate(message.text) + 4 for message in messages)
    prompt = next((message.prompt for message in reversed(messages) if message.prompt), "")
    return _Request(arguments, tokens, visual, prompt)


def _fitted(image: bytes, settings: EndpointSettings) -> tuple[bytes, int]:
    if isinstance(settings, VlmSettings):
        return fit_picture(image, settings.family, settings.max_visual_tokens)
    return image, 0


def _content(text: str, pictures: list[str]) -> str | list[dict[str, Any]]:
    if not pictures:
        return text
    shown: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    return [*shown, {"type": "text", "text": text}]


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode()) / BYTES_PER_TOKEN)


@dataclass(slots=True)
class _Answer:
    """A reply as it grows."""

    request: _Request
    started: float
    begun: bool = False
    text: str = ""
    finish: str = ""
    reported: Any = None  # the endpoint's usage object
    probabilities: list[float] = field(default_factory=list[float])

    def absorb(self, chunk: ChatCompletionChunk) -> str:
        """Take in a chunk and return its text. ValueError when it is none: the package checks nothing."""
        choices = cast("Any", getattr(chunk, "choices", None))
        if not isinstance(choices, list):
            raise ValueError(f"no chunk of a reply: {str(chunk)[:100]}")
        self.reported = getattr(chunk, "usage", None) or self.reported
        if not choices:
            return ""
        choice = cast("Any", choices[0])
        self.finish = getattr(choice, "finish_reason", None) or self.finish
        told = getattr(getattr(choice, "logprobs", None), "content", None) or ()
        self.probabilities += [math.exp(min(0.0, token.logprob)) for token in told]
        piece = getattr(getattr(choice, "delta", None), "content", None) or ""
        self.text += piece
        return piece

    def usage(self, purpose: str, settings: EndpointSettings, now: float) -> Usage:
        """As reported, estimated where not. Pictures' tokens: as reported (vLLM does with
        ``--enable-prompt-tokens-details``), else as predicted."""
        prompt = getattr(self.reported, "prompt_tokens", None)
        completion = getattr(self.reported, "completion_tokens", None)
        estimated = prompt is None or completion is None
        if estimated:
            prompt = self.request.text_tokens + self.request.visual_tokens
            completion = _estimate(self.text)
        details = getattr(self.reported, "prompt_tokens_details", None)
        visual = (getattr(details, "multimodal_tokens", None) or {}).get("image", self.request.visual_tokens)
        return Usage(
            purpose=purpose,
            model=settings.model,
            prompt_tokens=prompt or 0,
            completion_tokens=completion or 0,
            visual_tokens=visual,
            seconds=now - self.started,
            price=((prompt or 0) * settings.price_in + (completion or 0) * settings.price_out) / 1e6,
            estimated=estimated,
            prompt=self.request.prompt,
        )

    def completion(self, usage: Usage) -> Completion:
        sure = sum(self.probabilities) / len(self.probabilities) if self.probabilities else None
        return Completion(self.text, usage, truncated=self.finish == "length", confidence=sure)


def failure_of(error: Any, settings: EndpointSettings) -> Failure:
    """What the package raised (an ``openai.APIError``), in our words."""
    import openai

    sentence = endpoints.sentence_of(error.body)
    if isinstance(error, openai.APIStatusError):
        return endpoints.refused(error.status_code, sentence, error.response.headers, settings)
    cause = error.__cause__
    if isinstance(error, openai.APITimeoutError) and "Connect" not in type(cause).__name__:
        return endpoints.silent(settings)
    if isinstance(error, openai.APIConnectionError):
        return endpoints.unreachable(f"{type(cause).__name__}: {cause}" if cause else str(error), settings)
    code = str(error.code or "")  # an error in the middle of a stream has no status, at best a code
    if code.isdigit() and int(code) >= 400:
        return endpoints.refused(int(code), sentence, {}, settings)
    return endpoints.garbled(f"failed: {sentence or error.message}", settings)
