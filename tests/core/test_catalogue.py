"""The catalogue on SQLite and PostgreSQL: nothing lost, nothing seen that may not be, nothing left behind."""

from __future__ import annotations

import inspect
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select, text
from sqlalchemy.dialects import postgresql

from assistant.core import catalogue as catalogue_module
from assistant.core import database as database_module
from assistant.core.catalogue import PAGES_AT_ONCE, SqlCatalogue
from assistant.core.database import Database
from assistant.core.domain import (
    WHOLE_PAGE,
    Access,
    Block,
    BlockKind,
    Box,
    Collection,
    Decision,
    Document,
    DocumentStatus,
    JobState,
    PageReading,
    PageStatus,
    Reader,
    Reading,
    Receipt,
    Usage,
)
from assistant.core.errors import DiskFull, Misconfigured, NotFound, StoreBusy
from assistant.core.ports import Catalogue, DocumentQuery
from assistant.core.selection import conditions
from assistant.core.tables import documents

EVERYTHING = Access("worker", None)
NOTHING = Access("stranger")
BLOB = "b" * 64


@pytest.fixture
def catalogue(database_url: str) -> Iterator[SqlCatalogue]:
    catalogue = SqlCatalogue.open(database_url)
    yield catalogue
    catalogue.close()


@pytest.fixture
def sqlite_catalogue(tmp_path: Path) -> Iterator[SqlCatalogue]:
    catalogue = SqlCatalogue.open(f"sqlite:///{tmp_path / 'perito.db'}")
    yield catalogue
    catalogue.close()


def a_document(number: int = 1, **more: Any) -> Document:
    values = {"id": f"d{number}", "name": f"contrato {number}.pdf", "sha256": f"{number:064x}", "collection": "legal"}
    return Document(**{**values, "status": DocumentStatus.QUEUED, **more})


def a_page(number: int = 1, **more: Any) -> PageReading:
    heading = Block(BlockKind.HEADING, "# Cláusula 1ª", Box(0.1, 0.05, 0.9, 0.1), 0.99, Reader.TEXT, level=1)
    table = Block(
        BlockKind.TABLE,
        "| a | b |",
        Box(0.1, 0.2, 0.9, 0.7),
        0.81,
        Reader.OCR,
        html="<table><tr><td>a</td></tr></table>",
    )
    text_reading = Reading(Reader.TEXT, (heading,), 0.99, 0.01, features={"lines": 1.0})
    ocr_reading = Reading(
        Reader.OCR, (table,), 0.81, 1.5, turned=90, features={"weak_share": 0.25}, note="one weak line"
    )
    decisions = (
        Decision("text layer sound?", 0.41, 0.6, "ocr", "Too little text for the ink.", Box(0.1, 0.2, 0.9, 0.7)),
        Decision("table with merged cells?", 2.0, 1.0, "vlm", "Two merged cells."),
    )
    receipt = Receipt("A table is a picture.", decisions, {"ink": 0.12}, {"text": 0.01, "ocr": 1.5}, 0, True)
    page = PageReading(
        number=number,
        reader=Reader.MIXED,
        status=PageStatus.LOW_CONFIDENCE,
        confidence=0.85,
        blocks=(heading, table),
        receipt=receipt,
        seconds=1.6,
        turned=90,
        width=595.3,
        height=841.9,
        readings=(text_reading, ocr_reading),
    )
    return replace(page, **more)


def a_failed_page(number: int) -> PageReading:
    return PageReading(
        number, Reader.NONE, PageStatus.FAILED, 0.0, (), Receipt("No."), 0.1, error="The page is damaged."
    )


# -- the port and the access filter -----------------------------------------------------------


def test_it_is_the_kernels_catalogue(catalogue: SqlCatalogue) -> None:
    port: Catalogue = catalogue
    catalogue.claim_document(a_document(), BLOB)
    assert port.document("d1", EVERYTHING).id == "d1"


WRITES = {"claim_document", "update_document", "count_chunks", "put_page", "record"}
FOR_THE_WORKER = {
    "corrected",
    "marked",
    "older_versions",
    "pages_done",
    "blob_in_use",
    "release_blob",
    "rows_left",
    "requeue",
    "ancestors",
    "family",
    "half_embedded",
    "sole_parts",
}  # no interface calls them
WITHOUT_CONTENT = {"open", "close", "ping"}


def test_every_read_asks_for_access() -> None:
    public = {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(SqlCatalogue, callable)
        if not name.startswith("_")
    }
    exempt = WRITES | FOR_THE_WORKER | WITHOUT_CONTENT
    assert exempt < set(public)
    reads = {name: signature for name, signature in public.items() if name not in exempt}
    assert len(reads) >= 8
    for name, signature in reads.items():
        assert "access" in signature.parameters, name
        assert signature.parameters["access"].default is inspect.Parameter.empty, name


