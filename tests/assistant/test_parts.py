"""The small parts of an answer: thoughts, wording, ledger, places, wiring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.core.domain import Access, Block, BlockKind, Box, Reader, Usage
from assistant.core.settings import load_settings
from assistant.grounding import Placer, narrowed
from assistant.ledger import Account, Ledger, charged
from assistant.replies import ThoughtFilter
from assistant.wiring import build_assistant
from assistant.wording import declines
from tests.fakes import EVERYONE, FakeCatalogue, FakeEmbedder, FakeIndex, FakeIngestion


@given(st.lists(st.integers(1, 5), max_size=40))
def test_thoughts_are_held_back_however_they_are_cut(sizes: list[int]) -> None:
    reply, shown, position = "\n<think>is it [1]? </think>\n\nYes <b>.", "", 0
    thoughts = ThoughtFilter()
    for size in [*sizes, len(reply)]:
        shown += thoughts.feed(reply[position : position + size])
        position += size
    assert shown + thoughts.finish() == "Yes <b>."


@pytest.mark.parametrize(
    ("reply", "shown"),
    [("<think>endless", ""), ("<b>ok", "<b>ok"), ("<th", "<th"), ("<think></think>ok", "ok"), ("", "")],
)
def test_replies_without_a_whole_thought(reply: str, shown: str) -> None:
    thoughts = ThoughtFilter()
    assert "".join(thoughts.feed(character) for character in reply) + thoughts.finish() == shown


@pytest.mark.parametrize(
    "text",
    [
        "It is not in the documents.",
        "The sources do not contain this information.",
        "I could not find this in the provided sources.",
        "No figura en los documentos.",
        "Los documentos no mencionan el teléfono.",
        "No hay información sobre esto en las fuentes proporcionadas.",
    ],
)
def test_answers_that_decline(text: str) -> None:
    assert declines(text)


@pytest.mark.parametrize(
    "text", ["The deposit is not refundable.", "El contrato no incluye los gastos.", "No, it ends in May.", ""]
)
def test_answers_that_say_no_about_something_else(text: str) -> None:
    assert not declines(text)


async def test_usage_is_charged_even_when_each_step_runs_in_another_task() -> None:
    catalogue = FakeCatalogue()
    ledger = Ledger(catalogue)

    async def model() -> AsyncIterator[str]:
        yield "a"
        await asyncio.to_thread(ledger.record, Usage("answer", "m"))
        yield "b"

    account = Account(Access("ana", frozenset({"hr"})))
    pieces = charged(model(), account)
    assert [await asyncio.wait_for(anext(pieces), 1) for _ in range(2)] == ["a", "b"]
    await pieces.aclose()
    ledger.record(Usage("page", "m"))
    assert [(usage.user, usage.collection) for usage in catalogue.ledger] == [("ana", "hr"), ("", "")]
    assert account.lines == catalogue.ledger[:1]


def block(text: str, top: float) -> Block:
    return Block(BlockKind.PARAGRAPH, text, Box(0.1, top, 0.9, top + 0.1), 1.0, Reader.TEXT)


def test_a_sentence_is_boxed_by_its_block() -> None:
    blocks = [block("The rent is 950 euros.", 0.1), block("Cats are not allowed here.", 0.3), block("Far below.", 0.8)]
    passage = [b.bbox for b in blocks[:2]]
    assert narrowed(blocks, passage, ["Cats are not allowed here."]) == (blocks[1].bbox,)
    assert narrowed(blocks, passage, ["No cats allowed."]) == (blocks[1].bbox,)
    assert narrowed(blocks, passage, ["Far below."]) == ()


async def test_where_the_page_is_gone_the_passage_is_boxed() -> None:
    ingestion = FakeIngestion(FakeCatalogue(), FakeIndex())
    ingestion.add("The rent is 950 euros.\n\nCats are not allowed.", "lease.txt")
    one, two = ingestion.index.stored.values()
    assert await Placer(ingestion.catalogue).boxes(one, ["The rent is 950 euros."], EVERYONE) == one.anchors[0].boxes
    both = type(one)(**{name: getattr(one, name) for name in one.__slots__} | {"anchors": one.anchors + two.anchors})
    placer = Placer(ingestion.catalogue)
    assert await placer.boxes(both, ["Cats are not allowed."], EVERYONE) == two.anchors[0].boxes
    ingestion.catalogue.page_rows[one.document_id].clear()
    assert len(await placer.boxes(both, ["Cats are not allowed."], EVERYONE)) == 2


def test_wiring_builds_what_the_settings_name(tmp_path: Path) -> None:
    catalogue, index = FakeCatalogue(), FakeIndex()
    ingestion = FakeIngestion(catalogue, index)
    parts = {"index": index, "embedder": FakeEmbedder(), "catalogue": catalogue, "ingestion": ingestion}
    plain = build_assistant(load_settings(), **parts)
    assert plain.model is None and not plain.pictures.can_see
    endpoint = {"base_url": "http://localhost:1/v1", "model": "qwen"}
    full = build_assistant(load_settings(llm=endpoint, vlm=endpoint), **parts)
    assert full.model is not None and full.model.model == "qwen" and full.pictures.can_see
