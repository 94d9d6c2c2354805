"""Two readings of one page become one list of blocks: nothing twice, nothing lost, in reading order."""

from __future__ import annotations

from assistant.core.domain import Block, BlockKind, Box, Reader, Reading
from ingestion.blocks import merge_blocks, replace_regions


def block(
    text: str, box: tuple[float, ...], reader: Reader = Reader.TEXT, kind: BlockKind = BlockKind.PARAGRAPH
) -> Block:
    return Block(kind, text, Box.of(*box), 1.0 if reader is Reader.TEXT else 0.9, reader)


def reading(reader: Reader, *blocks: Block, turned: int = 0) -> Reading:
    return Reading(reader, blocks, 1.0, 0.1, turned=turned)


TITLE = block("Informe anual de la Autoridad Portuaria", (0.1, 0.05, 0.9, 0.1))
BODY = block("El tráfico de mercancías creció un 4,2 % respecto al año anterior.", (0.1, 0.12, 0.9, 0.3))
NOTE = block("Fuente: Puertos del Estado.", (0.1, 0.8, 0.9, 0.83))


def texts(blocks: tuple[Block, ...]) -> list[str]:
    return [one.text for one in blocks]


def test_what_the_picture_says_stands_where_the_picture_stands() -> None:
    chart = block("Toneladas 2024 2025 Bilbao Gijón", (0.2, 0.4, 0.8, 0.6), Reader.OCR)
    merged = merge_blocks(reading(Reader.TEXT, TITLE, BODY, NOTE), reading(Reader.OCR, chart))
    assert texts(merged) == [TITLE.text, BODY.text, chart.text, NOTE.text]
    assert [one.reader for one in merged] == [Reader.TEXT, Reader.TEXT, Reader.OCR, Reader.TEXT]


def test_a_line_that_both_read_is_kept_once_even_where_the_ocr_erred() -> None:
    again = block(
        "El tráfico de rnercancías creció un 4,2 % respecto al año anteríor.", (0.1, 0.13, 0.9, 0.29), Reader.OCR
    )
    merged = merge_blocks(reading(Reader.TEXT, TITLE, BODY), reading(Reader.OCR, again))
    assert texts(merged) == [TITLE.text, BODY.text]


def test_the_same_words_elsewhere_are_not_the_same_line() -> None:
    stamp = block("Informe anual", (0.6, 0.85, 0.9, 0.9), Reader.OCR)
    merged = merge_blocks(reading(Reader.TEXT, TITLE, BODY), reading(Reader.OCR, stamp))
    assert texts(merged) == [TITLE.text, BODY.text, "Informe anual"]


def test_only_the_new_part_of_a_longer_block_is_kept() -> None:
    more = block(
        "El tráfico de mercancías creció un 4,2 %. RECIBIDO 12 MAR 2026 Registro general de entrada",
        (0.1, 0.12, 0.9, 0.32),
        Reader.OCR,
    )
    merged = merge_blocks(reading(Reader.TEXT, BODY), reading(Reader.OCR, more))
    assert merged[1].text == "RECIBIDO 12 MAR 2026 Registro general de entrada"


def test_nothing_read_by_ocr_alone_is_lost() -> None:
    found = [block(f"línea {n} del sello", (0.1, 0.4 + n / 50, 0.5, 0.41 + n / 50), Reader.OCR) for n in range(5)]
    merged = merge_blocks(reading(Reader.TEXT, TITLE), reading(Reader.OCR, *found))
    assert texts(merged) == [TITLE.text, *(one.text for one in found)]


def test_columns_keep_their_order() -> None:
    left, right = block("columna izquierda", (0.05, 0.1, 0.45, 0.3)), block("columna derecha", (0.55, 0.1, 0.95, 0.8))
    below_left = block("pie de foto", (0.05, 0.5, 0.45, 0.55), Reader.OCR)
    merged = merge_blocks(reading(Reader.TEXT, left, right), reading(Reader.OCR, below_left))
    assert texts(merged) == ["columna izquierda", "pie de foto", "columna derecha"]


def test_boxes_follow_a_page_that_was_turned() -> None:
    stamp = block("sello", (0.8, 0.1, 0.9, 0.3), Reader.OCR)
    (merged,) = merge_blocks(reading(Reader.TEXT, turned=270), reading(Reader.OCR, stamp))
    assert merged.bbox == Box(0.1, 0.1, 0.3, 0.2)


def test_a_region_read_anew_replaces_what_stood_in_it() -> None:
    table = block("c0nfuso", (0.1, 0.4, 0.9, 0.6), Reader.OCR)
    better = block("claro", (0.1, 0.41, 0.9, 0.59), Reader.VLM)
    region = Box(0.1, 0.39, 0.9, 0.61)
    assert texts(replace_regions((TITLE, table, NOTE), (better,), (region,))) == [TITLE.text, "claro", NOTE.text]
    assert replace_regions((TITLE, table), (better,), ()) == (better,)