def all_that_can_be_read(catalogue: SqlCatalogue, access: Access) -> list[object]:
    """What each reading method gives for ``access``, [] standing for "not found"."""

    def ask(question: Any) -> object:
        try:
            return question() or []
        except NotFound:
            return []

    return [
        ask(lambda: [catalogue.document("d1", access)]),
        ask(lambda: catalogue.documents(access)),
        ask(lambda: catalogue.collections(access)),
        ask(lambda: catalogue.documents(access, DocumentQuery(sha256=a_document().sha256))),
        ask(lambda: catalogue.blob("d1", access)),
        ask(lambda: catalogue.page("d1", 1, access)),
        ask(lambda: list(catalogue.pages("d1", access))),
        ask(lambda: catalogue.usage_totals(access)),
        ask(lambda: catalogue.delete_document("d1", access)),
    ]


@pytest.mark.parametrize(
    "access", [NOTHING, Access("ana", frozenset({"medical"})), Access("ana", frozenset({"LEGAL", "legal "}))]
)
def test_what_may_not_be_seen_looks_as_if_it_were_not_there(catalogue: SqlCatalogue, access: Access) -> None:
    catalogue.claim_document(a_document(), BLOB)
    catalogue.put_page("d1", a_page())
    catalogue.record(Usage("page", "qwen", 100, collection="legal", document_id="d1", user="beto"))
    assert all_that_can_be_read(catalogue, access) == [[]] * 9
    assert catalogue.rows_left("d1") > 0
    forbidden = message_of(lambda: catalogue.document("d1", access))
    absent = message_of(lambda: catalogue.document("d9", access))
    assert forbidden == absent.replace("d9", "d1")


def message_of(question: Any) -> str:
    with pytest.raises(NotFound) as error:
        question()
    return str(error.value)


@pytest.mark.parametrize(
    "access", [EVERYTHING, Access("ana", frozenset({"legal"})), Access("a", frozenset({"x", "legal"}))]
)
def test_what_may_be_seen_is_all_there(catalogue: SqlCatalogue, access: Access) -> None:
    catalogue.claim_document(a_document(), BLOB)
    catalogue.put_page("d1", a_page())
    catalogue.record(Usage("page", "qwen", 100, collection="legal", document_id="d1"))
    assert all(all_that_can_be_read(catalogue, access))
    assert catalogue.rows_left("d1") == 0  # deleting was the last


def test_a_list_holds_only_ones_own(catalogue: SqlCatalogue) -> None:
    for number, collection in enumerate(["legal", "medical", "legal", "press"], start=1):
        catalogue.claim_document(a_document(number, collection=collection), BLOB)
    ana = Access("ana", frozenset({"legal", "press"}))
    assert {document.id for document in catalogue.documents(ana)} == {"d1", "d3", "d4"}
    assert catalogue.collections(ana) == [Collection("legal", 2, 0), Collection("press", 1, 0)]
    assert catalogue.documents(ana.narrowed("medical")) == []


# -- documents --------------------------------------------------------------------------------


def test_a_document_comes_back_as_it_was_given(catalogue: SqlCatalogue) -> None:
    created = datetime(2026, 11, 29, 10, 30, 15, 123456, tzinfo=UTC)
    given_document = a_document(
        status=DocumentStatus.READING,
        pages=12,
        size=5_000_000_000,
        media_type="application/pdf",
        owner="ana",
        created=created,
    )
    catalogue.claim_document(given_document, BLOB)
    assert catalogue.document("d1", EVERYTHING) == given_document
    assert catalogue.blob("d1", EVERYTHING) == BLOB


def test_a_time_in_another_zone_is_the_same_time(catalogue: SqlCatalogue) -> None:
    from zoneinfo import ZoneInfo

    created = datetime(2026, 7, 1, 9, 0, tzinfo=ZoneInfo("Europe/Madrid"))
    catalogue.claim_document(a_document(created=created), BLOB)
    assert catalogue.document("d1", EVERYTHING).created == created


def test_the_same_bytes_in_the_same_collection_are_one_document(catalogue: SqlCatalogue) -> None:
    first, created = catalogue.claim_document(a_document(), BLOB)
    again, once_more = catalogue.claim_document(a_document(id="other", name="copy.pdf"), BLOB)
    assert (created, once_more) == (True, False)
    assert again == first
    elsewhere, created_there = catalogue.claim_document(a_document(id="third", collection="press"), BLOB)
    assert created_there
    assert elsewhere.id == "third"


def test_submissions_at_once_give_one_document(database_url: str) -> None:
    """Twelve threads over two catalogues, as two processes would."""
    catalogues = [SqlCatalogue.open(database_url), SqlCatalogue.open(database_url)]
    start = threading.Barrier(12)

    def claim(number: int) -> tuple[str, bool]:
        start.wait()
        document, created = catalogues[number % 2].claim_document(a_document(id=f"try{number}"), BLOB)
        return document.id, created

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(claim, range(12)))
    assert len({document_id for document_id, _ in results}) == 1
    assert sum(created for _, created in results) == 1
    for catalogue in catalogues:
        catalogue.close()


