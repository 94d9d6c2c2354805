"""The queue of documents to be read, in the catalogue's database: who reads what, and who may write.

A worker that takes a job gets a lease. Its number (the epoch) grows with every hand-over, and each write of what was
read compares it in its own transaction: a worker that slept while its job was given to another writes nothing. Times
are seconds since 1970 by the database's clock, so that the clocks of several hosts need not agree.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Select, case, delete, func, insert, select, text, update

from assistant.core.database import Database
from assistant.core.domain import Document, DocumentStatus, Job, JobState, PageStatus, Urgency, WorkerSign
from assistant.core.errors import LeaseLost
from assistant.core.records import Row, document_changes, document_of, no_document, plain_text
from assistant.core.tables import documents, enclosures, jobs, pages, switches, workers

ENDED = (JobState.DONE.value, JobState.FAILED.value, JobState.CANCELLED.value)
WAITS: dict[str, Any] = {"state": JobState.WAITING.value, "worker": ""}
TAKEN_AWAY = WAITS | {"epoch": jobs.c.epoch + 1}  # … and whoever has it now writes nothing more
SHORT = 50  # pages left; what has no more goes before longer documents
_CLOCKS = {
    True: "SELECT (julianday('now') - 2440587.5) * 86400.0",
    False: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
}


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write what is read of a document."""

    document_id: str
    worker: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that was taken: the document as it was then, and what is known of earlier tries."""

    document: Document
    blob: str
    lease: Lease
    urgency: Urgency
    generation: int
    attempts: int
    deaths: int
    doubts: int

    @property
    def is_long(self) -> bool:
        return is_long(self.document)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which job is taken next: none of more than ``urgency``, none of a collection of which as many as
    ``a_collection`` (0: any number) are being read; a long one first where ``long_first``."""

    urgency: Urgency = Urgency.BULK
    a_collection: int = 0
    long_first: bool = False


def is_long(document: Document) -> bool:
    return document.pages - document.pages_done > SHORT


