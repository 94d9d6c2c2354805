"""Layout of page images: columns, kinds, tables with their spans, upright and level; against truth from elsewhere."""

from __future__ import annotations

import csv
import re

import numpy as np
import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz import fuzz

from assistant.core.domain import Block, BlockKind, Box, Reader
from ingestion.readers import imagelayout
from ingestion.readers.columns import Item, in_columns
from ingestion.readers.htmltable import read_table
from ingestion.readers.imagetables import gutters_of, is_table
from ingestion.readers.ink import is_blank, letter_height, unexplained_ink
from ingestion.readers.lines import Line, map_points, quad_of, rows_of
from ingestion.readers.ocr import OcrReader
from ingestion.readers.ocrblocks import PageLayout, blocks_of
from ingestion.readers.upright import inverse, propose_turn, skew_of, straighten, turn, turn_quads
from tests.documents import shared


def picture(relative: str, page: int = 1, dpi: int = 200) -> Image.Image:
    path = shared(relative)
    if path.suffix == ".pdf":
        with pypdfium2.PdfDocument(path) as document:
            return document[page - 1].render(scale=dpi / 72).to_pil().convert("RGB")
    return Image.open(path).convert("RGB")


def line(text: str, x0: float, y0: float, width: float, height: float = 10) -> Line:
    return Line(text, 0.9, quad_of(x0, y0, x0 + width, y0 + height))


def blocks(lines: list[Line]) -> tuple[Block, ...]:
    return blocks_of(lines, PageLayout(), lambda *box: Box.of(*(side / 1000 for side in box)), Reader.OCR)


def order(lines: list[Line]) -> list[str]:
    items = [Item(one.x0, one.y0, one.x1, one.y1, len(one.text), one.text) for one in lines]
    return [item.content for run in in_columns(items) for item in run]


def prose(name: str, x: float, top: float, count: int) -> list[Line]:
    return [line(f"{name}{n} words that fill a column", x, top + 14 * n, 200) for n in range(count)]


def test_columns_under_a_title_and_over_a_foot() -> None:
    left, right = prose("left", 0, 40, 6), prose("right", 230, 43, 6)
    page = [line("A title across both columns of the page", 0, 10, 430), *right, *left]
    page.append(line("And a foot that runs across both of them, too", 0, 140, 430))
    assert [text.split()[0] for text in order(page)] == (
        ["A", *(f"left{n}" for n in range(6)), *(f"right{n}" for n in range(6)), "And"]
    )


def test_three_columns() -> None:
    page = [*prose("c", 460, 0, 5), *prose("a", 0, 0, 5), *prose("b", 230, 0, 5)]
    assert [text[:2] for text in order(page)] == [f"{column}{n}" for column in "abc" for n in range(5)]


def test_amounts_stay_beside_what_they_belong_to() -> None:
    receipt = [line(name, 0, 14 * n, 120) for n, name in enumerate(["Café con leche", "Tostada integral", "Total"])]
    receipt += [line(amount, 380, 14 * n + 1, 40) for n, amount in enumerate(["1,40", "2,10", "3,50"])]
    (block,) = blocks(receipt)
    assert block.text == "Café con leche 1,40\nTostada integral 2,10\nTotal 3,50"


def test_words_divided_at_a_lines_end_are_whole_again() -> None:
    (block,) = blocks([line("The contract is estab-", 0, 0, 200), line("lished between the parties.", 0, 14, 200)])
    assert block.text == "The contract is established between the parties."


def test_lists_headings_and_paragraphs_by_position_alone() -> None:
    page = [
        line("Payment terms", 0, 0, 160, 18),
        line("The price is due within thirty days of the", 0, 40, 300),
        line("invoice.", 0, 54, 60),
        line("• in cash", 0, 90, 80),
        line("• by transfer", 0, 104, 90),
        line("Otherwise interest is owed on the amount.", 0, 140, 300),
    ]
    found = blocks(page)
    assert [block.kind for block in found] == [
        BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.LIST, BlockKind.PARAGRAPH,
    ]  # fmt: skip
    assert found[1].text == "The price is due within thirty days of the invoice."
    assert found[2].text == "- in cash\n- by transfer"
    assert found[0].level > 0


