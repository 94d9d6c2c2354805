"""The OCR reader on real pages, held against what a person or the original says stands there."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import unicodedata
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont
from rapidfuzz import fuzz

from assistant.core.domain import WHOLE_PAGE, BlockKind, Box, Reader, Reading, Word
from ingestion.readers.ocr import OcrReader
from ingestion.readers.ocrpage import PageReader
from ingestion.readers.paddle import best_provider
from tests.documents import shared
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf


def picture(relative: str, page: int = 1, dpi: int = 150) -> Image.Image:
    path = shared(relative)
    if path.suffix == ".pdf":
        with pypdfium2.PdfDocument(path) as document:
            return document[page - 1].render(scale=dpi / 72).to_pil().convert("RGB")
    return Image.open(path).convert("RGB")


def text_of(reading: Reading) -> str:
    return plain("\n".join(block.text for block in reading.blocks))


def plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).translate(str.maketrans("’‘“”–—", "''\"\"--"))
    return " ".join(re.sub(r"(\w)-\n\s*(?=[a-z])", r"\1", text).split())


def hand_read(name: str) -> str:
    return plain(json.loads(shared(f"gt/hand_read/{name}.json").read_text("utf-8"))["text"])


def similarity(truth: str, reading: Reading) -> float:
    """How much of the truth stands in the reading as it is, 0 to 100."""
    return fuzz.partial_ratio(truth, text_of(reading))


async def test_a_clean_scan_is_read_as_a_person_reads_it(ocr_reader: OcrReader) -> None:
    reading = await ocr_reader.read(picture("scan_clean/typewriter.png"))
    assert similarity(hand_read("scan_clean__typewriter.png"), reading) > 97
    assert reading.reader is Reader.OCR
    assert all(block.reader is Reader.OCR for block in reading.blocks)
    assert reading.confidence > 0.9
    assert reading.features["weak_share"] < 0.3
    assert reading.features["unexplained_ink"] < 0.2
    assert reading.features["lines"] >= 15


async def test_two_columns_are_read_one_after_the_other(ocr_reader: OcrReader) -> None:
    reading = await ocr_reader.read(picture("multicolumn/double-column-A.jpg"))
    assert similarity(hand_read("multicolumn__double-column-A.jpg"), reading) > 95


@pytest.mark.parametrize("turned_by", [90, 180, 270])
async def test_a_page_lying_on_its_side_or_head_is_turned(ocr_reader: OcrReader, turned_by: int) -> None:
    page = picture("scan_hard/c02-22.pdf")
    lying = page.rotate(turned_by, expand=True)  # anticlockwise, so ``turned`` is the clockwise way back
    reading = await ocr_reader.read(lying)
    assert reading.turned == turned_by
    assert similarity(hand_read("scan_hard__c02-22.pdf"), reading) > 93


async def test_skew_is_measured_and_boxes_lie_on_the_page_as_shown(ocr_reader: OcrReader) -> None:
    level = picture("multilingual/francais.pdf", dpi=110)
    leaning = level.rotate(-4, expand=False, fillcolor="white")  # clockwise
    straight, reading = await asyncio.gather(ocr_reader.read(level), ocr_reader.read(leaning))
    assert abs(straight.features["skew"]) < 0.5
    assert reading.features["skew"] == pytest.approx(4, abs=0.7)
    assert similarity(hand_read("multilingual__francais.pdf"), reading) > 95
    text = straight.blocks[0].bbox
    found = Box.around(block.bbox for block in reading.blocks)
    assert found.share_inside(Box.of(text.x0 - 0.1, text.y0 - 0.1, text.x1 + 0.1, text.y1 + 0.1)) > 0.9


async def test_spanish_with_its_own_letters_and_marks(ocr_reader: OcrReader, tmp_path: Path) -> None:
    lines = [
        "El niño pidió 25,40 € de pensión en la calle 3.º B.",
        "¿Cómo se llama el señor de la montaña?",
        "¡Qué alegría que estén todos en la casa!",
        "Avda. de España, n.º 12, 1.ª planta, Logroño",
    ]
    content = "".join(text_at(40, 180 - 40 * number, line, 14) for number, line in enumerate(lines))
    write_pdf(tmp_path / "spanish.pdf", [PdfPage(content, media=(0, 0, 480, 220))])
    with pypdfium2.PdfDocument(tmp_path / "spanish.pdf") as document:
        page = document[0].render(scale=150 / 72).to_pil()
    read = text_of(await ocr_reader.read(page))
    assert "niño pidió 25,40 €" in read
    assert "¿Cómo se llama el señor de la montaña?" in read
    assert "¡Qué alegría que estén todos en la casa!" in read
    assert "España" in read and "Logroño" in read


async def test_a_page_in_another_script_is_read_with_the_whole_dictionary(ocr_reader: OcrReader) -> None:
    reading = await ocr_reader.read(picture("stamps_signatures/pr-136-example.pdf"))
    chinese = re.findall(r"[\u4e00-\u9fff]", text_of(reading))
    assert len(chinese) > 100
    assert reading.confidence > 0.8


@pytest.mark.parametrize("name", ["004", "316"])
async def test_a_receipt_keeps_its_key_fields(ocr_reader: OcrReader, name: str) -> None:
    reading = await ocr_reader.read(picture(f"scan_hard/sroie_{name}.jpg"))
    fields = json.loads(shared(f"gt/sroie/{name}.json").read_text("utf-8"))
    read = text_of(reading).upper()
    assert fields["total"] in read
    assert fuzz.partial_ratio(fields["company"].upper(), read) > 85
    rows = shared(f"gt/sroie/{name}.csv").read_text("utf-8").splitlines()
    truth = [plain(row.split(",", 8)[8]).upper() for row in rows if row.count(",") >= 8]
    found = [fuzz.partial_ratio(line, read) for line in truth if len(line) > 3]
    assert sum(score > 80 for score in found) > 0.85 * len(found)


async def test_print_and_handwriting_are_told_apart_by_the_features(ocr_reader: OcrReader) -> None:
    written, printed = await asyncio.gather(
        ocr_reader.read(picture("handwriting/handwriting_bad_ocr.pdf")),
        ocr_reader.read(picture("scan_clean/masks.pdf")),
    )
    assert written.features["handwriting"] > 0.3
    assert printed.features["handwriting"] < 0.1
    assert written.confidence < printed.confidence


async def test_a_blank_page_has_no_blocks_and_costs_nothing(ocr_reader: OcrReader) -> None:
    white = Image.new("RGB", (1654, 2339), "white")
    noisy = Image.effect_noise((1000, 1400), 6).convert("RGB").point(lambda value: min(255, value + 120))
    for page in (white, Image.new("L", (40, 40), 255), noisy):
        reading = await ocr_reader.read(page)
        assert reading.blocks == ()
        assert reading.features["lines"] == 0
    assert (await ocr_reader.read(white)).seconds < 1.5


async def test_a_lone_page_number_is_no_blank_page(ocr_reader: OcrReader) -> None:
    page = Image.new("RGB", (1654, 2339), "white")
    ImageDraw.Draw(page).text((800, 2200), "417", "black", ImageFont.load_default(30))
    assert text_of(await ocr_reader.read(page)) == "417"


@pytest.mark.parametrize("size", [(1, 1), (3, 900), (900, 3), (30, 12)])
async def test_odd_sizes_are_no_trouble(ocr_reader: OcrReader, size: tuple[int, int]) -> None:
    page = Image.new("RGB", size, "white")
    page.putpixel((0, 0), (0, 0, 0))
    reading = await ocr_reader.read(page)
    assert all(0 <= block.confidence <= 1 for block in reading.blocks)


async def test_a_very_large_picture_is_bounded_and_read(ocr_reader: OcrReader) -> None:
    page = picture("multilingual/francais.pdf", dpi=110)
    large = page.resize((page.width * 9000 // max(page.size), page.height * 9000 // max(page.size)))
    reading = await ocr_reader.read(large)
    assert similarity(hand_read("multilingual__francais.pdf"), reading) > 95


async def test_a_small_picture_is_enlarged(ocr_reader: OcrReader) -> None:
    page = picture("multilingual/francais.pdf", dpi=72)
    small = page.resize((page.width * 2 // 3, page.height * 2 // 3), Image.Resampling.LANCZOS)
    reading = await ocr_reader.read(small)
    assert similarity(hand_read("multilingual__francais.pdf"), reading) > 85


async def test_small_print_on_a_page_of_large_print_is_read_too(ocr_reader: OcrReader) -> None:
    page = Image.new("RGB", (1700, 2200), "white")
    draw = ImageDraw.Draw(page)
    for row, text in enumerate(("SUMMER SALE", "EVERYTHING", "MUST GO", "THIS WEEK", "ONLY HERE", "COME EARLY")):
        draw.text((120, 120 + 260 * row), text, "black", ImageFont.load_default(150))
    for row, text in enumerate(
        ("Offer ends 14 March 2025", "Stock is limited to 300 pieces", "Prices include 21% tax")
    ):
        draw.text((130, 1850 + 60 * row), text, "black", ImageFont.load_default(22))
    text = text_of(await ocr_reader.read(page))
    for wanted in ("MUST GO", "Offer ends 14 March 2025", "limited to 300 pieces", "21% tax"):
        assert fuzz.partial_ratio(wanted, text) > 92


async def test_only_the_regions_asked_for_are_read(ocr_reader: OcrReader) -> None:
    page = picture("scan_clean/masks.pdf")
    truth = json.loads(shared("gt/hand_read/scan_clean__masks.pdf.json").read_text("utf-8"))
    region = Box.of(*truth["region_frac"])
    reading = await ocr_reader.read(page, [region])
    assert fuzz.ratio(plain(truth["text"]), text_of(reading)) > 95
    grown = Box.of(region.x0 - 0.02, region.y0 - 0.02, region.x1 + 0.02, region.y1 + 0.02)
    assert all(block.bbox.share_inside(grown) > 0.95 for block in reading.blocks)
    assert reading.turned == 0


async def test_pictures_of_any_mode_come_out_the_same(ocr_reader: OcrReader) -> None:
    page = picture("scan_hard/sroie_316.jpg")
    clear = page.convert("RGBA")
    readings = await asyncio.gather(*(ocr_reader.read(i) for i in (page, page.convert("L"), clear)))
    texts = [text_of(reading) for reading in readings]
    assert texts[0] == texts[2]
    assert fuzz.ratio(texts[0], texts[1]) > 95
    see_through = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    assert (await ocr_reader.read(see_through)).blocks == ()


async def test_layout_comes_to_another_readers_words(ocr_reader: OcrReader) -> None:
    with pypdfium2.PdfDocument(shared("tables/icdar_us-018.pdf")) as document:
        page = document[0]
        width, height = page.get_size()
        image = page.render(scale=150 / 72).to_pil().convert("RGB")
        text = page.get_textpage()
        words: list[Word] = []
        for index in range(text.count_rects()):
            x0, y0, x1, y1 = text.get_rect(index)
            found = text.get_text_bounded(x0, y0, x1, y1).strip()
            words.append(Word(found, Box.of(x0 / width, 1 - y1 / height, x1 / width, 1 - y0 / height)))
    reading = await ocr_reader.structure(image, words)
    assert reading.reader is Reader.TEXT
    assert {block.reader for block in reading.blocks} == {Reader.TEXT}
    read = text_of(reading)
    assert all(plain(word.text) in read for word in words if len(word.text) > 4)


async def test_several_event_loops_and_threads_share_the_reader(ocr_reader: OcrReader) -> None:
    page = picture("scan_hard/sroie_316.jpg")
    found: list[str] = []

    def read_elsewhere() -> None:
        found.append(text_of(asyncio.run(ocr_reader.read(page))))

    threads = [threading.Thread(target=read_elsewhere) for _ in range(2)]
    for thread in threads:
        thread.start()
    here = text_of(await ocr_reader.read(page))
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    assert found == [here, here]


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_both_engines_read_the_same(provider: str) -> None:
    import numpy as np
    import onnxruntime

    if provider == "openvino" and "OpenVINOExecutionProvider" not in onnxruntime.get_available_providers():
        assert best_provider() == "cpu"  # nothing to compare on this platform
        return
    reader = PageReader.open(provider="openvino" if provider == "openvino" else "cpu")
    reading = reader.read(np.asarray(picture("scan_hard/sroie_316.jpg")))
    assert fuzz.partial_ratio("WESTERN EASTERN STATIONERY SDN.BHD", text_of(reading)) > 90
    assert "RM1.38" in text_of(reading)


async def test_every_box_lies_on_the_page_and_kinds_make_sense(ocr_reader: OcrReader) -> None:
    reading = await ocr_reader.read(picture("scan_clean/linn.png"))
    assert all(block.bbox.share_inside(WHOLE_PAGE) == pytest.approx(1) for block in reading.blocks)
    kinds = {block.kind for block in reading.blocks}
    assert {BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.LIST} <= kinds
    headings = [block.text for block in reading.blocks if block.kind is BlockKind.HEADING]
    assert any("Recording a Sequence" in heading for heading in headings)
    assert similarity(hand_read("scan_clean__linn.png"), reading) > 97
