"""Citations on the pages that LibreOffice prints: the real program, on files made for the question."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docx
import numpy as np
import psutil
import pypdfium2
import pytest
from docx.enum.text import WD_BREAK
from pptx import Presentation

from assistant.core.blobs import FolderBlobStore
from assistant.core.domain import Block, Document, DocumentStatus
from assistant.core.settings import load_settings
from ingestion import soffice
from ingestion.officepages import OfficePages
from ingestion.openfiles import FilePool
from tests.ingestion.officefiles import opened, pages, paragraph, word

pytestmark = pytest.mark.skipif(soffice.program() is None, reason="LibreOffice is not installed (Debian: soffice)")


class Shelf:
    """A blob store with what prints from it."""

    def __init__(self, folder: Path, files: FilePool, seconds: float = 120) -> None:
        self.blobs = FolderBlobStore(folder / "blobs", 0)
        self.office = OfficePages(self.blobs, files, seconds)

    def put(self, path: Path) -> tuple[str, Document]:
        with path.open("rb") as file:
            blob = self.blobs.put(file)
        with opened(path) as source:
            count, media = source.page_count, source.media_type
        return blob, Document("d", path.name, blob, "c", DocumentStatus.COMPLETE, pages=count, media_type=media)

    def pdf(self, blob: str) -> Path:
        path = self.blobs.derived(blob, "printed.pdf")
        assert path is not None
        return path


@pytest.fixture
def files() -> Iterator[FilePool]:
    settings = load_settings()
    pool = FilePool(settings.limits, settings.triage)
    yield pool
    pool.close()


def blocks(path: Path) -> list[Block]:
    return [block for page in pages(path) for block in page.blocks]


def office_processes() -> set[int]:
    found = (process for process in psutil.process_iter() if "soffice" in process.name())
    return {process.pid for process in found if process.status() != psutil.STATUS_ZOMBIE}


def test_a_passage_is_boxed_on_the_page_it_prints_on(
    tmp_path: Path, files: FilePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = docx.Document()
    for page in range(4):
        for line in range(6):
            made.add_paragraph(
                f"En la hoja {page} y el renglón {line} hay palabras que hablan del asunto {page * 7 + line}."
            )
        if page == 2:
            made.add_paragraph("La fianza de la nave será de nueve mil euros, y se devuelve al salir.")
        made.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    path = tmp_path / "contrato.docx"
    made.save(path)
    shelf = Shelf(tmp_path, files)
    blob, document = shelf.put(path)
    cited = [block for block in blocks(path) if block.text.startswith("La fianza")]
    printed = shelf.office.passage(blob, document, 1, cited, 100)
    assert printed is not None

    pdf = pypdfium2.PdfDocument(shelf.pdf(blob))
    page = pdf[2]  # the third printed page: ours has all four in fewer
    width, height = page.get_size()
    text = page.get_textpage()
    boxed = " ".join(
        text.get_text_bounded(b.x0 * width - 1, (1 - b.y1) * height - 3, b.x1 * width + 1, (1 - b.y0) * height + 3)
        for b in printed.boxes
    )
    pdf.close()
    assert cited[0].text in " ".join(boxed.split())
    assert boxed.count("renglón") <= 1  # and hardly more: to the line, as far as the print's reader tells
    assert abs(printed.image.width / printed.image.height - width / height) < 0.01

    monkeypatch.setattr(soffice, "printed", lambda *_: pytest.fail("printed again"))
    assert shelf.office.passage(blob, document, 1, cited, 100) is not None


def test_what_does_not_print_is_not_found(tmp_path: Path, files: FilePool) -> None:
    path = word(tmp_path / "c.docx", paragraph("Lo que se imprime es esto y nada más que esto."))
    shelf = Shelf(tmp_path, files)
    blob, document = shelf.put(path)
    other = blocks(path)
    hidden = [replace(other[0], text="[comment by Ana: Habría que llamar antes a los abogados de la otra parte]")]
    assert shelf.office.passage(blob, document, 1, hidden, 100) is None
    assert shelf.office.passage(blob, document, 1, other, 100) is not None
    assert Shelf(tmp_path, files, seconds=0).office.passage(blob, document, 1, other, 100) is None


def test_slides_look_as_they_print_and_notes_stand_below(tmp_path: Path, files: FilePool) -> None:
    made = Presentation()
    for number in range(2):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text_frame.text = f"Título {number}", "Cuerpo de la diapositiva"
        slide.notes_slide.notes_text_frame.text = "Hablar despacio y mirar al público."
    made.slides[1]._element.set("show", "0")
    path = tmp_path / "charla.pptx"
    made.save(path)
    shelf = Shelf(tmp_path, files)
    blob, document = shelf.put(path)
    with opened(path) as source:
        drawn = source.page(2).render(100)
        share = 540 / source.page(2).height
    before = np.asarray(drawn.convert("L")).copy()
    image = shelf.office.slide(blob, document, 2, drawn, 100)
    assert image is not None  # the hidden one is printed too
    after = np.asarray(image.convert("L"))
    assert after.shape == before.shape
    edge = int(before.shape[0] * share)
    assert (before[: edge - 2] != after[: edge - 2]).any()
    assert (after[: edge - 2] < 128).mean() > 0.005
    assert np.array_equal(before[edge + 2 :], after[edge + 2 :])
    assert (after[edge + 2 :] < 128).any()


def test_nothing_is_fetched_while_printing(tmp_path: Path) -> None:
    asked: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    asked.append(connection.recv(200))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.getsockname()[1]}/a.png"
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        "Type="
        '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" '
        f'Target="{address}" TargetMode="External"/></Relationships>'
    )
    drawing = (
        '<w:p><w:r><w:drawing><wp:inline><wp:extent cx="900000" cy="900000"/><wp:docPr id="1" name="x"/><a:graphic>'
        '<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic><pic:nvPicPr>'
        '<pic:cNvPr id="1" name="x"/><pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip r:link="r1"/></pic:blipFill>'
        "<pic:spPr>"
        '<a:xfrm><a:off x="0" y="0"/><a:ext cx="900000" cy="900000"/></a:xfrm><a:prstGeom prst="rect"/></pic:spPr>'
        "</pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )
    path = word(tmp_path / "l.docx", drawing + paragraph("Texto"), {"_rels/document.xml.rels": rels})
    data = soffice.printed(path, "docx", 120)
    server.close()
    assert data is not None and data.startswith(b"%PDF")
    assert asked == []


def test_a_print_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    path = word(tmp_path / "t.docx", paragraph("x"))
    before = office_processes()
    begun = time.perf_counter()
    assert soffice.printed(path, "docx", 0.2) is None
    assert time.perf_counter() - begun < 10
    left, deadline = office_processes() - before, time.monotonic() + 20  # some may be another test's, which end too
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left &= office_processes()
    assert not left
