"""The kernel's types: what cannot be is refused, and boxes keep to the page."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.core import domain
from assistant.core.domain import (
    WHOLE_PAGE,
    Access,
    Anchor,
    Block,
    BlockKind,
    Box,
    Chunk,
    DocumentStatus,
    PageReading,
    PageStatus,
    Reader,
    Reading,
    Receipt,
    TimeSpan,
    clock,
    collection_name,
)
from assistant.core.errors import BadRequest
from assistant.core.shapes import CitationShape
from assistant.replies import citation

SIDES = st.floats(allow_nan=False)
BOXES = st.tuples(*[st.floats(0, 1)] * 4).map(lambda sides: Box.of(*sides))


@given(SIDES, SIDES, SIDES, SIDES)
def test_a_box_lies_on_the_page(x0: float, y0: float, x1: float, y1: float) -> None:
    box = Box.of(x0, y0, x1, y1)
    assert 0 <= box.x0 <= box.x1 <= 1
    assert 0 <= box.y0 <= box.y1 <= 1
    assert box == Box.of(x1, y1, x0, y0) == Box.of(*box)


@pytest.mark.parametrize("place", range(4))
def test_what_is_no_number_is_no_box(place: int) -> None:
    sides = [0.1, 0.2, 0.3, 0.4]
    sides[place] = math.nan
    with pytest.raises(ValueError, match="not a box"):
        Box.of(*sides)


def test_boxes_measure_as_on_paper() -> None:
    left, right = Box(0.0, 0.0, 0.5, 1.0), Box(0.25, 0.5, 1.0, 1.0)
    assert (left.width, left.height, left.area) == (0.5, 1.0, 0.5)
    assert left.overlap(right) == right.overlap(left) == 0.125
    assert left.share_inside(right) == 0.25
    assert right.share_inside(left) == pytest.approx(1 / 3)
    assert Box(0, 0, 0.1, 0.1).overlap(Box(0.1, 0.1, 0.2, 0.2)) == 0.0
    assert Box(0.3, 0.3, 0.3, 0.9).share_inside(WHOLE_PAGE) == 0.0


@given(st.lists(BOXES, min_size=1))
def test_the_box_around_holds_each(boxes: list[Box]) -> None:
    around = Box.around(boxes)
    for box in boxes:
        assert box.overlap(around) == pytest.approx(box.area)
        assert (around.x0 <= box.x0, around.y0 <= box.y0, around.x1 >= box.x1, around.y1 >= box.y1) == (True,) * 4


@given(BOXES, BOXES)
def test_an_overlap_is_no_larger_than_either(one: Box, other: Box) -> None:
    assert 0 <= one.overlap(other) <= min(one.area, other.area) + 1e-12
    assert 0 <= one.share_inside(other) <= 1 + 1e-9


@pytest.mark.parametrize("confidence", [-0.01, 1.01, math.nan])
def test_confidence_lies_between_nothing_and_certainty(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        Block(BlockKind.PARAGRAPH, "a", WHOLE_PAGE, confidence, Reader.OCR)


def test_only_tables_carry_html() -> None:
    Block(BlockKind.TABLE, "| a |", WHOLE_PAGE, 1.0, Reader.OCR, html="<table></table>")
    with pytest.raises(ValueError, match="only tables"):
        Block(BlockKind.PARAGRAPH, "a", WHOLE_PAGE, 1.0, Reader.OCR, html="<p>a</p>")


@pytest.mark.parametrize("degrees", [45, -90, 360])
def test_pages_turn_by_quarters(degrees: int) -> None:
    with pytest.raises(ValueError, match="quarters"):
        Reading(Reader.OCR, (), 1.0, 0.1, turned=degrees)


def test_a_pages_text_leaves_out_what_has_none() -> None:
    blocks = tuple(Block(BlockKind.PARAGRAPH, text, WHOLE_PAGE, 1.0, Reader.TEXT) for text in ("uno", "", "dos"))
    page = PageReading(1, Reader.TEXT, PageStatus.READ, 1.0, blocks, Receipt("r"), 0.1)
    assert page.text == "uno\n\ndos"


def test_final_is_what_no_longer_changes() -> None:
    final = {status for status in DocumentStatus if status.is_final}
    assert final == {DocumentStatus.COMPLETE, DocumentStatus.PARTIAL, DocumentStatus.FAILED}


def test_access_denies_by_default() -> None:
    assert not Access("ana").allows("legal")
    assert Access("ana", None).allows("anything")
    ana = Access("ana", frozenset({"legal"}))
    assert ana.allows("legal")
    assert not ana.allows("Legal")


def test_narrowing_never_widens() -> None:
    ana = Access("ana", frozenset({"legal", "press"}))
    assert ana.narrowed(None) == ana
    assert ana.narrowed("legal") == Access("ana", frozenset({"legal"}))
    assert ana.narrowed("medical").collections == frozenset()
    assert Access("root", None).narrowed("legal").collections == frozenset({"legal"})
    assert ana.narrowed(" le\u200bgal\n").collections == frozenset({"legal"})
    with pytest.raises(BadRequest):
        ana.narrowed(" ")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("legal", "legal"),
        ("  Recursos \t humanos\n", "Recursos humanos"),
        ("Jur\u0069\u0301dico", "Jurídico"),
        ("nul\0 and \udcff", "nul and"),
        ("😀 2026", "😀 2026"),
        ("x" * 100, "x" * 100),
    ],
)
def test_a_collection_is_named_as_it_looks(given: str, kept: str) -> None:
    assert collection_name(given) == kept
    assert collection_name(kept) == kept


@pytest.mark.parametrize("given", ["", " ", "\0\u200b", "*", "x" * 101])
def test_what_names_no_collection(given: str) -> None:
    with pytest.raises(BadRequest, match="1 to 100"):
        collection_name(given)


def test_a_chunk_is_searched_with_its_headings() -> None:
    anchor = Anchor("d1", 1, (WHOLE_PAGE,), ("Contrato", "Renta"))
    chunk = Chunk("c1", "d1", "contrato.pdf", "legal", 1, 0, "950 € al mes", (anchor,), Reader.OCR, 0.9)
    assert chunk.headings == ("Contrato", "Renta")
    assert chunk.searchable_text == "Contrato > Renta\n950 € al mes"
    assert dataclasses.replace(chunk, anchors=()).searchable_text == "950 € al mes"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (7.9, "0:07"), (723, "12:03"), (3599.99, "59:59"), (3723, "1:02:03")]
)
def test_a_moment_is_shown_as_on_a_player(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_a_chunk_of_a_recording_knows_when_it_is_said() -> None:
    boxes = (Box(0, 0, 1, 0.1), Box(0, 0.2, 1, 0.3))
    anchor = Anchor("d1", 2, boxes, times=(TimeSpan(723.0, 741.5), TimeSpan(750.0, 761.2)))
    chunk = Chunk("c1", "d1", "pleno.mp3", "actas", 2, 0, "Se abre la sesión.", (anchor,), Reader.SPEECH, 0.9)
    assert str(chunk.time) == "12:03–12:41"
    assert citation(1, chunk, boxes[:1]).time == TimeSpan(723.0, 741.5)
    assert citation(1, chunk, ()).time == TimeSpan(723.0, 761.2)
    cited = citation(1, chunk, boxes)
    shape = CitationShape.of(cited)
    assert shape.time is not None
    assert shape.time.text == "12:03–12:41"
    assert shape.as_citation() == cited
    assert dataclasses.replace(chunk, anchors=(Anchor("d1", 2, boxes),)).time is None


def test_everything_is_frozen() -> None:
    types = [kind for kind in vars(domain).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    assert len(types) >= 15
    assert all(kind.__dataclass_params__.frozen for kind in types)  # type: ignore[attr-defined]


def test_types_cross_process_boundaries() -> None:
    block = Block(BlockKind.PARAGRAPH, "a", Box(0.1, 0.2, 0.3, 0.4), 0.9, Reader.OCR)
    reading = Reading(Reader.OCR, (block,), 0.9, 1.0, features={"lines": 3.0})
    assert pickle.loads(pickle.dumps(reading)) == reading
