"""A process that falls asleep, or whose host is gone, in the middle of a transaction: PostgreSQL lets others past."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import InternalError

from assistant.core import database
from assistant.core.catalogue import SqlCatalogue
from assistant.core.database import Database, open_database
from assistant.core.domain import Document, DocumentStatus
from assistant.core.errors import EndpointDown
from assistant.core.queue import Wanted
from assistant.core.tables import documents, jobs, workers


def test_what_a_sleeper_has_locked_is_free_after_a_while(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "IDLE_SECONDS", 0.3)
    theirs, ours = open_database(postgres_url), open_database(postgres_url)
    locked, ended = threading.Event(), list[Exception]()
    insert = "INSERT INTO switches (name, who) VALUES ('paused', 'ana')"

    def sleep_in(asleep: Database) -> None:
        try:
            with asleep.writing() as connection:
                connection.execute(text(insert))
                locked.set()
                time.sleep(1)
        except Exception as error:
            ended.append(error)

    sleeper = threading.Thread(target=sleep_in, args=(theirs,))
    sleeper.start()
    assert locked.wait(10)
    before = time.monotonic()
    with ours.writing() as connection:  # the same key: it waits for the other to end
        connection.execute(text(insert))
    assert time.monotonic() - before < 0.9
    sleeper.join()
    assert [type(error) for error in ended] == [EndpointDown], "what it wrote is lost, and it is told so"
    with theirs.reading() as connection:  # a fresh connection
        assert connection.execute(text("SELECT count(*) FROM switches")).scalar_one() == 1
    theirs.close()
    ours.close()


def test_who_only_reads_locks_nobody_out_however_long_it_sleeps(postgres_url: str) -> None:
    """Such a transaction has no time limit: a worker once fell asleep with its job locked, for ever."""
    ours = open_database(postgres_url)
    for table in (documents, jobs, workers):
        with pytest.raises(InternalError, match="read-only transaction"), ours.reading() as connection:
            connection.execute(select(table).with_for_update())
    with ours.writing() as connection:  # on the same connection
        connection.execute(select(jobs).with_for_update())
    ours.close()


def test_looking_at_a_lease_waits_for_nobody(postgres_url: str) -> None:
    catalogue, theirs = SqlCatalogue.open(postgres_url), open_database(postgres_url)
    new = Document("a", "a.pdf", "0" * 64, collection="legal", status=DocumentStatus.QUEUED, pages=1)
    catalogue.claim_document(new, "b" * 64)
    claim = catalogue.queue.claim(catalogue.queue.enrol("host", 1, 1.0), Wanted())
    assert claim is not None
    with theirs.writing() as connection:
        connection.execute(select(jobs).with_for_update())
        before = time.monotonic()
        assert catalogue.queue.check(claim.lease) == 0
        assert time.monotonic() - before < 5
    catalogue.close()
    theirs.close()
