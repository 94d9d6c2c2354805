"""The queue on SQLite and PostgreSQL: each job is one worker's at a time, and who lost it writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from assistant.core.catalogue import SqlCatalogue
from assistant.core.domain import (
    Access,
    Document,
    DocumentStatus,
    JobState,
    PageReading,
    PageStatus,
    Reader,
    Receipt,
    Urgency,
)
from assistant.core.errors import LeaseLost, NotFound
from assistant.core.queue import SHORT, Claim, Wanted

EVERYTHING = Access("worker", None)


@pytest.fixture
def catalogue(database_url: str) -> Iterator[SqlCatalogue]:
    catalogue = SqlCatalogue.open(database_url)
    yield catalogue
    catalogue.close()


def put(catalogue: SqlCatalogue, *names: str, urgency: Urgency = Urgency.PROGRAM, **more: Any) -> None:
    for name in names:
        values: dict[str, Any] = {"collection": "legal", "status": DocumentStatus.QUEUED, "pages": 3, **more}
        catalogue.claim_document(Document(name, f"{name}.pdf", name.ljust(64, "0"), **values), "b" * 64, urgency)


def enrolled(catalogue: SqlCatalogue, host: str = "host-1", pid: int = 7) -> str:
    return catalogue.queue.enrol(host, pid, 1.0)


def taken(catalogue: SqlCatalogue, worker: str, wanted: Wanted | None = None) -> Claim:
    claim = catalogue.queue.claim(worker, wanted or Wanted())
    assert claim is not None
    return claim


def page(number: int, status: PageStatus = PageStatus.READ) -> PageReading:
    reader = Reader.NONE if status is PageStatus.FAILED else Reader.TEXT
    return PageReading(number, reader, status, 1.0, (), Receipt("read"), 0.1)


def ended(claim: Claim, catalogue: SqlCatalogue, status: DocumentStatus = DocumentStatus.COMPLETE) -> Document:
    return replace(catalogue.document(claim.document.id, EVERYTHING), status=status)


def test_many_workers_take_each_job_once(catalogue: SqlCatalogue) -> None:
    names = [f"d{number:02}" for number in range(40)]
    put(catalogue, *names)
    workers = [enrolled(catalogue, pid=pid) for pid in range(4)]

    def take_all(worker: str) -> list[str]:
        mine: list[str] = []
        while (claim := catalogue.queue.claim(worker, Wanted())) is not None:
            mine.append(claim.document.id)
        return mine

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(take_all, workers))
    assert sorted(name for share in shares for name in share) == names


def test_the_urgent_goes_first_then_the_short_then_who_came_first(catalogue: SqlCatalogue) -> None:
    put(catalogue, "bulk", urgency=Urgency.BULK)
    put(catalogue, "long", pages=SHORT + 1)
    put(catalogue, "one", "two")
    put(catalogue, "person", urgency=Urgency.PERSON, pages=5000)
    worker = enrolled(catalogue)
    assert catalogue.queue.due(Wanted()) is Urgency.PERSON
    assert taken(catalogue, worker, Wanted(long_first=True)).document.id == "person"
    assert taken(catalogue, worker, Wanted(long_first=True)).document.id == "long"
    assert [taken(catalogue, worker).document.id for _ in range(2)] == ["one", "two"]
    assert catalogue.queue.claim(worker, Wanted(Urgency.PROGRAM)) is None
    assert taken(catalogue, worker).document.id == "bulk"


def test_of_a_collection_no_more_are_read_than_it_may_have(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a", "b", "c", collection="one")
    put(catalogue, "d", collection="two")
    worker, wanted = enrolled(catalogue), Wanted(a_collection=2)
    claims = [taken(catalogue, worker, wanted) for _ in range(3)]
    assert [claim.document.id for claim in claims] == ["a", "b", "d"]
    assert catalogue.queue.claim(worker, wanted) is None
    assert catalogue.queue.end(claims[0].lease, ended(claims[0], catalogue))
    assert taken(catalogue, worker, wanted).document.id == "c"


def test_who_steps_back_stands_at_the_end_of_the_line(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a", "b")
    worker = enrolled(catalogue)
    first = taken(catalogue, worker)
    catalogue.queue.step_back(first.lease, 1.5)
    assert catalogue.document("a", EVERYTHING).seconds == 1.5
    assert taken(catalogue, worker).document.id == "b"
    assert taken(catalogue, worker).document.id == "a"


def test_what_is_put_off_says_why_and_is_due_later(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    catalogue.queue.put_off(taken(catalogue, worker).lease, "The disk is full.", 60)
    job = catalogue.job("a", EVERYTHING)
    assert (job.state, job.attempts, job.reason) == (JobState.WAITING, 1, "The disk is full.")
    assert job.next_try is not None
    assert job.document.error == "The disk is full."
    assert catalogue.queue.claim(worker, Wanted()) is None
    wait = catalogue.queue.seconds_to_next()
    assert wait is not None and 0 < wait <= 60
    catalogue.queue.retry("a")  # no further waiting, says somebody
    again = taken(catalogue, worker)
    assert (again.attempts, again.document.error) == (0, "")
    catalogue.queue.put_off(again.lease, "The disk is full.", 0)
    again = taken(catalogue, worker)
    assert again.attempts == 1
    catalogue.put_page("a", page(1), again.lease)
    catalogue.queue.put_off(again.lease, "The disk is full.", 0)
    assert taken(catalogue, worker).attempts == 0  # it got further


def test_a_dead_worker_is_buried_once_and_its_lease_is_worth_nothing(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a", "b")
    dead, live = enrolled(catalogue), enrolled(catalogue)
    lost = [taken(catalogue, dead) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        freed = list(pool.map(lambda _: catalogue.queue.bury([dead]), range(8)))
    assert sorted(freed) == [0] * 7 + [2]
    assert taken(catalogue, live).lease.epoch > lost[0].lease.epoch
    for write in (
        lambda: catalogue.put_page("a", page(1), lost[0].lease),
        lambda: catalogue.queue.end(lost[0].lease, ended(lost[0], catalogue)),
        lambda: catalogue.queue.put_off(lost[0].lease, "", 1),
        lambda: catalogue.queue.step_back(lost[0].lease, 1),
        lambda: catalogue.queue.check(lost[0].lease),
        lambda: catalogue.queue.beat(dead),
        lambda: catalogue.queue.claim(dead, Wanted()),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert catalogue.document("a", EVERYTHING).pages_done == 0
    assert catalogue.job("a", EVERYTHING).worker == live
    assert catalogue.job("b", EVERYTHING).state is JobState.WAITING


def test_deaths_without_a_further_page_are_counted(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")

    def die(further: bool = False) -> int:
        worker = enrolled(catalogue)
        claim = taken(catalogue, worker)
        if further:
            catalogue.put_page("a", page(claim.document.pages_done + 1), claim.lease)
        catalogue.queue.bury([worker])
        return claim.deaths

    assert [die(), die(), die(further=True), die()] == [0, 1, 2, 1]
    worker = enrolled(catalogue)
    catalogue.queue.step_back(taken(catalogue, worker).lease, 0)
    assert taken(catalogue, worker).deaths == 0


def test_parts_taken_out_are_progress_as_pages_are(catalogue: SqlCatalogue) -> None:
    """Of a large archive that was unpacked a little further each time before its worker was killed."""
    put(catalogue, "a")

    def die(*parts: str) -> int:
        worker = enrolled(catalogue)
        claim = taken(catalogue, worker, Wanted(Urgency.PROGRAM))
        assert claim.document.id == "a"
        put(catalogue, *parts, urgency=Urgency.BULK, parent="a")
        catalogue.queue.bury([worker])
        return claim.deaths

    assert [die("p1"), die("p1", "p2"), die("p3", "p4"), die("p5")] == [0, 1, 1, 1]
    assert [die("p1", "p5"), die(), die()] == [1, 2, 3]  # found again, each of them: no further


def test_who_takes_parts_out_gets_further_between_two_tries(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    for part, attempts in (("", 0), ("", 1), ("p1", 2), ("", 0), ("", 1)):
        claim = taken(catalogue, worker, Wanted(Urgency.PROGRAM))
        assert (claim.document.id, claim.attempts) == ("a", attempts)
        put(catalogue, *filter(None, [part]), urgency=Urgency.BULK, parent="a")
        catalogue.queue.put_off(claim.lease, "The disk is full.", 0)


def test_who_ends_in_order_frees_what_it_had(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    assert catalogue.queue.beat(worker) == {claim.lease}
    (sign,) = catalogue.queue.workers()
    assert (sign.id, sign.host, sign.running) == (worker, "host-1", 1) and 0 <= sign.silent < 5
    catalogue.queue.dismiss(worker)
    assert catalogue.queue.workers() == []
    assert taken(catalogue, enrolled(catalogue)).deaths == 0


def test_the_end_is_told_once_and_failures_wait_for_a_person(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    catalogue.put_page("a", page(1), claim.lease)
    catalogue.put_page("a", page(2, PageStatus.FAILED), claim.lease)
    failed = replace(ended(claim, catalogue, DocumentStatus.FAILED), error="The file is damaged.")
    assert catalogue.queue.end(claim.lease, failed)
    job = catalogue.job("a", EVERYTHING)
    assert (job.state, job.reason) == (JobState.FAILED, "The file is damaged.")
    assert catalogue.queue.claim(worker, Wanted()) is None
    document = catalogue.queue.retry("a")
    assert (document.status, document.pages_done, document.pages_failed) == (DocumentStatus.QUEUED, 1, 0)
    assert document.readers == {"text": 1}
    again = taken(catalogue, worker)
    assert catalogue.pages_done("a") == {1}
    assert again.generation > claim.generation
    assert catalogue.queue.retry("a").status is DocumentStatus.READING  # nothing to do while it is being read
    assert catalogue.queue.check(again.lease) == 0


def test_of_a_whole_document_nothing_is_tried_again(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    for number in (1, 2, 3):
        catalogue.put_page("a", page(number), claim.lease)
    assert catalogue.queue.end(claim.lease, ended(claim, catalogue, DocumentStatus.COMPLETE))
    assert catalogue.queue.retry("a").status is DocumentStatus.COMPLETE
    assert catalogue.job("a", EVERYTHING).state is JobState.DONE
    assert catalogue.queue.claim(worker, Wanted()) is None


def test_what_is_cancelled_is_nobodys_and_goes_on_where_it_was(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a", "b")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    catalogue.put_page("a", page(1), claim.lease)
    document = catalogue.queue.cancel("a", "ana")
    assert document.status is DocumentStatus.PARTIAL
    assert "Cancelled by ana with 1 of 3 pages read" in document.error
    with pytest.raises(LeaseLost):
        catalogue.put_page("a", page(2), claim.lease)
    assert catalogue.queue.cancel("b", "ana").status is DocumentStatus.FAILED
    assert catalogue.queue.claim(worker, Wanted()) is None
    catalogue.queue.retry("a")
    assert taken(catalogue, worker).document.pages_done == 1
    with pytest.raises(NotFound):
        catalogue.queue.cancel("c", "ana")


def test_what_is_set_aside_is_nobodys_for_a_while(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a", "done")
    worker = enrolled(catalogue)
    claims = [taken(catalogue, worker) for _ in range(2)]
    assert catalogue.queue.end(claims[1].lease, ended(claims[1], catalogue))
    for name in ("a", "done", "gone"):
        catalogue.queue.set_aside(name, 0.5)
    with pytest.raises(LeaseLost):
        catalogue.queue.check(claims[0].lease)
    assert catalogue.queue.claim(worker, Wanted()) is None
    assert 0 < (catalogue.queue.seconds_to_next() or 0) <= 0.5
    assert catalogue.job("done", EVERYTHING).state is JobState.DONE
    catalogue.queue.set_aside("a", 0)
    assert taken(catalogue, worker).document.id == "a"


def test_reading_again_takes_it_from_whoever_reads_it(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    catalogue.put_page("a", page(1), claim.lease)
    assert catalogue.requeue("a").pages_done == 0
    with pytest.raises(LeaseLost):
        catalogue.put_page("a", page(2), claim.lease)
    again = taken(catalogue, worker)
    assert (again.document.pages_done, again.generation) == (0, claim.generation + 1)


def test_a_doubt_keeps_a_document_from_ending_until_its_index_is_looked_through(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    claim = taken(catalogue, worker)
    catalogue.queue.doubt("a")
    assert catalogue.queue.doubted() == []  # whoever reads it will see to it
    assert not catalogue.queue.end(claim.lease, ended(claim, catalogue), 0)
    assert catalogue.queue.check(claim.lease) == 1
    assert catalogue.queue.end(claim.lease, ended(claim, catalogue), 1)
    catalogue.queue.doubt("a")
    ((document, doubts),) = catalogue.queue.doubted()
    assert (document.id, doubts) == ("a", 1)
    catalogue.queue.doubt("a")
    catalogue.queue.dispel("a", 1)
    assert catalogue.queue.doubted()[0][1] == 2
    catalogue.queue.dispel("a", 2)
    assert catalogue.queue.doubted() == []


def test_while_it_is_paused_nothing_is_taken(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    worker = enrolled(catalogue)
    for _ in range(2):
        catalogue.queue.pause("ana")
    assert catalogue.queue.is_paused()
    assert catalogue.queue.claim(worker, Wanted()) is None
    assert catalogue.queue.due(Wanted()) is None
    catalogue.queue.resume()
    assert taken(catalogue, worker).document.id == "a"


def test_the_queue_is_seen_as_far_as_the_documents_are(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    put(catalogue, "b", collection="hr")
    hr = Access("carl", frozenset({"hr"}))
    assert [job.document.id for job in catalogue.jobs(hr)] == ["b"]
    assert [job.document.id for job in catalogue.jobs(EVERYTHING, [JobState.WAITING], 1)] == ["a"]
    assert catalogue.jobs(EVERYTHING, [JobState.FAILED]) == []
    with pytest.raises(NotFound):
        catalogue.job("a", hr)


def test_deleting_a_document_leaves_no_job(catalogue: SqlCatalogue) -> None:
    put(catalogue, "a")
    claim = taken(catalogue, enrolled(catalogue))
    catalogue.delete_document("a", EVERYTHING)
    assert catalogue.rows_left("a") == 0
    with pytest.raises(NotFound):
        catalogue.put_page("a", page(1), claim.lease)
    catalogue.queue.doubt("a")  # nothing there to be doubted
