"""From an office file to a cited answer with its page: real reading, real stores."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import docx
import numpy as np
import pytest
import pytest_asyncio
import xlsxwriter
from PIL import Image
from pptx import Presentation

from assistant.core.domain import Access, Answer, Citation, Document, DocumentStatus
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from tests.ingestion.officefiles import picture_of

EVERYONE = Access("ana", None)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def perito(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Perito]:
    home = str(tmp_path_factory.mktemp("home"))
    async with open_perito(load_settings(home=home, limits={"office_seconds": 0})) as perito:  # pages as drawn here
        yield perito


async def taken_in(perito: Perito, path: Path) -> Document:
    submission = await perito.worker.submit(Upload(path, path.name, path.suffix[1:]), EVERYONE)
    await perito.worker.drain()
    return perito.catalogue.document(submission.document.id, EVERYONE)


async def cited(perito: Perito, document: Document, question: str) -> tuple[str, Citation]:
    async for event in perito.assistant.answer(question, EVERYONE.narrowed(document.collection)):
        if isinstance(event, Answer):
            return event.text, event.citations[0]
    raise AssertionError("no answer came")


async def shown(perito: Perito, citation: Citation) -> tuple[Image.Image, Image.Image]:
    """The cited page without and with its boxes."""
    images = perito.page_images
    plain, boxed = [
        await asyncio.to_thread(images.page_image, citation.document_id, citation.page, EVERYONE, boxes)
        for boxes in ((), citation.boxes)
    ]
    return Image.open(io.BytesIO(plain)), Image.open(io.BytesIO(boxed))


def changed_share(plain: Image.Image, boxed: Image.Image) -> float:
    """The share of the page that the boxes cover."""
    differs = np.abs(np.asarray(plain.convert("RGB")).astype(int) - np.asarray(boxed.convert("RGB")).astype(int))
    return float((differs.max(axis=2) > 20).mean())


async def test_a_word_document_with_a_picture(perito: Perito, tmp_path: Path) -> None:
    made = docx.Document()
    made.add_heading("Contrato de suministro", 1)
    made.add_heading("Plazos", 2)
    made.add_paragraph("El plazo de entrega de las turbinas es de cuarenta días hábiles.")
    made.add_heading("Sello", 2)
    made.add_picture(io.BytesIO(picture_of("Registro 7741-B", 900, 200)))
    made.save(tmp_path / "contrato.docx")
    document = await taken_in(perito, tmp_path / "contrato.docx")
    assert (document.status, document.pages, document.error) == (DocumentStatus.COMPLETE, 1, "")
    page = perito.catalogue.page(document.id, 1, EVERYONE)
    assert [(str(block.reader), block.text) for block in page.blocks][-1] == ("ocr", "Registro 7741-B")

    text, citation = await cited(perito, document, "¿Cuál es el plazo de entrega de las turbinas?")
    assert "cuarenta días" in text
    plain, boxed = await shown(perito, citation)
    assert 0.002 < changed_share(plain, boxed) < 0.3


async def test_a_workbook_is_cited_by_its_range(perito: Perito, tmp_path: Path) -> None:
    path = tmp_path / "ventas.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Ventas")
        euros = book.add_format({"num_format": '#,##0.00 "€"'})
        sheet.write_row(0, 0, ["Provincia", "Ventas del trimestre"])
        for row, (name, amount) in enumerate((("Cuenca", 1250.5), ("Teruel", 980), ("Zamora", 77123.4)), 1):
            sheet.write(row, 0, name)
            sheet.write_number(row, 1, amount, euros)
    document = await taken_in(perito, path)
    assert document.status is DocumentStatus.COMPLETE
    text, citation = await cited(perito, document, "¿Cuáles fueron las ventas del trimestre en Zamora?")
    assert "77,123.40 €" in text
    assert citation.page == 1
    plain, boxed = await shown(perito, citation)
    assert 0.05 < changed_share(plain, boxed) < 0.9


async def test_a_slide_is_a_page(perito: Perito, tmp_path: Path) -> None:
    made = Presentation()
    for title, text in (("Inicio", "Bienvenidos al curso"), ("Precios", "La inscripción cuesta 45 euros por alumno")):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text_frame.text = title, text
    made.save(tmp_path / "curso.pptx")
    document = await taken_in(perito, tmp_path / "curso.pptx")
    text, citation = await cited(perito, document, "¿Cuánto cuesta la inscripción?")
    assert "45 euros" in text
    assert citation.page == 2