def test_a_mark_before_and_after_a_line_is_no_bullet() -> None:
    for text in ("*** THANK YOU ***", "-INVOICE-", "*8301245*"):
        (found,) = blocks([line(text, 0, 0, 160)])
        assert (found.kind, found.text) == (BlockKind.PARAGRAPH, text)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_lines_are_no_trouble(count: int) -> None:
    assert len(blocks([line("text", 0, 100 * n, 50) for n in range(count)])) == count


def test_a_turn_and_its_quads_belong_together() -> None:
    image = np.zeros((60, 100, 3), np.uint8)
    image[10:20, 30:80] = 255  # rows 10 to 20, columns 30 to 80
    for degrees in (0, 90, 180, 270):
        turned = turn(image, degrees)
        (quad,) = turn_quads([quad_of(30, 10, 80, 20)], degrees, 100, 60)
        x0, y0 = quad.min(axis=0).astype(int)
        x1, y1 = quad.max(axis=0).astype(int)
        assert turned[y0:y1, x0:x1].min() == 255
        assert (turned == 255).sum() == (image == 255).sum()
        assert tuple(quad[0]) == (x0, y0)  # clockwise from the top left again


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_the_model_proposes_the_way_back(degrees: int) -> None:
    page = np.ascontiguousarray(np.asarray(picture("scan_clean/linn.png").resize((1275, 1650)))[:, :, ::-1])
    assert (propose_turn(turn(page, degrees)) + degrees) % 360 == 0


@pytest.mark.parametrize("lean", [-7.0, -1.5, 0.0, 0.8, 5.0])
def test_skew_is_found_and_undone(lean: float) -> None:
    radians = np.radians(lean)
    around = np.array([[np.cos(radians), -np.sin(radians), 50], [np.sin(radians), np.cos(radians), 80]])
    quads = [map_points(quad_of(0, 40 * n, 400 - 30 * (n % 3), 40 * n + 20), around) for n in range(8)]
    assert skew_of(quads) == pytest.approx(lean, abs=0.1)
    level, matrix = straighten(np.full((500, 700, 3), 255, np.uint8), lean)
    straight = [map_points(quad, matrix) for quad in quads]
    assert all(abs(quad[0, 1] - quad[1, 1]) < 0.5 for quad in straight)
    assert all(quad.min() >= 0 and quad[:, 0].max() <= level.shape[1] for quad in straight)
    back = map_points(straight[0], inverse(matrix))
    np.testing.assert_allclose(back, quads[0], atol=0.05)


def test_ink_is_explained_by_lines_and_figures_only() -> None:
    page = np.full((800, 600, 3), 255, np.uint8)
    for x in range(100, 300, 12):
        page[100:110, x : x + 5] = 0  # a line of letters
        page[500:510, x : x + 5] = 0  # and a scribble
    page[700:702, 50:550] = 0  # a rule
    text = quad_of(98, 98, 302, 112)
    assert unexplained_ink(page, [], []) == pytest.approx(1)
    assert unexplained_ink(page, [text], []) == pytest.approx(0.5, abs=0.03)
    assert unexplained_ink(page, [text], [(90, 490, 310, 520)]) == pytest.approx(0)
    assert not is_blank(page)
    assert is_blank(np.full((800, 600, 3), 230, np.uint8))


@pytest.mark.parametrize("size", [24, 40, 90])
def test_letters_are_as_high_as_the_font_draws_them(size: int) -> None:
    page = Image.new("RGB", (2000, 2600), "white")
    font = ImageFont.load_default(size)
    for row in range(8):
        ImageDraw.Draw(page).text((100, 100 + row * 2 * size), "MAHNEXIKMAHNEXIK", "black", font)
    _, top, _, bottom = font.getbbox("MAHNEXIK")
    assert letter_height(np.asarray(page)) == pytest.approx(bottom - top, rel=0.15, abs=3)
    assert letter_height(np.full((800, 600, 3), 255, np.uint8)) == 0


