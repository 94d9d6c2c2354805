"""What bad input gets: a clear refusal, or the pages that can be read; never a hang, never all the memory."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from PIL import Image

from assistant.core.errors import EmptyFile, EncryptedFile, TooLarge, UnreadableFile, UnsupportedFile
from assistant.core.settings import LimitSettings
from ingestion.readers.text import read_text
from ingestion.sources import open_source
from tests.documents import shared
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

LIMITS = LimitSettings()


@pytest.mark.parametrize(
    ("file", "password"),
    [
        ("password-example.pdf", "test"),
        ("password.pdf", "password"),
        ("r6-user-password.pdf", "asdfzxcv"),
        ("onyx_encrypted.pdf", "pass123"),
    ],
)
def test_an_encrypted_pdf_asks_for_its_password_and_opens_with_it(file: str, password: str) -> None:
    path = shared(f"broken_or_hostile/{file}")
    with pytest.raises(EncryptedFile, match="protected by a password") as caught:
        open_source(path, limits=LIMITS)
    assert "--password" in caught.value.advice
    with pytest.raises(EncryptedFile, match="does not open with that password"):
        open_source(path, password="wrong", limits=LIMITS)
    with open_source(path, password=password, limits=LIMITS) as source:
        assert source.page_count >= 1
        assert source.page(1).render(72).width > 50


def test_an_empty_password_opens_by_itself() -> None:
    with open_source(shared("broken_or_hostile/r2-empty-password.pdf"), limits=LIMITS) as source:
        assert len(read_text(source.page(1)).blocks) >= 1


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        ("zero_byte.pdf", EmptyFile, "is empty"),
        ("zero_byte.docx", EmptyFile, "is empty"),
        ("random_bytes.pdf", UnsupportedFile, "neither a PDF nor a picture nor readable text"),
        ("page_tree_loop.pdf", UnreadableFile, "cannot be read"),
        ("livecycle.pdf", UnsupportedFile, "XFA form"),
        ("378014596.pdf", UnreadableFile, "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(file: str, error: type[Exception], message: str) -> None:
    begun = time.monotonic()
    with pytest.raises(error, match=message):
        open_source(shared(f"broken_or_hostile/{file}"), limits=LIMITS)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "file", ["badlin1.pdf", "content-stream-errors.pdf", "docinfo_latin1_key.pdf", "no_contents.pdf", "trivial.pdf"]
)
def test_what_is_merely_odd_opens(file: str) -> None:
    with open_source(shared(f"broken_or_hostile/{file}"), limits=LIMITS) as source:
        for number in range(1, min(source.page_count, 5) + 1):
            read_text(source.page(number))


def test_a_damaged_table_of_contents_is_repaired() -> None:
    with open_source(shared("broken_or_hostile/failure-after-repair.pdf"), limits=LIMITS) as source:
        assert source.page_count == 76
        assert sum(len(source.page(number).lines) for number in (1, 20, 76)) > 10


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_a_truncated_pdf_gives_what_it_has_or_says_so(share: float, tmp_path: Path) -> None:
    data = shared("multicolumn/pdftotext_two_column_issue.pdf").read_bytes()
    cut = tmp_path / "cut.pdf"
    cut.write_bytes(data[: int(share * len(data))])
    try:
        source = open_source(cut, limits=LIMITS)
    except UnreadableFile as error:
        assert "cut.pdf" in error.message
        return
    with source:
        for number in range(1, source.page_count + 1):
            try:
                source.page(number)
            except UnreadableFile as error:
                assert f"Page {number} of cut.pdf" in error.message


def test_one_broken_page_costs_only_itself(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "three.pdf", [PdfPage(text_at(72, 700, f"Hoja {n}")) for n in (1, 2, 3)])
    data = path.read_bytes()
    second = data.index(b"6 0 obj\n<< /Type /Page ")
    path.write_bytes(
        data[:second] + data[second:].replace(b"/Type /Page ", b"/Tpye /Egap ", 1).replace(b"<<", b"[[", 1)
    )
    with open_source(path, limits=LIMITS) as source:
        assert source.page_count == 3
        assert source.page(1).lines[0].text == "Hoja 1"
        assert source.page(3).lines[0].text == "Hoja 3"
        with pytest.raises(UnreadableFile, match=r"Page 2 of three\.pdf"):
            source.page(2)


def test_a_page_beyond_the_last_is_unreadable(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "one.pdf", [PdfPage("")])
    with open_source(path, limits=LIMITS) as source, pytest.raises(UnreadableFile, match=r"Page 2 of one\.pdf"):
        source.page(2)


def test_a_picture_of_400_megapixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    Image.new("1", (20_000, 20_000), 1).save(path)
    assert path.stat().st_size < 2_000_000
    before = psutil.Process().memory_info().rss
    with pytest.raises(TooLarge, match=r"20000 × 20000 pixels \(400 megapixels\)"):
        open_source(path, limits=LIMITS)
    assert psutil.Process().memory_info().rss - before < 30e6


def test_a_large_jpeg_is_decoded_smaller(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    Image.new("L", (9_000, 9_000), 200).save(path, quality=30)
    with open_source(path, limits=LimitSettings(image_megapixels=30)) as source:
        page = source.page(1)
        assert (page.width, page.height) == (9_000, 9_000)
        image = page.render(200)
    assert image.width * image.height <= 12e6
    progressive = tmp_path / "progressive.jpg"
    Image.new("L", (9_000, 9_000), 200).save(progressive, quality=30, progressive=True)
    with pytest.raises(TooLarge, match="81 megapixels"):
        open_source(progressive, limits=LimitSettings(image_megapixels=30))


def test_a_page_of_five_metres_is_rendered_small(tmp_path: Path) -> None:
    side = 5 / 0.0254 * 72
    path = write_pdf(tmp_path / "poster.pdf", [PdfPage(text_at(72, side / 2, "Cartel", 400), media=(0, 0, side, side))])
    with open_source(path, limits=LIMITS) as source:
        page = source.page(1)
        image = page.render(600)
    assert page.width == pytest.approx(side, rel=0.001)
    assert image.width * image.height <= LIMITS.render_megapixels * 1.01e6
    assert [line.text for line in page.lines] == ["Cartel"]


def test_a_sliver_of_a_page_is_rendered(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "sliver.pdf", [PdfPage("", media=(0, 0, 14_000, 0.5))])
    with open_source(path, limits=LIMITS) as source:
        assert source.page(1).render(200).height >= 1


def test_an_81_megapixel_scan_is_bounded() -> None:
    with open_source(shared("broken_or_hostile/enormous.pdf"), limits=LIMITS) as source:
        image = source.page(1).render(300)
    assert image.width * image.height <= LIMITS.render_megapixels * 1e6


def test_five_thousand_pages_stream(tmp_path: Path) -> None:
    pages = [PdfPage(text_at(72, 700, f"Folio {n} de la causa")) for n in range(1, 5_001)]
    path = write_pdf(tmp_path / "causa.pdf", pages)
    process = psutil.Process()
    with open_source(path, limits=LIMITS) as source:
        assert source.page_count == 5_000
        source.page(1)
        before = process.memory_info().rss
        for number in range(2, 5_001, 10):
            assert source.page(number).lines[0].text == f"Folio {number} de la causa"
        assert process.memory_info().rss - before < 40e6
        with pytest.raises(TooLarge, match="5000 pages"):
            open_source(path, limits=LimitSettings(pages=4_999))


def test_a_noise_grid_is_read_in_bounded_time() -> None:
    begun = time.process_time()
    with open_source(shared("broken_or_hostile/issue-301.pdf"), limits=LIMITS) as source:
        read_text(source.page(1))
    assert time.process_time() - begun < 10
