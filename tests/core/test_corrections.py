"""What people correct: found again by place and text, kept by the catalogue, seen on every page that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from assistant.core.catalogue import SqlCatalogue
from assistant.core.corrections import corrected, place_of
from assistant.core.domain import (
    WHOLE_PAGE,
    Access,
    Block,
    BlockKind,
    Box,
    Correction,
    Document,
    DocumentStatus,
    PageReading,
    PageStatus,
    Reader,
    Receipt,
)
from assistant.core.errors import AccessDenied, BadRequest, NotFound
from assistant.core.ports import DocumentQuery, Order

EVERYTHING = Access("ana", None)
TOTAL = Block(BlockKind.PARAGRAPH, "Tota1: 1.250 eur0s", Box(0.1, 0.5, 0.6, 0.55), 0.7, Reader.OCR)
DATE = Block(BlockKind.PARAGRAPH, "Madrid, 3 de marzo", Box(0.1, 0.6, 0.6, 0.65), 0.9, Reader.OCR)
RIGHT = Correction(1, TOTAL.bbox, "Total: 1.250 euros", TOTAL.text, "ana")


def page(*blocks: Block, number: int = 1) -> PageReading:
    return PageReading(number, Reader.OCR, PageStatus.READ, 0.8, blocks, Receipt("a scan"), 0.1)


def test_a_correction_stands_where_the_block_stood_and_says_whose_it_is() -> None:
    seen = corrected(page(TOTAL, DATE), [RIGHT])
    assert seen.blocks[0] == replace(TOTAL, text="Total: 1.250 euros", confidence=1.0, corrected_by="ana")
    assert seen.blocks[1] is DATE
    assert corrected(page(TOTAL, number=2), [RIGHT]).blocks == (TOTAL,)
    assert corrected(page(TOTAL), [replace(RIGHT, text=None)]).blocks == (TOTAL,)  # only marked


def test_it_is_found_again_when_another_reader_cuts_and_spells_otherwise() -> None:
    again = replace(TOTAL, text="Total: 1.250 eurOs", bbox=Box(0.09, 0.49, 0.62, 0.56), reader=Reader.VLM)
    assert corrected(page(DATE, again), [RIGHT]).blocks[1].text == "Total: 1.250 euros"
    elsewhere = replace(TOTAL, bbox=Box(0.1, 0.8, 0.6, 0.85))
    other = replace(TOTAL, text="Firmado por ambas partes ante notario")
    assert place_of(RIGHT, (elsewhere,)) is None
    assert place_of(RIGHT, (other,)) is None


def test_where_a_format_has_no_places_the_text_decides() -> None:
    blocks = [replace(block, bbox=WHOLE_PAGE) for block in (DATE, TOTAL)]
    nowhere = replace(RIGHT, bbox=WHOLE_PAGE)
    assert [block.corrected_by for block in corrected(page(*blocks), [nowhere]).blocks] == ["", "ana"]
    assert corrected(page(blocks[0], blocks[0]), [nowhere]).blocks == (blocks[0], blocks[0])


def test_a_corrected_table_loses_the_html_the_reader_made() -> None:
    table = replace(TOTAL, kind=BlockKind.TABLE, html="<table></table>")
    assert corrected(page(table), [RIGHT]).blocks[0].html is None


@pytest.fixture
def catalogue(database_url: str) -> Iterator[SqlCatalogue]:
    catalogue = SqlCatalogue.open(database_url)
    yield catalogue
    catalogue.close()


def entered(catalogue: SqlCatalogue, name: str, collection: str = "legal", **more: object) -> Document:
    number = len(catalogue.documents(EVERYTHING)) + 1
    values = {"status": DocumentStatus.QUEUED, "pages": 1, "size": 10 * number, "owner": "ana", **more}
    document = Document(f"d{number}", name, f"{number:064x}", collection, **values)  # pyright: ignore[reportArgumentType]
    return catalogue.claim_document(document, "b" * 64)[0]


def read(catalogue: SqlCatalogue, document: Document, *blocks: Block, sure: float = 0.8) -> None:
    catalogue.put_page(document.id, replace(page(*blocks), confidence=sure))
    catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE))


def test_corrections_survive_a_new_reading_and_go_with_the_document(catalogue: SqlCatalogue) -> None:
    document = entered(catalogue, "a.pdf")
    read(catalogue, document, TOTAL)
    (ending,) = catalogue.page_endings(document.id, EVERYTHING)
    assert (ending.number, ending.reader, ending.confidence) == (1, Reader.OCR, 0.8)
    queued = catalogue.correct(document.id, RIGHT, EVERYTHING)
    assert (queued.status, queued.pages_done) == (DocumentStatus.QUEUED, 1)  # to be published, not to be read
    assert catalogue.pages_done(document.id) == {1}
    assert catalogue.page(document.id, 1, EVERYTHING).text == "Total: 1.250 euros"
    catalogue.requeue(document.id)
    read(catalogue, document, TOTAL, DATE)  # the page as the reader reads it again
    assert [one.text for one in catalogue.pages(document.id, EVERYTHING)] == [
        "Total: 1.250 euros\n\nMadrid, 3 de marzo"
    ]
    assert catalogue.corrected(document.id, page(TOTAL)).text == "Total: 1.250 euros"

    catalogue.correct(document.id, replace(RIGHT, text="TOTAL"), EVERYTHING)  # replaces the one before
    (kept,) = catalogue.corrections(document.id, EVERYTHING)
    assert (kept.text, kept.original, kept.bbox) == ("TOTAL", TOTAL.text, TOTAL.bbox)
    catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE))
    assert catalogue.withdraw_correction(document.id, kept.id, EVERYTHING).status is DocumentStatus.QUEUED
    assert catalogue.page(document.id, 1, EVERYTHING).blocks[0] == TOTAL
    catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE))
    assert catalogue.correct(document.id, replace(RIGHT, text=None), EVERYTHING).status is DocumentStatus.COMPLETE
    catalogue.delete_document(document.id, EVERYTHING)
    assert catalogue.rows_left(document.id) == 0


def test_corrections_of_others_documents_are_not_there(catalogue: SqlCatalogue) -> None:
    document = entered(catalogue, "a.pdf")
    read(catalogue, document, TOTAL)
    stranger = Access("eve", frozenset({"hr"}))
    catalogue.correct(document.id, RIGHT, EVERYTHING)
    for attempt in (
        lambda: catalogue.corrections(document.id, stranger),
        lambda: catalogue.correct(document.id, RIGHT, stranger),
        lambda: catalogue.withdraw_correction(document.id, 1, stranger),
        lambda: catalogue.move(document.id, "hr", stranger),
    ):
        with pytest.raises(NotFound):
            attempt()
    catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE))
    with pytest.raises(NotFound):
        catalogue.withdraw_correction(document.id, 99, EVERYTHING)


def test_a_document_moves_only_where_it_replaces_nothing(catalogue: SqlCatalogue) -> None:
    document = entered(catalogue, "a.pdf")
    entered(catalogue, "a.pdf", "hr")
    with pytest.raises(BadRequest, match="still being read"):
        catalogue.move(document.id, "archive", EVERYTHING)
    read(catalogue, document, TOTAL)
    with pytest.raises(AccessDenied):
        catalogue.move(document.id, "hr", Access("bea", frozenset({"legal"})))
    with pytest.raises(BadRequest, match=r"already holds a\.pdf"):
        catalogue.move(document.id, "hr", EVERYTHING)
    (moved,) = catalogue.move(document.id, "archive", EVERYTHING)
    assert (moved.collection, moved.status, moved.version) == ("archive", DocumentStatus.QUEUED, 1)
    with pytest.raises(NotFound):
        catalogue.document(document.id, Access("bea", frozenset({"legal"})))


def test_what_was_found_in_a_document_moves_with_it_or_nothing_moves(catalogue: SqlCatalogue) -> None:
    mail = entered(catalogue, "mail.eml")
    inner = entered(catalogue, "inner.zip", parent=mail.id)
    deep = entered(catalogue, "deep.txt", parent=inner.id)
    other = entered(catalogue, "other.eml")
    both = entered(catalogue, "both.txt", parent=mail.id)
    catalogue.claim_document(replace(both, parent=other.id), "b" * 64)  # hangs on the other mail as well
    for document in (mail, inner, both):
        read(catalogue, document, TOTAL)
    with pytest.raises(BadRequest, match=r"deep\.txt is still being read"):
        catalogue.move(mail.id, "archive", EVERYTHING)
    assert catalogue.document(mail.id, EVERYTHING).collection == "legal"
    read(catalogue, deep, TOTAL)
    moved = catalogue.move(mail.id, "archive", EVERYTHING)
    assert [document.name for document in moved] == ["mail.eml", "inner.zip", "deep.txt"]
    assert catalogue.document(both.id, EVERYTHING).collection == "legal"
    assert catalogue.move(mail.id, "archive", EVERYTHING) == []


def test_a_document_takes_another_name_with_what_was_found_in_it(catalogue: SqlCatalogue) -> None:
    mail = entered(catalogue, "mail.eml")
    inner = entered(catalogue, "mail.eml › a.pdf", parent=mail.id)
    entered(catalogue, "taken.eml")
    read(catalogue, mail, TOTAL)
    with pytest.raises(BadRequest, match="still being read"):
        catalogue.rename(mail.id, "post.eml", EVERYTHING)
    read(catalogue, inner, TOTAL)
    with pytest.raises(BadRequest, match=r"already holds taken\.eml"):
        catalogue.rename(mail.id, "taken.eml", EVERYTHING)
    with pytest.raises(NotFound):
        catalogue.rename(mail.id, "post.eml", Access("bea", frozenset({"hr"})))
    renamed = catalogue.rename(mail.id, "pöst.eml", EVERYTHING)
    assert [(one.name, one.status) for one in renamed] == [
        ("pöst.eml", DocumentStatus.QUEUED),
        ("pöst.eml › a.pdf", DocumentStatus.QUEUED),
    ]
    assert catalogue.pages_done(mail.id) == {1}
    assert {one.id for one in catalogue.documents(EVERYTHING, DocumentQuery(name="POST"))} == {mail.id, inner.id}
    assert catalogue.rename(mail.id, "pöst.eml", EVERYTHING) == []


def test_lists_are_sorted_where_they_are_kept(catalogue: SqlCatalogue) -> None:
    first = entered(catalogue, "Ñandú.pdf", owner="bea")
    second = entered(catalogue, "avión.pdf", "hr")
    third = entered(catalogue, "oso.pdf")
    read(catalogue, first, TOTAL, sure=0.6)
    read(catalogue, third, TOTAL, sure=0.9)

    def names(order: Order, *, ascending: bool = False) -> list[str]:
        query = DocumentQuery(order=order, ascending=ascending)
        return [document.name for document in catalogue.documents(EVERYTHING, query)]

    assert names(Order.NAME, ascending=True) == ["avión.pdf", "Ñandú.pdf", "oso.pdf"]
    assert names(Order.SIZE) == ["oso.pdf", "avión.pdf", "Ñandú.pdf"]
    assert names(Order.CONFIDENCE) == ["oso.pdf", "Ñandú.pdf", "avión.pdf"]  # last, where nothing is known
    assert names(Order.CONFIDENCE, ascending=True) == ["Ñandú.pdf", "oso.pdf", "avión.pdf"]
    assert names(Order.OWNER)[0] == "Ñandú.pdf"
    assert all(len(names(order)) == 3 for order in Order)
    sure = catalogue.confidences([first.id, second.id, third.id], EVERYTHING)
    assert sure == {first.id: pytest.approx(0.6), third.id: pytest.approx(0.9)}
    assert catalogue.confidences([first.id], Access("eve")) == {}
    tally = catalogue.tally(EVERYTHING, DocumentQuery(limit=1))
    assert (tally.total, tally.unfinished, tally.pages, tally.pages_done, tally.size) == (3, 1, 3, 2, 60)
    assert catalogue.tally(Access("eve")).total == 0
