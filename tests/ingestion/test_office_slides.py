"""Presentations as python-pptx writes them, and what a slide's page shows."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from assistant.core.domain import BlockKind
from tests.documents import shared
from tests.ingestion.officefiles import opened, pages, picture_of, texts, told


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Presentation()
    first = made.slides.add_slide(made.slide_layouts[1])
    first.shapes.title.text = "Resultados"
    body = first.placeholders[1].text_frame
    body.text = "Ventas al alza"
    for text, level in (("Norte", 1), ("Costes a la baja", 0)):
        more = body.add_paragraph()
        more.text, more.level = text, level
    first.notes_slide.notes_text_frame.text = "Hablar despacio."
    second = made.slides.add_slide(made.slide_layouts[6])
    frame = second.shapes.add_table(3, 2, Inches(1), Inches(1), Inches(6), Inches(2)).table
    for row, cells in enumerate((("Zona", "€"), ("Norte", "5"), ("", "6"))):
        for column, text in enumerate(cells):
            frame.cell(row, column).text = text
    frame.cell(1, 0).merge(frame.cell(2, 0))
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(6), Inches(6), Inches(3), Inches(1)).text_frame.text = "Abajo a la derecha"
    second.shapes.add_picture(io.BytesIO(picture_of("Recibo 44")), Inches(1), Inches(4), Inches(4))
    second._element.set("show", "0")
    third = made.slides.add_slide(made.slide_layouts[5])
    third.shapes.title.text = "Ventas"
    data = CategoryChartData()
    data.categories = ["2025", "2026"]
    data.add_series("Norte", (7, 9))
    third.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(6), Inches(4), data)
    path = tmp_path_factory.mktemp("deck") / "deck.pptx"
    made.save(path)
    return path


def test_what_python_pptx_writes_is_read(deck: Path) -> None:
    assert told(deck) == [
        ("heading", "Resultados"),
        ("list", "- Ventas al alza\n  - Norte\n- Costes a la baja"),
        ("heading", "Speaker notes"),
        ("paragraph", "Hablar despacio."),
        ("heading", "Slide 2 (hidden slide)"),
        ("table", "| Zona | € |\n| --- | --- |\n| Norte | 5 |\n| Norte | 6 |"),
        ("paragraph", "Abajo a la derecha"),
        ("heading", "Ventas"),
        ("table", "|  | Norte |\n| --- | --- |\n| 2025 | 7 |\n| 2026 | 9 |"),
    ]
    grid = next(block for block in pages(deck)[1].blocks if block.kind is BlockKind.TABLE)
    assert grid.html == (
        '<table><tr><th>Zona</th><th>€</th></tr><tr><td rowspan="2">Norte</td><td>5</td></tr><tr><td>6</td></tr>'
        "</table>"
    )


def test_shapes_stand_where_the_slide_has_them(deck: Path) -> None:
    first, second, _ = pages(deck)
    table = next(block for block in second.blocks if block.kind is BlockKind.TABLE).bbox
    assert np.allclose(table, (0.1, 1 / 7.5, 0.7, 3 / 7.5), atol=0.01)  # a slide of 10 by 7.5 inches
    words = next(block for block in second.blocks if block.text == "Abajo a la derecha").bbox
    assert np.allclose(words, (0.6, 0.8, 0.9, 7 / 7.5), atol=0.01)
    assert np.allclose(second.pictures, [(0.1, 4 / 7.5, 0.5, (4 + 4 * 160 / 700) / 7.5)], atol=0.01)
    notes = next(block for block in first.blocks if block.text == "Hablar despacio.").bbox
    title = first.blocks[0].bbox  # as the layout places it: the slide itself says nothing
    assert notes.y0 > 540 / first.height  # below the slide
    assert title.y1 < 0.35
    assert title.width < 1


def test_a_slide_is_drawn_with_its_pictures(deck: Path) -> None:
    with opened(deck) as source:
        page = source.page(2)
        shown = np.asarray(page.render(100).convert("L"))
    assert shown.shape == (750, 1000)
    for box in (page.pictures[0], *(block.bbox for block in page.blocks[1:])):
        inside = shown[int(box.y0 * 750) : int(box.y1 * 750), int(box.x0 * 1000) : int(box.x1 * 1000)]
        assert (inside < 128).mean() > 0.002


def test_one_broken_slide_costs_only_itself(deck: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.pptx"
    with zipfile.ZipFile(deck) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data[: len(data) // 2] if name == "ppt/slides/slide2.xml" else data)
    with opened(path) as source:
        assert source.page_count == 3
        assert "slide2.xml cannot be read" in source.damage
    assert "Ventas" in texts(path)


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        (
            "office/docling_powerpoint_sample.pptx",
            ["| R1 | True | False |  | False | True | True |", "1. List item4\n2. List item5", "Second line of notes."],
        ),
        ("broken_or_hostile/fake-power-point-malformed.pptx", ["Test Slide", "Problem Date Placeholder"]),
        (
            "broken_or_hostile/powerpoint_malformed_pictures.pptx",
            ["Slide With Dangling Rel", "Slide With Missing BlipFill"],
        ),
    ],
)
def test_real_presentations(file: str, wanted: list[str]) -> None:
    text = "\n".join(texts(shared(file)))
    assert [each for each in wanted if each not in text] == []


def test_the_same_text_as_the_file_it_was_made_from() -> None:
    """The slides leave out the paragraph's line breaks; the words are the truth's."""
    said = " ".join(block.text for page in pages(shared("office/eng_spa_mult.pptx")) for block in page.blocks[1:])
    truth = shared("gt/text_layer/eng_spa_mult.txt").read_text("utf-8")
    assert said.split() == truth.split()
