"""LlamaIndex over our index: nodes and back, its retriever with our access filter, its sentence parser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import MetadataMode, QueryBundle, TextNode

from assistant.core.domain import Access
from assistant.core.index import open_index
from assistant.core.llamaindex import retriever, sentence_splitter, to_chunk, to_node
from assistant.core.ports import ChunkIndex
from assistant.core.settings import IndexSettings
from tests.core.indexing import ALL, chunk
from tests.fakes import FakeEmbedder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ChunkIndex]:
    opened = open_index(IndexSettings(), tmp_path, FakeEmbedder())
    chunks = [
        chunk("La fianza asciende a dos mensualidades.", 0),
        chunk("La nómina de marzo asciende a 2.000 euros.", 0, document="payroll", collection="hr"),
    ]
    opened.upsert(chunks, FakeEmbedder().embed_passages([chunk.searchable_text for chunk in chunks]))
    yield opened
    opened.close()


def test_a_chunk_becomes_a_node_and_comes_back():
    original = replace(chunk("La fianza asciende a dos mensualidades.", 4, page=7), corrected_by=("ana", "juan"))
    node = to_node(original)
    assert isinstance(node, TextNode)
    assert (node.node_id, node.ref_doc_id, node.text) == (original.id, "lease", original.text)
    assert node.get_content(MetadataMode.LLM) == original.text  # no metadata slips into a prompt
    assert to_chunk(TextNode.from_json(node.to_json())) == original


def test_its_retriever_finds_what_access_allows(index: ChunkIndex):
    found = retriever(index, FakeEmbedder(), ALL).retrieve("¿A cuánto asciende la fianza?")
    assert [to_chunk(hit.node).document_id for hit in found] == ["lease", "payroll"]  # pyright: ignore[reportArgumentType]
    assert found[0].score is not None and found[0].score > (found[1].score or 0)
    only = retriever(index, FakeEmbedder(), Access("anna", frozenset({"legal"}))).retrieve("¿Cuánto asciende?")
    assert [hit.node.metadata["collection"] for hit in only] == ["legal"]
    assert retriever(index, FakeEmbedder(), Access("mallory")).retrieve("¿Cuánto asciende?") == []
    assert len(retriever(index, FakeEmbedder(), ALL, limit=1).retrieve("asciende")) == 1


def test_its_retriever_works_in_an_event_loop_and_with_its_postprocessors(index: ChunkIndex):
    found = asyncio.run(retriever(index, FakeEmbedder(), ALL).aretrieve("asciende la fianza"))
    best = SimilarityPostprocessor(similarity_cutoff=found[0].score).postprocess_nodes(found, QueryBundle("x"))
    assert [hit.node.metadata["document_id"] for hit in best] == ["lease"]


def test_its_sentence_parser_cuts_at_sentence_ends_in_our_tokens():
    def words(text: str) -> int:
        return len(text.split())

    text = "El art. 3.1 fija la renta. ¿Y la fianza? Dos meses, dice el anexo. 契約は一年です。延長できます。 Fin."
    pieces = sentence_splitter(8, words)(text)
    assert " ".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(words(piece) <= 8 for piece in pieces)
    assert "¿Y la fianza?" in pieces[0] or pieces[1].startswith("¿Y la fianza?")
