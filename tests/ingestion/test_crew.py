"""Who reads what, and when: processes that share a catalogue, documents that share a process, and people who steer.

Several workers stand over the same stores in one process here, so that the moments when they cross can be chosen.
`tests/cluster/test_worker_process.py` has the real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assistant.core import queue
from assistant.core.domain import Access, Document, DocumentStatus, JobState, PageReading, Urgency
from assistant.core.errors import AccessDenied, NotFound, StoreBusy
from assistant.core.ports import Progress, SearchQuery, Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion import crew, followers
from ingestion.crew import Crew
from ingestion.gates import Gate, Turn
from ingestion.pipeline import Pipeline
from ingestion.publish import Publisher
from ingestion.wiring import build_worker
from ingestion.worker import Worker
from tests.ingestion.processes import until

EVERYONE = Access("test", None)


@pytest_asyncio.fixture
async def perito() -> AsyncIterator[Perito]:
    """The stores, and a worker that only accepts."""
    async with open_perito(load_settings(), reads=False) as perito:
        yield perito


@contextlib.asynccontextmanager
async def worker_over(perito: Perito, where: str = "here", **settled: float) -> AsyncIterator[Worker]:
    """A worker of another process, as it were, over the same stores."""
    settings = perito.settings.model_copy(
        update={
            "worker": perito.settings.worker.model_copy(update={"where": where, **settled}),
            "index": perito.settings.index.model_copy(update={"kind": "server"}),
        }
    )
    parts: dict[str, Any] = {name: getattr(perito, name) for name in ("catalogue", "blobs", "index", "embedder")}
    worker = build_worker(settings, **parts)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.aclose()


@pytest.fixture(autouse=True)
def _no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense vectors take most of the time, and say nothing about who reads what."""
    monkeypatch.setattr(Publisher, "embed_pending", lambda *_: 0)  # pyright: ignore[reportUnknownLambdaType]


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Ten pages, of which each has a heading that the next goes on under."""
    path = tmp_path / "largo.md"
    path.write_text("\n\n".join(f"# Parte {n}\n\n" + f"La cláusula {n} dice algo. " * 120 for n in range(8)), "utf-8")
    return path


def once(after: int, function: Callable[..., Any], act: Callable[[], Any]) -> Callable[..., Any]:
    """``function``, with ``act`` done in the worker's thread just before its ``after``-th call."""
    calls = 0

    def wrapped(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after:
            act()
        return function(*arguments)

    return wrapped


def counted_pages(perito: Perito, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the pages that are written down from now on."""
    written, put_page = list[int](), perito.catalogue.put_page

    def noted(document_id: str, page: Any, *lease: Any) -> None:
        put_page(document_id, page, *lease)
        written.append(page.number)

    monkeypatch.setattr(perito.catalogue, "put_page", noted)
    return written


def published(perito: Perito, document: Document) -> set[tuple[int, int, str, tuple[str, ...]]]:
    """All that the index says of a document."""
    query = SearchQuery("cláusula parte dice", None, EVERYONE, 1000, frozenset({document.id}))
    return {
        (hit.chunk.page, hit.chunk.ordinal, hit.chunk.text, hit.chunk.headings) for hit in perito.index.search(query)
    }


async def submitted(worker: Worker, path: Path, urgency: Urgency = Urgency.PROGRAM) -> Document:
    return (await worker.submit(Upload(path, path.name, urgency=urgency), EVERYONE)).document


async def followed(worker: Worker, document: Document) -> list[Progress]:
    return [step async for step in worker.progress(document.id, EVERYONE)]


async def test_what_is_accepted_here_is_read_elsewhere_and_all_is_told(perito: Perito, long: Path) -> None:
    document = await submitted(perito.worker, long)
    steps = perito.worker.progress(document.id, EVERYONE)
    assert (await anext(steps)).document.status is DocumentStatus.QUEUED
    await perito.worker.drain()
    assert perito.index.count(document.id) == 0
    async with worker_over(perito):
        told = [step async for step in steps]
    pages = [step.page.number for step in told if step.page]
    assert sorted(pages) == list(range(1, document.pages + 1)) and len(pages) > 2
    assert told[-1].document.status is DocumentStatus.COMPLETE
    assert not any(step.document.status.is_final for step in told[:-1])


async def test_what_is_published_after_a_deletion_elsewhere_is_withdrawn(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await submitted(perito.worker, long)
    steps = perito.worker.progress(document.id, EVERYONE)
    await anext(steps)
    loop = asyncio.get_running_loop()

    def delete() -> None:
        assert perito.index.count(document.id) > 0
        asyncio.run_coroutine_threadsafe(perito.worker.delete(document.id, EVERYONE), loop).result(60)
        assert perito.index.count(document.id) == 0

    async with worker_over(perito) as reading:
        publisher = reading._publisher  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(publisher, "publish_page", once(2, publisher.publish_page, delete))
        with pytest.raises(NotFound, match="deleted"):
            async for _ in steps:
                pass
        await reading.drain()
    assert perito.index.count(document.id) == 0
    assert perito.catalogue.rows_left(document.id) == 0
    assert [path for path in (perito.settings.home / "blobs").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_what_is_deleted_while_it_is_taken_apart_leaves_none_of_its_parts(
    perito: Perito, tmp_path: Path, elsewhere: bool
) -> None:
    """Removing many parts takes longer than two beats of a heart, which let go of what nobody reads."""
    archive = tmp_path / "muchas.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for number in range(90):
            packed.writestr(f"{number}.txt", f"La nota {number} dice algo.")
    async with worker_over(perito, lease_seconds=1) as reader:
        document = await submitted(perito.worker, archive)
        await until(lambda: len(perito.catalogue.documents(EVERYONE)) > 45)
        await (perito.worker if elsewhere else reader).delete(document.id, EVERYONE)
        await reader.drain()
        assert perito.catalogue.documents(EVERYONE) == []
        assert list(perito.blobs.keys()) == []


@pytest.mark.parametrize("late", [1, 2, 3])
async def test_a_part_that_is_entered_just_before_its_mail_is_removed_goes_with_it(
    perito: Perito, long: Path, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process enters one each time that the list of parts was looked at, the last of them in a part."""
    document, entered = await submitted(perito.worker, long), list[str]()
    sole_parts = perito.catalogue.sole_parts

    def enter(listed: str) -> list[Document]:
        found = sole_parts(listed)
        if len(entered) < late:
            part = f"part{len(entered)}"
            parent = listed if len(entered) != 2 else entered[-1]
            values: dict[str, Any] = {"id": part, "name": f"{part}.txt", "sha256": part.ljust(64, "0"), "pages": 1}
            new = dataclasses.replace(document, parent=parent, **values)
            with contextlib.suppress(NotFound):
                perito.catalogue.claim_document(new, "b" * 64)
            entered.append(part)
        return found

    monkeypatch.setattr(perito.catalogue, "sole_parts", enter)
    await perito.worker.delete(document.id, EVERYONE)
    assert len(entered) == late
    assert perito.catalogue.documents(EVERYONE) == []


async def test_who_cannot_show_that_it_lives_takes_a_document_no_more_often_than_it_looks(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off from the catalogue, or slept: what it takes it gives back, and would take again at once."""
    claim, taken = perito.catalogue.queue.claim, list[str]()

    def counted(*arguments: Any) -> queue.Claim | None:
        claimed = claim(*arguments)
        taken.extend([claimed.document.id] if claimed else [])
        return claimed

    monkeypatch.setattr(crew, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(perito.catalogue.queue, "claim", counted)
    monkeypatch.setattr(Crew, "_beat", lambda _: None)  # pyright: ignore[reportUnknownLambdaType]
    async with worker_over(perito) as reading:
        mine = reading._crew  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(mine, "_is_shown", lambda: False)
        document = await submitted(perito.worker, long)
        mine.wake()
        await until(lambda: bool(taken))
        await asyncio.sleep(1)
        assert set(taken) == {document.id} and 2 <= len(taken) <= 7  # every 0.2 s, in a second
        monkeypatch.undo()
        assert (await followed(reading, document))[-1].document.status is DocumentStatus.COMPLETE


@pytest.mark.parametrize("moment", ["publish_page", "finish_document"])
async def test_what_is_asked_for_again_elsewhere_is_read_from_its_beginning(
    moment: str, perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, written = await submitted(perito.worker, long), counted_pages(perito, monkeypatch)
    async with worker_over(perito) as reading:
        publisher = reading._publisher  # pyright: ignore[reportPrivateUsage]
        requeue = once(
            3 if "page" in moment else 1, getattr(publisher, moment), lambda: perito.catalogue.requeue(document.id)
        )
        monkeypatch.setattr(publisher, moment, requeue)
        await followed(reading, document)
        await reading.drain()
    after_all = perito.catalogue.document(document.id, EVERYONE)
    assert (after_all.status, after_all.pages_done) == (DocumentStatus.COMPLETE, document.pages)
    assert set(range(1, document.pages + 1)) == set(written) and len(written) > document.pages


@pytest.mark.parametrize("moment", ["publish_page", "finish_document"])
async def test_who_wakes_up_after_its_document_was_given_away_changes_nothing(
    moment: str, perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept just before a write to the index, which it then makes: the index is looked through, and stays right."""
    document, written = await submitted(perito.worker, long), counted_pages(perito, monkeypatch)
    loop, awake, asleep = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def sleep() -> None:
        loop.call_soon_threadsafe(asleep.set)
        asyncio.run_coroutine_threadsafe(awake.wait(), loop).result(120)

    async with worker_over(perito) as sleeper:
        publisher = sleeper._publisher  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(publisher, moment, once(2 if "page" in moment else 1, getattr(publisher, moment), sleep))
        await asyncio.wait_for(asleep.wait(), 60)
        monkeypatch.setattr(sleeper._crew, "_beat", lambda: None)  # pyright: ignore[reportPrivateUsage, reportUnknownLambdaType]
        (sign,) = perito.catalogue.queue.workers()
        perito.catalogue.queue.bury([sign.id])
        async with worker_over(perito) as other:
            await other.drain()
            right = published(perito, document)
            assert perito.catalogue.document(document.id, EVERYONE).status is DocumentStatus.COMPLETE
            before = list(written)
            awake.set()
            await asyncio.sleep(0.1)
            await sleeper.drain()
    assert written == before
    assert sorted(written) == list(range(1, document.pages + 1))
    async with worker_over(perito) as tidying:
        await tidying.drain()
        for _ in range(200):
            if not perito.catalogue.queue.doubted():
                break
            await asyncio.sleep(0.05)
    assert perito.catalogue.queue.doubted() == []
    assert published(perito, document) == right


@pytest.mark.parametrize("clocks", [(1, 1), (0, 1)], ids=["the process slept", "the machine was suspended"])
async def test_who_was_silent_for_longer_than_its_lease_begins_no_page(
    perito: Perito, long: Path, clocks: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have slept between taking the document and reading it: whose that is now has to be looked at first.
    ``clocks``: which went on meanwhile, the steady one and the wall's."""
    document, begun = await submitted(perito.worker, long), list[int]()
    read_page, pages_done = Pipeline.read_page, perito.catalogue.pages_done

    def counted(self: Pipeline, file: Any, number: int, *more: Any) -> Any:
        begun.append(number)
        return read_page(self, file, number, *more)

    def shift(crew: Crew, seconds: float) -> None:
        steady, wall = crew._shown  # pyright: ignore[reportPrivateUsage]
        crew._shown = steady + clocks[0] * seconds, wall + clocks[1] * seconds  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Pipeline, "read_page", counted)
    async with worker_over(perito) as sleeper:
        of_sleeper = sleeper._crew  # pyright: ignore[reportPrivateUsage]

        def sleep() -> None:
            shift(of_sleeper, -perito.settings.worker.lease_seconds)
            perito.catalogue.queue.pause("test")  # whoever takes it over has it, as it were
            perito.catalogue.queue.give_back(document.id, of_sleeper._worker)  # pyright: ignore[reportPrivateUsage]

        monkeypatch.setattr(perito.catalogue, "pages_done", once(1, pages_done, sleep))
        of_sleeper.wake()
        await until(lambda: perito.catalogue.queue.is_paused() and not of_sleeper._running)  # pyright: ignore[reportPrivateUsage]
        assert begun == []
        await perito.worker.resume(EVERYONE)
        shift(of_sleeper, perito.settings.worker.lease_seconds)
        await followed(sleeper, document)
    assert sorted(begun) == list(range(1, document.pages + 1))


async def test_short_documents_and_people_do_not_wait_for_a_long_one(
    perito: Perito, long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "PLACES", 1)
    monkeypatch.setattr(crew, "usable_cores", lambda: 1)
    monkeypatch.setattr(crew, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(crew, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(queue, "SHORT", 3)
    read_page = Pipeline.read_page

    async def slowly(*arguments: Any) -> PageReading:
        await asyncio.sleep(0.2)
        return await read_page(*arguments)

    monkeypatch.setattr(Pipeline, "read_page", slowly)
    book = await submitted(perito.worker, long, Urgency.BULK)
    written = counted_pages(perito, monkeypatch)
    async with worker_over(perito) as reading:
        async for step in reading.progress(book.id, EVERYONE):
            if step.document.pages_done:
                break
        short = tmp_path / "corto.txt"
        short.write_text("Un texto breve, detrás de uno largo.", "utf-8")
        document = await submitted(perito.worker, short, Urgency.BULK)
        await followed(reading, document)
        meanwhile = perito.catalogue.document(book.id, EVERYONE)
        assert 0 < meanwhile.pages_done < book.pages
        await followed(reading, book)
    assert perito.catalogue.document(book.id, EVERYONE).status is DocumentStatus.COMPLETE
    assert sorted(written) == sorted([1, *range(1, book.pages + 1)])  # page 1 of both; none was read twice


async def test_a_gate_lets_in_by_urgency_and_by_turns() -> None:
    gate, inside, go_on = Gate(2), list[str](), asyncio.Event()

    async def page(name: str, turn: Turn) -> None:
        async with gate.place(turn):
            inside.append(name)
            await go_on.wait()
            await asyncio.sleep(0)

    bulk, other, person = Turn(Urgency.BULK), Turn(Urgency.BULK), Turn(Urgency.PERSON)
    tasks = [asyncio.create_task(page(f"bulk {n}", bulk)) for n in range(4)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(page(f"other {n}", other)) for n in range(2)]
    tasks += [asyncio.create_task(page("person", person))]
    await asyncio.sleep(0)
    tasks[3].cancel()
    go_on.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert inside == ["bulk 0", "bulk 1", "person", "bulk 2", "other 0", "other 1"]
    async with gate.place(person), gate.place(person):
        assert person.inside == 2


async def test_what_is_cancelled_stops_and_goes_on_when_asked(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, written = await submitted(perito.worker, long), counted_pages(perito, monkeypatch)
    async with worker_over(perito) as reading:
        async for step in reading.progress(document.id, EVERYONE):
            if step.document.pages_done >= 2:
                job = await reading.cancel(document.id, EVERYONE)
                break
        assert job.state is JobState.CANCELLED
        assert "Cancelled by test" in job.reason
        assert job.document.status is DocumentStatus.PARTIAL
        read = job.document.pages_done
        await reading.drain()
        assert perito.catalogue.document(document.id, EVERYONE).pages_done == read < document.pages
        assert (await perito.worker.retry(document.id, EVERYONE)).state is JobState.WAITING
        await followed(reading, document)
    assert perito.catalogue.document(document.id, EVERYONE).status is DocumentStatus.COMPLETE
    assert sorted(written) == list(range(1, document.pages + 1))


async def test_while_paused_nothing_is_read_anywhere_until_it_goes_on(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "BEATS", 1000)
    document, written = await submitted(perito.worker, long), counted_pages(perito, monkeypatch)
    with pytest.raises(AccessDenied):
        await perito.worker.pause(Access("carl", frozenset({"hr"})))
    async with worker_over(perito) as reading:
        async for step in reading.progress(document.id, EVERYONE):
            if step.document.pages_done >= 1:
                await perito.worker.pause(EVERYONE)  # of another process; this one sees it with a beat of its heart
                break
        await reading.drain()
        view = await perito.worker.jobs(EVERYONE)
        assert view.paused
        assert [(job.state, job.worker) for job in view.jobs] == [(JobState.WAITING, "")]
        assert 0 < view.jobs[0].document.pages_done < document.pages
        assert len(view.workers) == 1
        await perito.worker.resume(EVERYONE)
        await followed(reading, document)
    assert sorted(written) == list(range(1, document.pages + 1))


async def test_why_a_document_waits_is_told_where_it_cannot_be_written_down(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "RETRY_SECONDS", (0.01,))
    document, tries = await submitted(perito.worker, long), 0
    put_page, put_off = perito.catalogue.put_page, perito.catalogue.queue.put_off

    def busy(*arguments: Any) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise StoreBusy("The catalogue is locked")
        put_page(*arguments) if len(arguments[1:]) == 2 and not isinstance(arguments[1], str) else put_off(*arguments)

    monkeypatch.setattr(perito.catalogue, "put_page", busy)
    monkeypatch.setattr(perito.catalogue.queue, "put_off", busy)
    async with worker_over(perito) as reading:
        told = await followed(reading, document)
    assert any("The catalogue is locked" in step.document.error for step in told)
    assert told[-1].document.status is DocumentStatus.COMPLETE
    assert told[-1].document.error == ""


async def test_who_does_not_keep_up_misses_the_oldest_pages_and_not_the_end(
    perito: Perito, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "KEPT", 2)
    document = await submitted(perito.worker, long)
    async with worker_over(perito) as reading:
        steps = reading.progress(document.id, EVERYONE)
        await anext(steps)
        await reading.drain()
        told = [step async for step in steps]
    assert told[-1].document.status is DocumentStatus.COMPLETE
    assert len(told) == 2
