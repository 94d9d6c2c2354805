"""Terms in any language, and how well words alone find real passages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assistant.core.bm25 import Bm25Encoder, fold, terms
from assistant.core.domain import Access
from assistant.core.index import open_index
from assistant.core.ports import SearchQuery
from assistant.core.settings import IndexSettings
from tests.core.indexing import chunk
from tests.documents import shared
from tests.fakes import FakeEmbedder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Año ÁRBOL árbol", ["ano", "arbol", "arbol~", "arbol", "arbol~"]),
        ("contratos", ["contratos", "contr~"]),
        ("1.234,50 €", ["1", "234", "50", "123450"]),
        ("AB-123/4", ["ab", "123", "4", "ab1234"]),
        ("28/02/2021", ["28", "02", "2021", "28022021"]),
        ("e-mail", ["e", "mail"]),
        ("20210228", ["20210228"]),
        ("Straße", ["strasse", "stras~"]),
        ("Ελληνικά", ["ελληνικα", "ελλην~"]),
        ("МОСКОВСКИЙ", ["московскии", "моско~"]),
        ("契約書", ["契約", "約書"]),
        ("법원", ["법원"]),
        ("ﬁrma²", ["firma2", "firma~"]),  # compatibility forms, as PDF fonts give them
        ("العَرَبِيَّة", ["العربية", "العرب~"]),
        ("", []),
        ("— … !", []),
    ],
)
def test_terms(text: str, expected: list[str]):
    assert terms(text) == expected


def test_case_accents_and_composition_make_no_difference():
    assert fold("Acción") == fold("ACCIÓN") == fold("Accio\u0301n") == "accion"


def test_weights_are_one_in_a_question_and_saturate_in_a_document():
    encoder = Bm25Encoder()
    question = encoder.query("plazo plazo de entrega")
    assert set(question.values) == {1.0}
    once = dict(zip(*encoder.document("plazo"), strict=True))
    often = dict(zip(*encoder.document("plazo " * 50), strict=True))
    assert once.keys() == often.keys()
    assert all(once[term] < often[term] < 2.2 for term in once)  # k + 1
    assert encoder.document("") == ([], [])


def test_words_alone_find_nine_of_ten_real_passages(tmp_path: Path):
    """XQuAD, Spanish and English mixed. Plain words without roots are right first for 90 and 92 %."""
    lines = shared("datasets/xquad/passages.open.jsonl").read_text("utf-8").splitlines()
    passages = [json.loads(line) for line in lines]
    questions = [
        json.loads(line) for line in shared("datasets/xquad/questions.open.jsonl").read_text("utf-8").splitlines()
    ][::8]
    index = open_index(IndexSettings(), tmp_path, FakeEmbedder())
    index.upsert([chunk(passage["text"], number) for number, passage in enumerate(passages)], None)
    right = 0
    for question in questions:
        (best, *_) = index.search(SearchQuery(question["question"], None, Access("anna", None), limit=1))
        right += passages[best.chunk.ordinal]["id"] == question["passage"]
    index.close()
    assert right / len(questions) >= 0.9
