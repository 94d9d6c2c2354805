"""What an OpenAI-compatible endpoint's failures mean, and when a request is worth sending again.

Knows no HTTP library: a failure is a status, the endpoint's own sentence and its headers.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from assistant.core.errors import BadRequest, EndpointBusy, EndpointDown, Misconfigured, PeritoError
from assistant.core.settings import EmbeddingSettings, EndpointSettings, TranscriptionSettings, VlmSettings

# 408 request timeout, 409 a lock, 425 too early, 429 too many requests, 503 and 529 overloaded
BUSY = frozenset({408, 409, 425, 429, 503, 529})
UNAUTHORISED = frozenset({401, 403, 407})
LONGEST_SENTENCE = 400
_OFFERS = {"embedding": "embeddings", "transcription": "transcriptions"}

AnyEndpoint = EndpointSettings | EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Failure:
    """What to tell, and whether to try again. ``after``: the seconds the endpoint asked us to wait;
    ``costly``: the try used up the whole time limit, so it is repeated once at most."""

    error: PeritoError
    transient: bool = False
    after: float | None = None
    costly: bool = False


class Failed(Exception):
    """Carries a ``Failure`` from the wire to the retry loop; never leaves the client."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter: a random wait up to ``first`` · 2ⁿ seconds, at most ``cap``.

    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015: full jitter spreads
    clients that failed together.) A Retry-After is honoured up to ``patience`` seconds; beyond that
    the failure is told at once. Sleep and randomness are injected by tests.
    """

    first: float = 0.5
    cap: float = 8.0
    patience: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def gives_up(self, failure: Failure, tries: int, retries: int) -> bool:
        """Whether the failure of the ``tries``-th try (from 1) is final with ``retries`` further tries."""
        allowed = min(retries, 1) if failure.costly else retries
        return not failure.transient or tries > allowed or (failure.after or 0) > self.patience

    def delay(self, failure: Failure, tries: int) -> float:
        jitter = self.random() * min(self.cap, self.first * 2 ** (tries - 1))
        return jitter if failure.after is None else failure.after + self.random() * self.first


def place(settings: AnyEndpoint) -> str:
    """The endpoint's URL without a password someone wrote into it."""
    return re.sub(r"//[^/]*@", "//", settings.base_url)


def section(settings: AnyEndpoint) -> str:
    """The settings' section that names the endpoint."""
    if isinstance(settings, EmbeddingSettings):
        return "embedding"
    if isinstance(settings, TranscriptionSettings):
        return "transcription"
    return "vlm" if isinstance(settings, VlmSettings) else "llm"


def refused(status: int, sentence: str, headers: Mapping[str, str], settings: AnyEndpoint) -> Failure:
    """What an HTTP status of 400 or above means."""
    where, said = place(settings), f": {sentence}" if sentence else ""
    if status in BUSY:
        error = EndpointBusy(f"The endpoint {where} is busy (HTTP {status}){said}")
        return Failure(error, transient=True, after=wished_delay(headers))
    if status >= 500 and status not in (501, 505):
        error = EndpointDown(f"The endpoint {where} failed (HTTP {status}){said}", "Look into its log")
        return Failure(error, transient=True, after=wished_delay(headers))
    if status in UNAUTHORISED:
        advice = f"Set {section(settings)}.api_key to a key it accepts"
        return Failure(Misconfigured(f"The endpoint {where} refused the key (HTTP {status}){said}", advice))
    if status in (404, 405, 501, 505):
        advice = f"Check {section(settings)}.base_url; it usually ends in /v1"
        missing = _OFFERS.get(section(settings), "chat completions")
        return Failure(Misconfigured(f"The endpoint {where} has no {missing} (HTTP {status}){said}", advice))
    return Failure(BadRequest(f"The endpoint {where} refused the request (HTTP {status}){said}", _advice(sentence)))


def unreachable(reason: str, settings: AnyEndpoint) -> Failure:
    """No connection, or one that broke."""
    if re.search(r"UnsupportedProtocol|InvalidURL|CERTIFICATE_VERIFY", reason):  # httpx's and OpenSSL's names
        return unusable(reason, settings)
    return Failure(EndpointDown(f"The endpoint {place(settings)} did not answer: {reason}"), transient=True)


def unusable(reason: str, settings: AnyEndpoint) -> Failure:
    """An address that nothing can be sent to, or a certificate that nobody vouches for."""
    message = f"The endpoint {place(settings)} cannot be used: {reason}"
    return Failure(Misconfigured(message, f"Check {section(settings)}.base_url and the machine's certificates"))


def silent(settings: EndpointSettings) -> Failure:
    """Connected, but nothing came within the time limit."""
    message = f"The endpoint {place(settings)} sent nothing for {settings.timeout:g} seconds"
    advice = f"Check its load, or raise {section(settings)}.timeout"
    return Failure(EndpointDown(message, advice), transient=True, costly=True)


def garbled(what: str, settings: EndpointSettings) -> Failure:
    """It answered, but not in the protocol, or not to the end."""
    return Failure(EndpointDown(f"The endpoint {place(settings)} {what}", "Look into its log"), transient=True)


def not_an_api(kind: str, settings: EndpointSettings) -> Failure:
    """A success that is no reply of an API, e.g. a proxy's sign-in page."""
    message = f"The endpoint {place(settings)} answered with {kind or 'nothing'} instead of a reply"
    advice = f"Check {section(settings)}.base_url; it usually ends in /v1"
    return Failure(Misconfigured(message, advice))


def unknown_model(served: list[str], settings: EndpointSettings) -> Failure:
    """404 for a model the endpoint does not serve."""
    message = f"The endpoint {place(settings)} serves no model {settings.model!r}"
    names = ", ".join(served)
    return Failure(
        Misconfigured(f"{message}; it serves {names}", f"Set {section(settings)}.model to one of them")
        if served
        else Misconfigured(message, f"Set {section(settings)}.model to the name it serves")
    )


def sentence_of(body: object) -> str:
    """The endpoint's own words in an error body, in whichever of the usual places they stand."""
    while isinstance(body, dict):
        fields: dict[str, object] = body
        body = next((fields[key] for key in ("error", "message", "detail") if fields.get(key)), "")
    if isinstance(body, list):
        body = "; ".join(filter(None, (sentence_of(part) for part in body)))
    text = " ".join(str(body or "").split())
    if text.startswith("<"):
        return ""  # a proxy's error page tells nobody anything
    return text if len(text) <= LONGEST_SENTENCE else text[:LONGEST_SENTENCE].rstrip() + "…"


def wished_delay(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header (a number or a date), None without one."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds == seconds else None


def _advice(sentence: str) -> str:
    if re.search(r"image", sentence) and re.search(r"at most|limit|many", sentence, re.IGNORECASE):
        return "Send fewer pictures, or raise the endpoint's --limit-mm-per-prompt and vlm.images_per_prompt"
    if re.search(r"context|too long|maximum.*length|max_tokens", sentence, re.IGNORECASE):
        return "Send less text or fewer pictures, or serve the model with a larger context"
    if "logprobs" in sentence:
        return "Set vlm.logprobs to false"
    return "Check that the model and its options fit the request"