class SqlQueue:
    """Thread-safe, and shared between processes. Every method may raise StoreBusy, DiskFull or EndpointDown."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- workers ------------------------------------------------------------------------------

    def enrol(self, host: str, pid: int, started: float) -> str:
        """Enter a worker; its id is new each time."""
        worker = uuid.uuid4().hex
        with self._database.writing() as connection:
            row = {"id": worker, "host": plain_text(host), "pid": pid, "started": started}
            connection.execute(insert(workers).values(row | {"beat": self._now(connection)}))
        return worker

    def beat(self, worker: str) -> frozenset[Lease]:
        """Show that ``worker`` lives; the leases it holds. LeaseLost when it was taken for dead."""
        with self._database.writing() as connection:
            shown = update(workers).where(workers.c.id == worker).values(beat=self._now(connection))
            if not connection.execute(shown).rowcount:
                raise _gone(worker)
            held = select(jobs.c.document_id, jobs.c.worker, jobs.c.epoch).where(jobs.c.worker == worker)
            return frozenset(Lease(*row) for row in connection.execute(held))

    def dismiss(self, worker: str) -> None:
        """A worker that ends in order: what it had begun is free for others at once."""
        with self._database.writing() as connection:
            connection.execute(update(jobs).where(jobs.c.worker == worker).values(TAKEN_AWAY))
            connection.execute(delete(workers).where(workers.c.id == worker))

    def bury(self, dead: Sequence[str]) -> int:
        """Hand on what dead workers had begun, once, whoever else does so; how many jobs were freed."""
        freed = 0
        for worker in dead:
            with self._database.writing(durable=True) as connection:
                if connection.execute(delete(workers).where(workers.c.id == worker)).rowcount:
                    freed += self._hand_on(connection, worker)
        return freed

    def workers(self) -> list[WorkerSign]:
        """All that are entered, alive or not, the freshest first."""
        count = func.count(jobs.c.document_id)
        joined = workers.outerjoin(jobs, jobs.c.worker == workers.c.id)
        query = select(workers, count.label("running")).select_from(joined).group_by(workers.c.id)
        with self._database.reading() as connection:
            now = self._now(connection)
            rows = connection.execute(query.order_by(workers.c.beat.desc(), workers.c.id)).mappings()
            return [WorkerSign(row["id"], row["host"], row["pid"], now - row["beat"], row["running"]) for row in rows]

    def processes(self) -> list[tuple[str, str, int, float]]:
        """(id, host, pid, when the process started) of all that are entered."""
        with self._database.reading() as connection:
            columns = (workers.c.id, workers.c.host, workers.c.pid, workers.c.started)
            return [(row[0], row[1], row[2], row[3]) for row in connection.execute(select(*columns))]

    # -- the queue ----------------------------------------------------------------------------

    def claim(self, worker: str, wanted: Wanted) -> Claim | None:
        """Take the next job; None when none is due, or nobody is to read. LeaseLost for a worker taken for dead."""
        with self._database.writing() as connection:
            if _first(connection, select(workers.c.id).where(workers.c.id == worker)) is None:
                raise _gone(worker)
            if self._paused(connection):
                return None
            row = _first(connection, self._due(connection, wanted).with_for_update(skip_locked=True, of=jobs).limit(1))
            return None if row is None else self._taken(connection, row, worker)

    def due(self, wanted: Wanted) -> Urgency | None:
        """How urgent the job is that ``claim`` would take; None where there is none."""
        with self._database.reading() as connection:
            row = None if self._paused(connection) else _first(connection, self._due(connection, wanted).limit(1))
            return None if row is None else Urgency(row["urgency"])

    def seconds_to_next(self) -> float | None:
        """Until a job that waits is due (0: now); None where none waits."""
        with self._database.reading() as connection:
            waiting = select(func.min(jobs.c.not_before)).where(jobs.c.state == JobState.WAITING.value)
            first = connection.execute(waiting).scalar()
            return None if first is None else max(0.0, first - self._now(connection))

    def check(self, lease: Lease) -> int:
        """How many doubts there are about the document's index. LeaseLost when it is another's by now; NotFound."""
        with self._database.reading() as connection:
            return _held(_job_row(connection, lease.document_id), lease)["doubts"]

    def end(self, lease: Lease, document: Document, doubts: int | None = None) -> bool:
        """Write how the document ended. Where its index was looked through when there were so many ``doubts``, and
        there are more by now, nothing is written: False. LeaseLost, NotFound."""
        failed = document.status is DocumentStatus.FAILED
        with self._database.writing(durable=True) as connection:
            row = require_lease(connection, lease)
            if doubts is not None and row["doubts"] != doubts:
                return False
            state = (JobState.FAILED if failed else JobState.DONE).value
            reason = plain_text(document.error) if failed else ""
            ended = {"state": state, "worker": "", "attempts": 0, "deaths": 0, "reason": reason}
            _set(connection, lease.document_id, ended | ({} if doubts is None else {"doubts": 0}))
            changes = document_changes(document)
            connection.execute(update(documents).where(documents.c.id == document.id).values(changes))
            return True

    def put_off(self, lease: Lease, reason: str, seconds: float) -> None:
        """Try it again later, and say why. LeaseLost, NotFound."""
        with self._database.writing() as connection:
            require_lease(connection, lease)
            moment = self._now(connection)
            later = {"not_before": moment + seconds, "turn": moment, "reason": plain_text(reason)}
            _set(connection, lease.document_id, WAITS | later | {"attempts": jobs.c.attempts + 1, "deaths": 0})
            note = update(documents).where(documents.c.id == lease.document_id)
            connection.execute(note.values(error=plain_text(reason)))

    def step_back(self, lease: Lease, seconds: float) -> None:
        """Let others go first: it waits again, at the end of the line, after so many more seconds of reading.
        LeaseLost, NotFound."""
        with self._database.writing() as connection:
            require_lease(connection, lease)
            _set(connection, lease.document_id, WAITS | {"deaths": 0, "turn": self._now(connection)})
            read = update(documents).where(documents.c.id == lease.document_id)
            connection.execute(read.values(seconds=documents.c.seconds + seconds))

    def give_back(self, document_id: str, worker: str) -> None:
        """Let a document wait again that is still ``worker``'s; nothing changes for others."""
        mine = (jobs.c.document_id == document_id) & (jobs.c.worker == worker)
        with self._database.writing() as connection:
            connection.execute(update(jobs).where(mine, jobs.c.state == JobState.RUNNING.value).values(TAKEN_AWAY))

    def set_aside(self, document_id: str, seconds: float) -> None:
        """Let nobody read a document for so long, whoever has it now, nor take anything more out of it. Nothing changes
        for one that ended, or that is gone."""
        unended = (jobs.c.document_id == document_id) & jobs.c.state.not_in(ENDED)
        with self._database.writing() as connection:
            aside = TAKEN_AWAY | {"not_before": self._now(connection) + seconds}
            connection.execute(update(jobs).where(unended).values(aside))

    def cancel(self, document_id: str, by: str) -> Document:
        """Nobody is to read the document any further; what was read stays. Nothing changes for one that ended.
        NotFound."""
        with self._database.writing(durable=True) as connection:
            row = _locked(connection, document_id)
            document = document_of(_document_row(connection, document_id))
            if row["state"] in ENDED:
                return document
            cancelled = {"state": JobState.CANCELLED.value, "worker": "", "epoch": jobs.c.epoch + 1}
            reason = f"Cancelled by {by} with {document.pages_done} of {document.pages} pages read."
            _set(connection, document_id, cancelled | {"reason": plain_text(reason)})
            some = document.pages_done > document.pages_failed
            status = DocumentStatus.PARTIAL if some else DocumentStatus.FAILED
            changes = {"status": status.value, "error": plain_text(reason)}
            connection.execute(update(documents).where(documents.c.id == document_id).values(changes))
            return document_of(_document_row(connection, document_id))

    def retry(self, document_id: str) -> Document:
        """Read on: pages that failed, and those that were never read. Nothing changes where there are none, or while it
        waits or is being read, but for a wait between two tries, which ends. NotFound."""
        with self._database.writing(durable=True) as connection:
            row = _locked(connection, document_id)
            now = self._now(connection)
            document = document_of(_document_row(connection, document_id))
            if row["state"] not in ENDED:
                _set(connection, document_id, {"not_before": 0.0, "attempts": 0})
                return document
            if document.status is DocumentStatus.COMPLETE:
                return document
            anew = {"generation": jobs.c.generation + 1, "attempts": 0, "deaths": 0, "reason": "", "not_before": 0.0}
            _set(connection, document_id, TAKEN_AWAY | anew | {"turn": now})
            return _again(connection, document_id, pages.c.status == PageStatus.FAILED.value)

    # -- doubts about the index ---------------------------------------------------------------

    def doubt(self, document_id: str) -> None:
        """Something may stand in the index of the document that should not: a worker wrote there after it had lost
        the document. Whoever ends it, or finds it ended, looks it through."""
        with self._database.writing() as connection:
            _set(connection, document_id, {"doubts": jobs.c.doubts + 1})

    def doubted(self) -> list[tuple[Document, int]]:
        """Documents that ended and whose index is in doubt, with how many doubts there are."""
        query = select(documents, jobs.c.doubts).join(jobs).where(jobs.c.doubts > 0, jobs.c.state.in_(ENDED))
        with self._database.reading() as connection:
            return [(document_of(cast("Row", row)), row["doubts"]) for row in connection.execute(query).mappings()]

    def dispel(self, document_id: str, doubts: int) -> None:
        """The index of an ended document was looked through; newer doubts stay."""
        still = (jobs.c.document_id == document_id) & (jobs.c.doubts == doubts) & jobs.c.state.in_(ENDED)
        with self._database.writing() as connection:
            connection.execute(update(jobs).where(still).values(doubts=0))

    # -- the switch ---------------------------------------------------------------------------

    def pause(self, who: str) -> None:
        """Nobody takes a job any more, and what is being read steps back, until ``resume``."""
        with self._database.writing(durable=True) as connection:
            if not self._paused(connection):
                connection.execute(insert(switches).values(name="paused", who=plain_text(who)))

    def resume(self) -> None:
        with self._database.writing(durable=True) as connection:
            connection.execute(delete(switches).where(switches.c.name == "paused"))

    def is_paused(self) -> bool:
        with self._database.reading() as connection:
            return self._paused(connection)

    # -- inside -------------------------------------------------------------------------------

    def _now(self, connection: Connection) -> float:
        return float(connection.execute(text(_CLOCKS[self._database.is_sqlite])).scalar_one())

    def _paused(self, connection: Connection) -> bool:
        return _first(connection, select(switches.c.name).where(switches.c.name == "paused")) is not None

    def _due(self, connection: Connection, wanted: Wanted) -> Select[Any]:
        due = (jobs.c.state == JobState.WAITING.value) & (jobs.c.not_before <= self._now(connection))
        query = select(jobs, documents.c.pages_done).join(documents).where(due, jobs.c.urgency <= wanted.urgency.value)
        if wanted.a_collection:
            running = select(documents.c.collection).join(jobs).where(jobs.c.state == JobState.RUNNING.value)
            full = running.group_by(documents.c.collection).having(func.count() >= wanted.a_collection)
            query = query.where(documents.c.collection.not_in(full))
        long = documents.c.pages - documents.c.pages_done > SHORT
        first = case((long, 0 if wanted.long_first else 1), else_=1 if wanted.long_first else 0)
        return query.order_by(jobs.c.urgency, first, jobs.c.turn, jobs.c.document_id)

    def _taken(self, connection: Connection, row: Row, worker: str) -> Claim:
        document_id = row["document_id"]
        known = _known(connection, document_id, row["pages_done"])
        further = known > row["pages_before"]
        epoch, attempts = row["epoch"] + 1, 0 if further else row["attempts"]
        taken = {"state": JobState.RUNNING.value, "worker": worker, "epoch": epoch, "attempts": attempts}
        _set(connection, document_id, taken | {"pages_before": known, "reason": ""})
        reading = {"status": DocumentStatus.READING.value, "error": ""}
        connection.execute(update(documents).where(documents.c.id == document_id).values(reading))
        document = _document_row(connection, document_id)
        return Claim(
            document=document_of(document),
            blob=document["blob"],
            lease=Lease(document_id, worker, epoch),
            urgency=Urgency(row["urgency"]),
            generation=row["generation"],
            attempts=attempts,
            deaths=row["deaths"],
            doubts=row["doubts"],
        )

    def _hand_on(self, connection: Connection, worker: str) -> int:
        query = select(jobs.c.document_id, jobs.c.deaths, jobs.c.pages_before, documents.c.pages_done).join(documents)
        rows = list(connection.execute(query.where(jobs.c.worker == worker)).mappings())
        for row in rows:
            known = _known(connection, row["document_id"], row["pages_done"])
            deaths = 1 if known > row["pages_before"] else row["deaths"] + 1
            _set(connection, row["document_id"], TAKEN_AWAY | {"deaths": deaths})
        return len(rows)