def test_layout_is_the_same_on_either_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    page = np.asarray(picture("scan_clean/DA-1p.png"))
    imagelayout._layout_model.cache_clear()
    best = imagelayout.find_regions(page)
    monkeypatch.setattr(imagelayout, "best_provider", lambda: "cpu")
    imagelayout._layout_model.cache_clear()
    plain = imagelayout.find_regions(page)
    imagelayout._layout_model.cache_clear()
    assert len(plain) > 5
    assert sorted(region.kind.value for region in best) == sorted(region.kind.value for region in plain)
    assert all(any(one.overlap(other) > 0.9 and one.kind is other.kind for other in best) for one in plain)


def test_aligned_columns_make_a_table_and_prose_does_not() -> None:
    table = [line("x" * 8, 150 * column, 20 * row, 60) for row in range(4) for column in range(3)]
    assert len(gutters_of(table)) == 2
    assert is_table(table, gutters_of(table))
    paragraph = prose("p", 0, 0, 6)
    assert not is_table(paragraph, gutters_of(paragraph))
    assert len(rows_of(table)) == 4


def cells(text: str) -> list[str]:
    return [cell for cell in (squeezed(part) for part in re.split(r"(?<!\\)\||\n", text)) if cell]


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize(
    ("file", "truth", "merged"),
    [
        ("tables/spanning_cells.pdf", "spanning_cells.csv", True),
        ("tables/table-multi-row-column-cells.pdf", "table-multi-row-column-cells.csv", True),
        ("scan_hard/es_argentina_diputados_scan.jpg", "es_argentina_diputados.csv", False),
    ],
)
async def test_a_tables_rows_come_out_as_rows(ocr_reader: OcrReader, file: str, truth: str, merged: bool) -> None:
    reading = await ocr_reader.read(picture(file, dpi=120 if "multi-row" in file else 200))
    tables = [block for block in reading.blocks if block.kind is BlockKind.TABLE]
    assert tables
    assert (reading.features["merged_cells"] > 0) is merged
    with shared(f"gt/tables_csv/{truth}").open(encoding="utf-8", newline="") as rows:
        wanted = [[squeezed(cell) for cell in row if cell.strip()] for row in csv.reader(rows)]
    found = [cells(row) for table in tables for row in table.text.splitlines()]
    complete = [
        max(sum(max((fuzz.ratio(cell, f) for f in row), default=0) > 85 for cell in want) / len(want) for row in found)
        for want in wanted
        if len(want) > 1
    ]
    assert np.mean(complete) > 0.85
    for table in tables:
        assert table.html is not None
        grid = read_table(table.html).grid()
        assert len({len(row) for row in grid}) == 1
        assert "rowspan" in table.html or "colspan" in table.html or not merged or table is not tables[0]


async def test_nothing_that_was_read_is_lost_in_the_layout(ocr_reader: OcrReader) -> None:
    """A stamped page: text under the stamp, in figures and beside tables is kept."""
    reading = await ocr_reader.read(picture("stamps_signatures/indirect-rotation.pdf"))
    text = " ".join(block.text for block in reading.blocks)
    for words in ("Agreement No. 010099", "Ninth", "Singapore 138588", "Scottsdale, AZ 85254", "FEDERAL MARITIME COMM"):
        assert fuzz.partial_ratio(words, text) > 85, words


async def test_a_figure_is_a_block_of_its_own_with_its_text(ocr_reader: OcrReader) -> None:
    reading = await ocr_reader.read(picture("charts_figures/picture_classification.pdf", dpi=130))
    assert reading.features["figures"] >= 1
    figures = [block for block in reading.blocks if block.kind is BlockKind.FIGURE]
    assert figures
    assert all(figure.bbox.area > 0.01 for figure in figures)
