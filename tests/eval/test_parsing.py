"""Character errors against documents whose text is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from assistant.core.domain import Block, BlockKind, Box, PageReading, PageStatus, Reader, Receipt
from assistant.core.errors import NotFound, UnreadableFile
from eval.parsing import Truth, load_truths, parse_folder, turned
from eval.report import as_html
from tests.documents import SHARED, shared


def page(*texts: str, number: int = 1) -> PageReading:
    blocks = tuple(
        Block(BlockKind.PARAGRAPH, text, Box(0, n / len(texts), 1, (n + 1) / len(texts)), 0.9, Reader.OCR)
        for n, text in enumerate(texts)
    )
    return PageReading(number, Reader.OCR, PageStatus.READ, 0.9, blocks, Receipt("test"), 0.1)


def test_all_truths_of_the_shared_documents() -> None:
    truths = load_truths(shared(""))
    kinds = Counter(truth.kind for truth in truths)
    assert kinds["hand_read"] == 21 and kinds["sroie"] >= 10 and kinds["htr"] >= 8 and kinds["text_layer"] >= 6
    assert all(truth.file.is_file() and (truth.text or truth.lines) for truth in truths)
    assert Counter(truth.kind for truth in load_truths(SHARED, limit=2)) == dict.fromkeys(kinds, 2)


def test_a_receipts_lines_keep_their_commas() -> None:
    truth = next(t for t in load_truths(shared("")) if t.file.name == "sroie_004.jpg")
    assert "LOT 1851-A & 1851-B, JALAN KPB 6," in truth.lines


async def test_the_truth_read_back_has_no_errors() -> None:
    """Whatever the form, a reading that is the truth itself scores zero."""
    truths = load_truths(shared(""))

    async def read(file: Path) -> Sequence[PageReading]:
        own = [truth for truth in truths if truth.file == file]
        return [page("\n".join([truth.text, *truth.lines]), number=truth.page) for truth in own]

    report = await parse_folder(truths, read)
    assert {parsed.truth.file.name: parsed.errors.edits for parsed in report.pages if parsed.errors.edits} == {}


async def test_what_cannot_be_read_counts_as_missed() -> None:
    truth = Truth("text_layer", Path("a.png"), 1, text="four")
    elsewhere = Truth("text_layer", Path("b.png"), 2, text="four")

    async def read(file: Path) -> Sequence[PageReading]:
        if file.name == "a.png":
            raise UnreadableFile("a.png is damaged")
        return [page("four")]

    report = await parse_folder([truth, elsewhere], read)
    assert report.total("text_layer").rate == 1.0
    assert [bool(parsed.error) for parsed in report.pages] == [True, True]
    assert "a.png is damaged" in as_html(report)


def test_a_region_is_cut_out_by_its_box() -> None:
    truth = Truth("hand_read", Path("a.png"), 1, text="lower half", region=Box(0, 0.5, 1, 1))
    assert truth.errors(page("upper half", "lower half")).edits == 0


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(0, (0.1, 0.2, 0.3, 0.4)), (90, (0.6, 0.1, 0.8, 0.3)), (180, (0.7, 0.6, 0.9, 0.8)), (270, (0.2, 0.7, 0.4, 0.9))],
)
def test_a_region_turns_with_its_page(degrees: int, expected: tuple[float, ...]) -> None:
    assert turned(Box(0.1, 0.2, 0.3, 0.4), degrees) == pytest.approx(expected)


def test_a_folder_without_truth(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_truths(tmp_path)