def new_job(connection: Connection, document_id: str, urgency: Urgency, is_sqlite: bool) -> None:
    """Put a document that was just entered in line, in the same transaction."""
    turn = float(connection.execute(text(_CLOCKS[is_sqlite])).scalar_one())
    zeros = dict.fromkeys(("not_before", "epoch", "generation", "attempts", "deaths", "pages_before", "doubts"), 0)
    row = {"document_id": document_id, "state": JobState.WAITING.value, "urgency": urgency.value, "turn": turn}
    connection.execute(insert(jobs).values(row | zeros | {"worker": "", "reason": ""}))


def anew_job(connection: Connection, document_id: str) -> None:
    """Let a document be published anew, whoever has it now. NotFound."""
    _locked(connection, document_id)
    anew = {"generation": jobs.c.generation + 1, "attempts": 0, "deaths": 0, "reason": "", "not_before": 0.0}
    _set(connection, document_id, TAKEN_AWAY | anew)


def requeue_job(connection: Connection, document_id: str) -> None:
    """Let a document be read from its beginning, whoever reads it now. NotFound."""
    anew_job(connection, document_id)
    _set(connection, document_id, {"pages_before": 0})


def page_again(connection: Connection, document_id: str, number: int) -> Document:
    """Let one page be read again, whoever has the document now; the others stand. NotFound."""
    anew_job(connection, document_id)
    return _again(connection, document_id, pages.c.number == number)