def test_new_versions_at_once_are_numbered_without_gaps(catalogue: SqlCatalogue) -> None:
    start = threading.Barrier(8)

    def claim(number: int) -> int:
        start.wait()
        return catalogue.claim_document(a_document(number, name="contrato.pdf"), BLOB)[0].version

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(claim, range(8))) == [1, 2, 3, 4, 5, 6, 7, 8]


CLAIM = """
import sys
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import Document, DocumentStatus
catalogue = SqlCatalogue.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    document = Document(f"{sys.argv[2]}-{number}", "a.pdf", f"{number:064x}", "legal", DocumentStatus.QUEUED)
    print(catalogue.claim_document(document, "b" * 64)[1])
"""


def test_processes_that_submit_the_same_files_share_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'perito.db'}"
    catalogue = SqlCatalogue.open(url)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, url, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    created = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert [claims.count("True") + claims.count("False") for claims in created] == [20, 20]
    assert sum(claims.count("True") for claims in created) == 20
    assert sorted(document.version for document in catalogue.documents(EVERYTHING)) == list(range(1, 21))
    catalogue.close()


def test_versions_of_a_name(catalogue: SqlCatalogue) -> None:
    for number in (1, 2, 3):
        catalogue.claim_document(a_document(number, name="contrato.pdf"), BLOB)
    catalogue.claim_document(a_document(4, name="contrato.pdf", collection="press"), BLOB)
    newest = catalogue.document("d3", EVERYTHING)
    assert newest.version == 3
    assert [document.id for document in catalogue.older_versions(newest)] == ["d2", "d1"]
    assert catalogue.older_versions(catalogue.document("d4", EVERYTHING)) == []


def a_part(number: int, parent: str, **more: Any) -> Document:
    return a_document(number, parent=parent, size=100 * number, **more)


def test_parts_know_where_they_were_found(catalogue: SqlCatalogue) -> None:
    for document in (a_document(1), a_part(2, "d1"), a_part(3, "d2"), a_part(4, "d1")):
        catalogue.claim_document(document, BLOB)
    assert [part.id for part in catalogue.parts("d1", EVERYTHING)] == ["d2", "d4"]
    assert catalogue.parts("d1", Access("ana", frozenset({"press"}))) == []
    assert catalogue.document("d3", EVERYTHING).parent == "d2"
    assert catalogue.ancestors("d3") == ["d2", "d1"]
    assert catalogue.family("d1") == (3, 900)
    assert {part.id for part in catalogue.sole_parts("d1")} == {"d2", "d4"}
    assert catalogue.delete_document("d2", EVERYTHING) is None  # its parts go first; none is left behind
    assert catalogue.document("d3", EVERYTHING).parent == "d2"
    for document_id in ("d3", "d2"):
        assert catalogue.delete_document(document_id, EVERYTHING) == []
        assert catalogue.rows_left(document_id) == 0


def test_a_part_found_twice_goes_with_the_last_it_was_found_in(catalogue: SqlCatalogue) -> None:
    for document in (a_document(1), a_document(2), a_part(3, "d1"), a_part(4, "d1")):
        catalogue.claim_document(document, BLOB)
    again, created = catalogue.claim_document(replace(a_part(3, "d2"), id="other"), BLOB)
    assert (again.id, again.parent, created) == ("d3", "d1", False)
    by_itself, _ = catalogue.claim_document(replace(a_document(4), id="another"), BLOB)
    assert (by_itself.id, by_itself.parent) == ("d4", None)
    assert catalogue.sole_parts("d1") == []
    catalogue.delete_document("d1", EVERYTHING)
    assert [catalogue.document(each, EVERYTHING).parent for each in ("d3", "d4")] == ["d2", None]
    assert [part.id for part in catalogue.sole_parts("d2")] == ["d3"]


class Pause:
    """Holds the transaction that calls ``function`` open there, until ``go_on`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        original = getattr(catalogue_module, function)

        def paused(*arguments: Any) -> Any:
            result = original(*arguments)
            if not self.reached.is_set():
                self.reached.set()
                assert self.go_on.wait(10)
            return result

        monkeypatch.setattr(catalogue_module, function, paused)


@pytest.mark.parametrize("moment", ["note_enclosure", "new_job"])
def test_who_removes_sees_a_part_that_is_being_entered(
    catalogue: SqlCatalogue, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.claim_document(a_document(1), BLOB)
    with ThreadPoolExecutor(2) as pool:
        pause = Pause(monkeypatch, moment)
        entering = pool.submit(catalogue.claim_document, a_part(2, "d1"), BLOB)
        assert pause.reached.wait(10)
        assert catalogue.sole_parts("d1") == []  # nobody sees it yet
        removing = pool.submit(catalogue.delete_document, "d1", EVERYTHING)
        time.sleep(0.2)
        assert not removing.done()
        pause.go_on.set()
        assert entering.result(10)[1]
        assert removing.result(10) is None
    assert catalogue.document("d2", EVERYTHING).parent == "d1"
    assert catalogue.delete_document("d2", EVERYTHING) == []
    assert catalogue.delete_document("d1", EVERYTHING) == [BLOB]


@pytest.mark.parametrize("known", [False, True])
def test_nothing_is_entered_as_a_part_of_what_is_being_removed(
    catalogue: SqlCatalogue, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file, or ``known``: one that was handed in by itself before."""
    catalogue.claim_document(a_document(1), BLOB)
    if known:
        catalogue.claim_document(a_document(2), BLOB)
    with ThreadPoolExecutor(2) as pool:
        pause = Pause(monkeypatch, "_is_used")
        removing = pool.submit(catalogue.delete_document, "d1", EVERYTHING)
        assert pause.reached.wait(10)
        entering = pool.submit(catalogue.claim_document, replace(a_part(2, "d1"), id="other"), BLOB)
        time.sleep(0.2)
        pause.go_on.set()
        assert removing.result(10) is not None
        with pytest.raises(NotFound, match="no document d1"):
            entering.result(10)
    assert [each.id for each in catalogue.documents(EVERYTHING)] == (["d2"] if known else [])
    assert catalogue.rows_left("d1") == catalogue.rows_left("other") == 0


