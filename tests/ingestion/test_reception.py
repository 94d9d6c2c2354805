"""Two processes over one catalogue, index and blob folder, at the moments when they cross; in one process here, so that
the moments can be chosen. `tests/compose/test_worker_process.py` has the real processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assistant.core.domain import Access, DocumentStatus
from assistant.core.errors import NotFound
from assistant.core.ports import Upload
from assistant.core.settings import load_settings
from compose.standalone import Perito, open_perito
from ingestion import wiring
from ingestion.reception import Reception

EVERYONE = Access("test", None)


@pytest_asyncio.fixture
async def perito() -> AsyncIterator[Perito]:
    """The process that reads."""
    async with open_perito(load_settings()) as perito:
        yield perito


@pytest_asyncio.fixture
async def reception(perito: Perito) -> AsyncIterator[Reception]:
    """The process that accepts."""
    elsewhere = perito.settings.worker.model_copy(update={"where": "elsewhere"})
    settings = perito.settings.model_copy(update={"worker": elsewhere})
    parts: dict[str, Any] = {name: getattr(perito, name) for name in ("catalogue", "blobs", "index", "embedder")}
    reception = wiring.build_worker(settings, **parts)
    assert isinstance(reception, Reception)
    await reception.start()
    yield reception
    await reception.aclose()


@pytest.fixture
def long(tmp_path: Path) -> Path:
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


async def settled(perito: Perito) -> None:
    await perito.worker.take_up()
    await perito.worker.drain()


async def test_nothing_is_read_until_the_worker_takes_it_up_and_then_all_is_told(
    perito: Perito, reception: Reception, long: Path
) -> None:
    document = (await reception.submit(Upload(long, "largo.md"), EVERYONE)).document
    steps = reception.progress(document.id, EVERYONE)
    assert (await anext(steps)).document.status is DocumentStatus.QUEUED
    await perito.worker.drain()
    assert perito.index.count(document.id) == 0
    await perito.worker.take_up()
    told = [step async for step in steps]
    pages = [step.page.number for step in told if step.page]
    assert sorted(pages) == list(range(1, document.pages + 1)) and len(pages) > 2
    assert told[-1].document.status is DocumentStatus.COMPLETE
    assert not any(step.document.status.is_final for step in told[:-1])


async def test_what_is_published_after_a_deletion_elsewhere_is_withdrawn(
    perito: Perito, reception: Reception, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (await reception.submit(Upload(long, "largo.md"), EVERYONE)).document
    steps = reception.progress(document.id, EVERYONE)
    await anext(steps)
    loop, publisher = asyncio.get_running_loop(), perito.worker._publisher  # pyright: ignore[reportPrivateUsage]

    def delete() -> None:
        assert perito.index.count(document.id) > 0
        asyncio.run_coroutine_threadsafe(reception.delete(document.id, EVERYONE), loop).result(20)
        assert perito.index.count(document.id) == 0

    monkeypatch.setattr(publisher, "publish_page", once(2, publisher.publish_page, delete))
    await settled(perito)
    assert perito.index.count(document.id) == 0
    assert perito.catalogue.rows_left(document.id) == 0
    assert [path for path in (perito.settings.home / "blobs").rglob("*") if path.is_file()] == []
    with pytest.raises(NotFound, match="deleted"):
        async for _ in steps:
            pass


@pytest.mark.parametrize("moment", ["while a page is published", "when the document is about to end"])
async def test_what_is_requeued_elsewhere_is_read_from_its_beginning(
    moment: str, perito: Perito, reception: Reception, long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (await reception.submit(Upload(long, "largo.md"), EVERYONE)).document
    publisher, read = perito.worker._publisher, list[int]()  # pyright: ignore[reportPrivateUsage]
    put_page = perito.catalogue.put_page

    def noted(document_id: str, page: Any) -> None:
        read.append(page.number)
        put_page(document_id, page)

    monkeypatch.setattr(perito.catalogue, "put_page", noted)
    name, after = ("publish_page", 3) if "page" in moment else ("finish_document", 1)
    requeue = once(after, getattr(publisher, name), lambda: perito.catalogue.requeue(document.id))
    monkeypatch.setattr(publisher, name, requeue)
    await settled(perito)
    after_all = perito.catalogue.document(document.id, EVERYONE)
    assert (after_all.status, after_all.pages_done) == (DocumentStatus.COMPLETE, document.pages)
    assert set(range(1, document.pages + 1)) == set(read)
    assert len(read) > document.pages
    assert not perito.index.unembedded(10)