def require_lease(connection: Connection, lease: Lease) -> Row:
    """The job's row, which nobody else changes before this transaction ends. LeaseLost, NotFound."""
    return _held(_locked(connection, lease.document_id), lease)


def _held(row: Row, lease: Lease) -> Row:
    if (row["state"], row["worker"], row["epoch"]) != (JobState.RUNNING.value, lease.worker, lease.epoch):
        raise LeaseLost(f"The document {lease.document_id} is not this worker's to read any more")
    return row


def job_of(row: Mapping[str, Any]) -> Job:
    """A job from a row of ``documents`` joined with ``jobs``."""
    put_off = row["state"] == JobState.WAITING.value and row["not_before"] > 0
    return Job(
        document=document_of(row),
        state=JobState(row["state"]),
        urgency=Urgency(row["urgency"]),
        worker=row["worker"],
        attempts=row["attempts"],
        reason=row["reason"],
        next_try=datetime.fromtimestamp(row["not_before"], UTC) if put_off else None,
    )


def _again(connection: Connection, document_id: str, which: ColumnElement[bool]) -> Document:
    """The document, queued to have these of its pages read again."""
    connection.execute(update(pages).where(pages.c.document_id == document_id, which).values(stale=True))
    changes = _counted(connection, document_id) | {"status": DocumentStatus.QUEUED.value, "error": ""}
    connection.execute(update(documents).where(documents.c.id == document_id).values(changes))
    return document_of(_document_row(connection, document_id))