@pytest.mark.parametrize("met", ["d3", None])
def test_a_file_met_again_while_it_is_removed_is_entered_anew(
    catalogue: SqlCatalogue, met: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for document in (a_document(1), a_part(2, "d1"), a_document(3)):
        catalogue.claim_document(document, BLOB)
    with ThreadPoolExecutor(2) as pool:
        pause = Pause(monkeypatch, "_is_used")
        removing = pool.submit(catalogue.delete_document, "d2", EVERYTHING)
        assert pause.reached.wait(10)
        entering = pool.submit(catalogue.claim_document, a_document(2, id="anew", parent=met), BLOB)
        time.sleep(0.2)
        pause.go_on.set()
        removing.result(10)
        document, created = entering.result(10)
    assert (document.id, document.parent, created) == ("anew", met, True)
    assert catalogue.rows_left("d2") == 0


def test_files_that_hold_themselves_or_each_other_end(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(1), BLOB)
    catalogue.claim_document(replace(a_part(1, "d1"), id="itself"), BLOB)
    catalogue.claim_document(a_part(2, "d1"), BLOB)
    catalogue.claim_document(replace(a_part(1, "d2"), id="round"), BLOB)
    assert catalogue.family("d1") == (1, 200)
    assert catalogue.ancestors("d2") == ["d1"]
    assert [part.id for part in catalogue.sole_parts("d1")] == ["d2"]


def test_documents_are_listed_with_their_parts_once_and_where_they_may_be_seen(catalogue: SqlCatalogue) -> None:
    for document in (
        a_document(1),
        a_document(2),
        a_part(3, "d1"),
        a_part(4, "d3"),
        a_part(5, "d3", collection="press"),
    ):
        catalogue.claim_document(document, BLOB)
    catalogue.claim_document(a_part(3, "d2"), BLOB)
    catalogue.claim_document(a_part(2, "d3"), BLOB)  # d3 lies in d2: that d2 lies in d3 as well is not noted

    def listed(*ids: str, access: Access = EVERYTHING) -> set[str]:
        return {each.id for each in catalogue.documents(access, DocumentQuery(ids=frozenset(ids), with_parts=True))}

    assert listed("d1") == {"d1", "d3", "d4", "d5"}
    assert listed("d2") == {"d2", "d3", "d4", "d5"}
    assert listed("d4", "d9") == {"d4"}
    assert listed() == listed("d1,d2") == set()
    assert listed("d1", access=Access("ana", frozenset({"press"}))) == {"d5"}
    assert listed("d1", access=NOTHING) == set()
    for document_id in ("d4", "d5", "d3"):
        catalogue.delete_document(document_id, EVERYTHING)
    assert listed("d1") == {"d1"}


def test_files_that_hold_each_other_make_no_circle(catalogue: SqlCatalogue) -> None:
    for document in (
        a_document(1),
        a_part(2, "d1"),
        a_part(3, "d1"),
        a_part(3, "d2"),
        a_part(2, "d3"),
        a_part(2, "d2"),
    ):
        catalogue.claim_document(document, BLOB)
    assert [part.id for part in catalogue.sole_parts("d1")] == ["d2"]
    assert [part.id for part in catalogue.parts("d3", EVERYTHING)] == []
    assert catalogue.delete_document("d1", EVERYTHING) is None
    assert catalogue.document("d2", EVERYTHING).parent == "d1"  # it went with nobody: d1 has parts of its own still
    for document_id in ("d3", "d2", "d1"):
        assert catalogue.delete_document(document_id, EVERYTHING) is not None


def test_postgresql_looks_parts_up_instead_of_asking_of_every_document_whether_it_is_one(
    postgres_database: Database,
) -> None:
    """With a hundred thousand documents a mail of a thousand parts took thirteen seconds."""
    wanted = select(documents.c.id).where(*conditions(DocumentQuery(ids=frozenset({"d1"}), with_parts=True)))
    statement = wanted.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    with postgres_database.reading() as connection:
        plan = "\n".join(row[0] for row in connection.execute(text(f"EXPLAIN {statement}")))
    assert "Join" in plan or "Nested Loop" in plan
    assert "SubPlan" not in plan


def test_updating_leaves_identity_and_counters_alone(catalogue: SqlCatalogue) -> None:
    before = catalogue.claim_document(a_document(pages=2), BLOB)[0]
    catalogue.put_page("d1", a_page(1))
    catalogue.count_chunks("d1", 7, 3)
    stale = replace(
        before, status=DocumentStatus.COMPLETE, seconds=2.5, error="e", version=9, owner="x", sha256="f" * 64
    )
    catalogue.update_document(stale)
    after = catalogue.document("d1", EVERYTHING)
    assert (after.status, after.seconds, after.error) == (DocumentStatus.COMPLETE, 2.5, "e")
    assert (after.pages_done, after.readers, after.chunks, after.chunks_embedded) == (1, {"mixed": 1}, 7, 3)
    assert (after.version, after.owner, after.sha256) == (before.version, before.owner, before.sha256)


def test_what_is_not_there_cannot_be_changed(catalogue: SqlCatalogue) -> None:
    for change in (
        lambda: catalogue.update_document(a_document()),
        lambda: catalogue.count_chunks("d1", 1, 1),
        lambda: catalogue.put_page("d1", a_page()),
        lambda: catalogue.requeue("d1"),
        lambda: catalogue.delete_document("d1", EVERYTHING),
    ):
        with pytest.raises(NotFound, match="no document d1"):
            change()
    assert catalogue.rows_left("d1") == 0


def test_lists_are_newest_first_filtered_and_cut(catalogue: SqlCatalogue) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    names = ["Ñandú_100%.PDF", "contrato.pdf", "Contrato 2.pdf", "foto.jpg"]
    for number, name in enumerate(names, start=1):
        catalogue.claim_document(a_document(number, name=name, created=start + timedelta(days=number)), BLOB)
    catalogue.update_document(replace(catalogue.document("d2", EVERYTHING), status=DocumentStatus.FAILED))

    def ids(**filters: Any) -> list[str]:
        return [document.id for document in catalogue.documents(EVERYTHING, DocumentQuery(**filters))]

    assert ids() == ["d4", "d3", "d2", "d1"]
    assert ids(name="CONTRATO") == ["d3", "d2"]
    assert ids(name="nandu") == ids(name="ÑANDÚ") == ["d1"]
    assert ids(name="100%") == ["d1"]
    assert ids(name="_2") == ids(name="%jpg") == []  # no wildcards
    assert ids(statuses=frozenset({DocumentStatus.FAILED})) == ["d2"]
    assert ids(limit=2) == ["d4", "d3"]
    assert ids(limit=2, offset=2) == ["d2", "d1"]
    assert ids(offset=3) == ["d1"]
    assert ids(statuses=frozenset({DocumentStatus.QUEUED}), name="contrato", limit=5) == ["d3"]
    assert ids(ids=frozenset({"d1", "d4", "d9"})) == ["d4", "d1"]
    assert ids(ids=frozenset()) == ids(id_begins="%") == ids(sha256="f" * 64) == []
    assert ids(id_begins="d", limit=2) == ["d4", "d3"]
    catalogue.claim_document(a_document(5, name="dentro.txt", parent="d1", created=start), BLOB)
    catalogue.claim_document(a_document(6, name="muy dentro.txt", parent="d5", created=start), BLOB)
    assert ids(ids=frozenset({"d1", "d4"}), with_parts=True) == ["d4", "d1", "d5", "d6"]
    assert ids(ids=frozenset({"d1"})) == ["d1"]
    assert ids(sha256=a_document(2).sha256) == ["d2"]


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "😀 emoji 👩‍👩‍👧.pdf",
        "x" * 300,
        "nul\0byte.pdf",
        "half \udcff surrogate",
        "'; DROP TABLE documents; --",
        "",
    ],
)
def test_any_name_can_be_kept_and_found(catalogue: SqlCatalogue, name: str) -> None:
    kept = catalogue.claim_document(a_document(name=name, owner=name, error=name), BLOB)[0]
    assert catalogue.document("d1", EVERYTHING).name == kept.name
    catalogue.claim_document(a_document(2, name=name), BLOB)
    assert [document.id for document in catalogue.older_versions(catalogue.document("d2", EVERYTHING))] == ["d1"]
    assert {document.id for document in catalogue.documents(EVERYTHING, DocumentQuery(name=name))} == {"d1", "d2"}


