"""A process that falls asleep, or whose host is gone, in the middle of a transaction: PostgreSQL lets others past."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import text

from assistant.core import database
from assistant.core.database import Database, open_database
from assistant.core.errors import EndpointDown


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