def _counted(connection: Connection, document_id: str) -> dict[str, Any]:
    """A document's counters as its pages say."""
    query = select(pages.c.reader, pages.c.status, func.count().label("count")).where(
        pages.c.document_id == document_id, ~pages.c.stale
    )
    rows = list(connection.execute(query.group_by(pages.c.reader, pages.c.status)).mappings())
    readers: dict[str, int] = {}
    for row in rows:
        readers[row["reader"]] = readers.get(row["reader"], 0) + row["count"]
    failed = sum(row["count"] for row in rows if row["status"] == PageStatus.FAILED.value)
    return {"pages_done": sum(readers.values()), "pages_failed": failed, "readers": readers}


def _known(connection: Connection, document_id: str, pages_done: int) -> int:
    """How far a document got: its pages that ended, and the files that were taken out of it."""
    parts = select(func.count()).where(enclosures.c.parent_id == document_id)
    return pages_done + connection.execute(parts).scalar_one()


def _set(connection: Connection, document_id: str, values: Mapping[str, Any]) -> None:
    connection.execute(update(jobs).where(jobs.c.document_id == document_id).values(dict(values)))


def _locked(connection: Connection, document_id: str) -> Row:
    return _job_row(connection, document_id, lock=True)


def _job_row(connection: Connection, document_id: str, *, lock: bool = False) -> Row:
    query = select(jobs).where(jobs.c.document_id == document_id)
    row = _first(connection, query.with_for_update() if lock else query)
    if row is None:
        raise no_document(document_id)
    return row


def _document_row(connection: Connection, document_id: str) -> Row:
    row = _first(connection, select(documents).where(documents.c.id == document_id))
    if row is None:
        raise no_document(document_id)
    return row


def _first(connection: Connection, query: Select[Any]) -> Row | None:
    return cast("Row | None", connection.execute(query).mappings().first())


def _gone(worker: str) -> LeaseLost:
    return LeaseLost(f"The worker {worker} was silent for so long that its documents were given to others")