# -- pages ------------------------------------------------------------------------------------


def test_a_page_comes_back_as_it_was_given(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    catalogue.put_page("d1", a_page())
    assert catalogue.page("d1", 1, EVERYTHING) == a_page()


def test_the_published_readings_blocks_are_kept_once(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    good = replace(a_page().readings[0], blocks=a_page().blocks)
    page = a_page(readings=(a_page().readings[1], good, good))
    catalogue.put_page("d1", page)
    assert catalogue.page("d1", 1, EVERYTHING) == page
    with catalogue._database.reading() as connection:
        rows = connection.execute(text("SELECT published, blocks FROM readings ORDER BY ordinal")).all()
    assert [bool(published) for published, _ in rows] == [False, True, False]
    assert rows[1].blocks in ("[]", [])


TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)  # NUL and half surrogates too
BOXES = st.tuples(*[st.floats(0, 1)] * 4).map(lambda sides: Box.of(*sides))
BLOCKS = st.builds(
    Block,
    kind=st.sampled_from([kind for kind in BlockKind if kind is not BlockKind.TABLE]),
    text=TEXTS,
    bbox=BOXES,
    confidence=st.floats(0, 1),
    reader=st.sampled_from(Reader),
    level=st.integers(0, 6),
)


@given(st.lists(BLOCKS, max_size=5).map(tuple), TEXTS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_any_text_survives(catalogue: SqlCatalogue, blocks: tuple[Block, ...], reason: str) -> None:
    catalogue.claim_document(a_document(), BLOB)
    page = a_page(blocks=blocks, receipt=Receipt(reason), readings=())
    catalogue.put_page("d1", page)
    assert catalogue.page("d1", 1, EVERYTHING) == page


def test_numbers_of_numpy_and_no_numbers_do_not_harm(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    odd = np.float32(0.5)
    reading = Reading(Reader.OCR, (), odd, odd, features={"ink": odd, "skew": float("nan"), "far": float("inf")})
    receipt = Receipt("r", (Decision("q", np.float64(1.5), odd, "o", "r"),), features={"ink": np.float64(2)})
    block = Block(BlockKind.PARAGRAPH, "a", Box(odd, odd, np.float32(1), np.float32(1)), odd, Reader.OCR)
    catalogue.put_page("d1", a_page(blocks=(block,), receipt=receipt, readings=(reading,), confidence=odd, width=odd))
    page = catalogue.page("d1", 1, EVERYTHING)
    assert page.readings[0].features == {"ink": 0.5}
    assert page.receipt.decisions[0].score == 1.5
    assert page.blocks[0].bbox == (0.5, 0.5, 1.0, 1.0)
    assert (page.confidence, page.width) == (0.5, 0.5)


def test_counters_follow_the_pages(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(pages=4), BLOB)

    def counters() -> tuple[int, int, dict[str, int]]:
        document = catalogue.document("d1", EVERYTHING)
        return document.pages_done, document.pages_failed, dict(document.readers)

    catalogue.put_page("d1", a_page(1, reader=Reader.TEXT))
    catalogue.put_page("d1", a_page(2, reader=Reader.OCR))
    catalogue.put_page("d1", a_failed_page(3))
    assert counters() == (3, 1, {"text": 1, "ocr": 1, "none": 1})
    catalogue.put_page("d1", a_failed_page(3))
    catalogue.put_page("d1", a_page(2, reader=Reader.OCR))
    assert counters() == (3, 1, {"text": 1, "ocr": 1, "none": 1})
    catalogue.put_page("d1", a_page(3, reader=Reader.VLM))
    assert counters() == (3, 0, {"text": 1, "ocr": 1, "vlm": 1})
    catalogue.put_page("d1", a_failed_page(1))
    assert counters() == (3, 1, {"ocr": 1, "vlm": 1, "none": 1})
    assert catalogue.pages_done("d1") == {1, 2, 3}


def test_pages_put_at_once_are_all_counted(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(pages=40), BLOB)
    numbers = [*range(1, 41), *range(1, 11)]  # ten of them twice
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: catalogue.put_page("d1", a_page(number, reader=Reader.OCR)), numbers))
    document = catalogue.document("d1", EVERYTHING)
    assert (document.pages_done, document.readers) == (40, {"ocr": 40})
    assert catalogue.pages_done("d1") == set(range(1, 41))


def test_a_page_read_again_replaces_all_of_the_former(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    catalogue.put_page("d1", a_page())
    better = a_page(
        reader=Reader.VLM, status=PageStatus.READ, readings=(Reading(Reader.VLM, (), 0.97, 3.0, 0, 400, 900),)
    )
    catalogue.put_page("d1", better)
    assert catalogue.page("d1", 1, EVERYTHING) == better
    assert catalogue.rows_left("d1") == 4  # a document, its job, a page, a reading


def test_pages_come_in_order_however_many_and_hold_no_connection(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    total = 2 * PAGES_AT_ONCE + 3
    for number in reversed(range(1, total + 1)):
        catalogue.put_page("d1", a_page(number))
    assert [page.number for page in catalogue.pages("d1", EVERYTHING)] == list(range(1, total + 1))
    assert all(page == a_page(page.number) for page in catalogue.pages("d1", EVERYTHING))
    begun = [catalogue.pages("d1", EVERYTHING) for _ in range(100)]
    assert {next(pages).number for pages in begun} == {1}
    catalogue.put_page("d1", a_page(1, error="still writable"))


def test_a_page_that_was_not_read_is_not_found(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    with pytest.raises(NotFound, match="no page 1 of the document d1"):
        catalogue.page("d1", 1, EVERYTHING)
    assert list(catalogue.pages("d1", EVERYTHING)) == []
    with pytest.raises(NotFound, match="no document d2"):
        catalogue.pages("d2", EVERYTHING)


# -- the worker -------------------------------------------------------------------------------


def test_reading_goes_on_after_a_crash_where_it_stopped(database_url: str) -> None:
    catalogue = SqlCatalogue.open(database_url)
    catalogue.claim_document(a_document(pages=3, status=DocumentStatus.READING), BLOB)
    catalogue.put_page("d1", a_page(1))
    catalogue.put_page("d1", a_page(3))
    catalogue.close()
    reopened = SqlCatalogue.open(database_url)
    assert [job.state for job in reopened.jobs(EVERYTHING)] == [JobState.WAITING]
    assert reopened.pages_done("d1") == {1, 3}
    reopened.close()


def test_a_document_read_again_shows_its_pages_until_each_is_replaced(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(pages=2), BLOB)
    catalogue.put_page("d1", a_page(1))
    catalogue.put_page("d1", a_failed_page(2))
    catalogue.update_document(a_document(pages=2, status=DocumentStatus.PARTIAL, error="page 2", seconds=3.0))
    again = catalogue.requeue("d1")
    assert again == catalogue.document("d1", EVERYTHING)
    assert (again.status, again.error, again.seconds) == (DocumentStatus.QUEUED, "", 0.0)
    assert (again.pages, again.pages_done, again.pages_failed, again.readers) == (2, 0, 0, {})
    assert catalogue.pages_done("d1") == set()
    assert catalogue.page("d1", 1, EVERYTHING) == a_page(1)
    catalogue.put_page("d1", a_page(2, reader=Reader.OCR))
    document = catalogue.document("d1", EVERYTHING)
    assert (document.pages_done, document.pages_failed, document.readers) == (1, 0, {"ocr": 1})
    assert catalogue.pages_done("d1") == {2}


def test_deleting_leaves_no_row(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(1), BLOB)
    catalogue.claim_document(a_document(2), "c" * 64)
    for document_id in ("d1", "d2"):
        catalogue.put_page(document_id, a_page(1))
        catalogue.record(Usage("page", "qwen", 100, collection="legal", document_id=document_id))
    assert catalogue.rows_left("d1") == 6
    assert list(catalogue.delete_document("d1", EVERYTHING)) == [BLOB]
    assert catalogue.rows_left("d1") == 0
    assert catalogue.rows_left("d2") == 6
    assert [total.prompt_tokens for total in catalogue.usage_totals(EVERYTHING)] == [200]  # what was spent stays spent
    with pytest.raises(NotFound):
        catalogue.delete_document("d1", EVERYTHING)


def test_a_blob_is_let_go_with_its_last_document(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(1, collection="legal"), BLOB)
    catalogue.claim_document(a_document(1, id="copy", collection="press"), BLOB)
    assert list(catalogue.delete_document("d1", EVERYTHING)) == []
    assert catalogue.blob_in_use(BLOB)
    assert list(catalogue.delete_document("copy", EVERYTHING)) == [BLOB]
    assert not catalogue.blob_in_use(BLOB)


@pytest.mark.parametrize(("kind", "kept"), [("image", True), ("pdf", False)])
def test_a_picture_in_a_chat_keeps_its_blob(catalogue: SqlCatalogue, kind: str, kept: bool) -> None:
    """The chat keeps the bytes of pictures only: a PDF dropped there lies in the catalogue alone."""
    catalogue.claim_document(a_document(), BLOB)
    element = {"kind": kind, "key": f"e1/{BLOB}"}
    with catalogue._database.writing() as connection:
        insert = text("INSERT INTO elements (id, name, type, \"objectKey\") VALUES ('e1', 'n', :kind, :key)")
        connection.execute(insert, element)
    forgotten: list[str] = []
    assert list(catalogue.delete_document("d1", EVERYTHING)) == ([] if kept else [BLOB])
    assert catalogue.release_blob(BLOB, forgotten.append) is not kept
    assert forgotten == ([] if kept else [BLOB])


def test_a_blob_claimed_while_it_is_let_go_is_noticed(catalogue: SqlCatalogue) -> None:
    """Put, claim, look: with the blob forgotten under its lock, no claim stands on a blob that is gone."""
    store = {BLOB}
    forgetting, may_forget = threading.Event(), threading.Event()

    def forget(key: str) -> None:
        forgetting.set()
        assert may_forget.wait(10)
        store.discard(key)

    def submit() -> bool:
        catalogue.claim_document(a_document(), BLOB)
        return BLOB in store

    with ThreadPoolExecutor(2) as pool:
        released = pool.submit(catalogue.release_blob, BLOB, forget)
        assert forgetting.wait(10)
        submitted = pool.submit(submit)
        with pytest.raises(TimeoutError):
            submitted.result(timeout=0.3)  # the claim waits …
        may_forget.set()
        assert released.result(10)
        assert submitted.result(10) is False  # … and then sees that the blob must be put once more
    assert catalogue.release_blob(BLOB, store.discard) is False


# -- usage ------------------------------------------------------------------------------------


def test_usage_is_summed(catalogue: SqlCatalogue) -> None:
    for tokens in (100, 250):
        catalogue.record(Usage("page", "qwen", tokens, 10, 80, 1.5, 0.002, "ana", "legal", "d1"))
    catalogue.record(Usage("answer", "llama", 30, 20, 0, 0.5, 0.1, "ana", "legal"))
    catalogue.record(Usage("answer", "llama", 7, user="ana"))
    first, second, third = catalogue.usage_totals(EVERYTHING)
    assert (first.purpose, first.price, first.calls) == ("answer", pytest.approx(0.1), 1)
    assert (second.prompt_tokens, second.completion_tokens, second.visual_tokens) == (350, 20, 160)
    assert (second.calls, second.seconds, second.price) == (2, pytest.approx(3.0), pytest.approx(0.004))
    assert (third.collection, third.prompt_tokens) == ("", 7)


def test_usage_without_a_collection_is_seen_by_whom_it_was_for(catalogue: SqlCatalogue) -> None:
    catalogue.record(Usage("answer", "llama", 7, user="ana"))
    assert len(catalogue.usage_totals(Access("ana"))) == 1
    assert catalogue.usage_totals(Access("beto", frozenset({"legal"}))) == []


def test_usage_since_a_moment(catalogue: SqlCatalogue) -> None:
    catalogue.record(Usage("answer", "llama", 7, user="ana"))
    now = datetime.now(UTC)
    assert len(catalogue.usage_totals(EVERYTHING, now - timedelta(minutes=1))) == 1
    assert catalogue.usage_totals(EVERYTHING, now + timedelta(minutes=1)) == []


# -- trouble ----------------------------------------------------------------------------------


def test_a_full_disk_says_so_and_loses_nothing(sqlite_catalogue: SqlCatalogue) -> None:
    """SQLite's own limit on its pages stands for the disk; the error is SQLite's real one."""
    sqlite_catalogue.claim_document(a_document(), BLOB)
    engine = sqlite_catalogue._database.engine

    def small(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA max_page_count = 80")

    event.listen(engine, "connect", small)
    engine.dispose()
    put = 0
    with pytest.raises(DiskFull, match="is full, so the catalogue cannot be written"):
        for put in range(1, 1000):
            sqlite_catalogue.put_page("d1", a_page(put))
    assert put > 1
    assert sqlite_catalogue.pages_done("d1") == set(range(1, put))
    assert sqlite_catalogue.document("d1", EVERYTHING).pages_done == put - 1
    event.remove(engine, "connect", small)
    engine.dispose()
    sqlite_catalogue.put_page("d1", a_page(put))  # room again: reading goes on


def test_a_writer_that_does_not_finish_makes_the_next_one_say_busy(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 1)
    catalogue = SqlCatalogue.open(database_url)
    catalogue.claim_document(a_document(), BLOB)
    other = SqlCatalogue.open(database_url)
    with other._database.writing() as connection:
        connection.execute(text("UPDATE documents SET error = 'slow' WHERE id = 'd1'"))
        with pytest.raises(StoreBusy, match="being written by someone else"):
            catalogue.count_chunks("d1", 1, 1)
        assert catalogue.document("d1", EVERYTHING).error == ""  # a reader never waits
    catalogue.count_chunks("d1", 1, 1)
    catalogue.close()
    other.close()


def test_a_catalogue_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'perito.db'}"
    catalogue = SqlCatalogue.open(url)
    event.listen(
        catalogue._database.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = 1")
    )
    catalogue._database.engine.dispose()
    with pytest.raises(Misconfigured, match="cannot be used"):
        catalogue.claim_document(a_document(), BLOB)
    catalogue.close()


def test_ping(catalogue: SqlCatalogue) -> None:
    catalogue.ping()


def test_a_killed_process_loses_no_page_it_had_put(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'perito.db'}"
    code = """
import os, signal, sys
from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import *
catalogue = SqlCatalogue.open(sys.argv[1])
catalogue.claim_document(Document("d1", "a.pdf", "0" * 64, "legal", DocumentStatus.READING), "b" * 64)
for number in range(1, 31):
    catalogue.put_page("d1", PageReading(number, Reader.NONE, PageStatus.BLANK, 1.0, (), Receipt("blank"), 0.1))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code, url], check=False)
    assert killed.returncode == -9
    catalogue = SqlCatalogue.open(url)
    assert catalogue.pages_done("d1") == set(range(1, 31))
    assert [job.document.id for job in catalogue.jobs(EVERYTHING, [JobState.WAITING])] == ["d1"]
    catalogue.close()


def test_whole_page_boxes_survive(catalogue: SqlCatalogue) -> None:
    catalogue.claim_document(a_document(), BLOB)
    receipt = Receipt("r", (Decision("q", 0.1, 0.2, "o", "r", WHOLE_PAGE),))
    catalogue.put_page("d1", a_page(receipt=receipt))
    region = catalogue.page("d1", 1, EVERYTHING).receipt.decisions[0].region
    assert region == WHOLE_PAGE
    assert isinstance(region, Box)
