"""Documents, pages, readings and usage in SQL: the kernel's ``Catalogue``, on SQLite or PostgreSQL.

Whatever a person reads goes through ``_visible``, the one access filter; what it hides looks as if it were not
there. The methods under "for the worker" serve no interface and take no access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Executable, delete, func, insert, or_, select, true, update

from assistant.core.corrections import corrected
from assistant.core.database import Database, lock_key, open_database
from assistant.core.domain import (
    Access,
    Collection,
    Correction,
    Document,
    DocumentStatus,
    Job,
    JobState,
    PageEnding,
    PageReading,
    PageStatus,
    Reader,
    Tally,
    Urgency,
    Usage,
    UsageTotal,
)
from assistant.core.enclosures import above, found_again, is_sole_part, note_enclosure, sole_family
from assistant.core.errors import BadRequest, NotFound
from assistant.core.ports import EVERY_DOCUMENT, DocumentQuery
from assistant.core.queue import Lease, SqlQueue, anew_job, job_of, new_job, page_again, requeue_job, require_lease
from assistant.core.records import (
    Row,
    correction_of,
    correction_row,
    document_changes,
    document_of,
    document_row,
    folded,
    no_document,
    page_of,
    page_row,
    plain_text,
    reading_rows,
    recounted,
    usage_row,
)
from assistant.core.selection import conditions, confidence, ordering
from assistant.core.tables import corrections, documents, elements, enclosures, jobs, pages, readings, usage

PAGES_AT_ONCE = 32  # pages loaded at a time when a whole document is asked for


class SqlCatalogue:
    """Thread-safe, and shared between processes. Every method may raise StoreBusy, DiskFull or EndpointDown."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queue = SqlQueue(database)

    @classmethod
    def open(cls, url: str) -> SqlCatalogue:
        """Connect to ``sqlite:////file`` or ``postgresql://…`` and bring the tables up to date.

        Misconfigured, StoreMismatch, EndpointDown, StoreBusy.
        """
        return cls(open_database(url))

    def close(self) -> None:
        self._database.close()

    def ping(self) -> None:
        """Raise when the database does not answer."""
        self._database.ping()

    # -- documents ----------------------------------------------------------------------------

    def claim_document(
        self, document: Document, blob: str, urgency: Urgency = Urgency.PROGRAM
    ) -> tuple[Document, bool]:
        """Enter a document and put it in line, or find the one that has the same bytes in that collection already.

        Returns it and whether it was entered now. However many try at once, one is entered. Its version is
        counted here: one more than the highest of that name in that collection. It survives a power cut. Whoever
        put the blob before claiming looks afterwards whether it is still there: see ``release_blob``.

        Where it has a ``parent``, that is noted as well; one that has none stays when what it was found in goes.
        """
        with self._database.writing(durable=True) as connection:
            self._database.lock(connection, lock_key(document.collection))
            self._database.lock(connection, lock_key(blob))
            row = document_row(document, blob)
            same = (documents.c.collection == row["collection"]) & (documents.c.sha256 == row["sha256"])
            # Locked: it is not removed before this transaction ends; one being removed is waited for, and entered anew.
            stays = select(documents).where(same).with_for_update(read=True, key_share=True)
            if found := _first(connection, stays):
                return document_of(found_again(connection, found, document.parent)), False
            row["version"] = 1 + _highest_version(connection, row["collection"], row["name"])
            connection.execute(insert(documents).values(row))
            note_enclosure(connection, document.parent, document.id)
            new_job(connection, document.id, urgency, self._database.is_sqlite)
            return document_of(row), True

    def document(self, document_id: str, access: Access) -> Document:
        """NotFound."""
        return document_of(self._row(document_id, access))

    def documents(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> list[Document]:
        """In the order asked for; the newest first among equals."""
        found = select(documents).where(_visible(access), *conditions(query)).order_by(*ordering(query))
        return self._documents(found.limit(query.limit).offset(query.offset or None))

    def tally(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> Tally:
        """What all documents wanted come to; limit and offset do not count."""
        names = ("pages", "pages_done", "pages_failed", "size")
        sums = (func.sum(documents.c[name]) for name in names)
        found = select(documents.c.status, func.count(), *sums).where(_visible(access), *conditions(query))
        with self._database.reading() as connection:
            rows = [tuple(row) for row in connection.execute(found.group_by(documents.c.status))]
        totals = {name: int(sum(row[place] for row in rows)) for place, name in enumerate(names, start=2)}
        return Tally({DocumentStatus(row[0]): row[1] for row in rows}, **totals)

    def confidences(self, document_ids: Sequence[str], access: Access) -> dict[str, float]:
        """The mean confidence of the pages that say something, by document; left out where none does."""
        sure = select(documents.c.id, confidence()).where(_visible(access), documents.c.id.in_(document_ids))
        with self._database.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(sure) if row[1] is not None}

    def collections(self, access: Access) -> list[Collection]:
        """Those that hold a document, in alphabetical order."""
        name = documents.c.collection
        query = select(name, func.count(), func.sum(documents.c.pages)).where(_visible(access)).group_by(name)
        with self._database.reading() as connection:
            return [Collection(*row) for row in connection.execute(query.order_by(name))]

    def parts(self, document_id: str, access: Access) -> list[Document]:
        """The documents that were found in a document, in the order of their arrival."""
        found = select(documents).join(enclosures, enclosures.c.document_id == documents.c.id)
        found = found.where(enclosures.c.parent_id == document_id, _visible(access))
        return self._documents(found.order_by(documents.c.created, documents.c.id))

    def blob(self, document_id: str, access: Access) -> str:
        """The blob key of the document's source file. NotFound."""
        return self._row(document_id, access)["blob"]

    def update_document(self, document: Document) -> None:
        """Write name, status, pages, media type, seconds and error; see the port for what is left out. NotFound."""
        self._update(document.id, durable=document.status.is_final, **document_changes(document))

    def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
        """Set the number of chunks, and of those with their dense vector. NotFound."""
        self._update(document_id, chunks=chunks, chunks_embedded=embedded)

    def move(self, document_id: str, collection: str, access: Access) -> list[Document]:
        """Put a document into ``collection``, with what was found in it and nowhere else, to be published there: queued
        where it was published, its pages kept. Returns it first; nothing where it is there already.

        NotFound; AccessDenied where they may not add to the collection; BadRequest while one of them is being read,
        and where the collection holds the same file or another of its name, which it would replace: then none moves.
        """
        access.require(collection)
        with self._database.writing(durable=True) as connection:
            self._database.lock(connection, lock_key(collection))
            if _theirs(connection, document_id, access)["collection"] == collection:
                return []
            family = [document_id, *sole_family(connection, document_id)]
            return [_moved(connection, one, collection, access) for one in family]

    def rename(self, document_id: str, name: str, access: Access) -> list[Document]:
        """Give a document another name, and those that were found in it and nowhere else the name that follows from it;
        they are queued where they were published, their pages kept. Returns those renamed, the document first.

        NotFound; BadRequest while one of them is being read, and where the collection holds one of its new name, which
        it would replace: then none is renamed.
        """
        while True:
            collection = self._row(document_id, access)["collection"]
            with self._database.writing(durable=True) as connection:
                self._database.lock(connection, lock_key(collection))
                row = _theirs(connection, document_id, access)
                if row["collection"] != collection:  # moved before the lock
                    continue
                family = [document_id, *sole_family(connection, document_id)]
                renamed = (_renamed(connection, one, row["name"], plain_text(name), access) for one in family)
                return [document for document in renamed if document is not None]

    def requeue(self, document_id: str) -> Document:
        """Let a document be read again: queued, no page counted, whoever reads it now. Its pages can be looked at
        until each is replaced. NotFound."""
        with self._database.writing(durable=True) as connection:
            requeue_job(connection, document_id)
            row = _locked(connection, document_id)
            changes: dict[str, Any] = {"status": DocumentStatus.QUEUED.value, "error": "", "seconds": 0.0}
            changes |= {"pages_done": 0, "pages_failed": 0, "readers": {}}
            connection.execute(update(documents).where(documents.c.id == document_id).values(changes))
            connection.execute(update(pages).where(pages.c.document_id == document_id).values(stale=True))
            return document_of({**row, **changes})

    def jobs(self, access: Access, states: Sequence[JobState] = (), limit: int | None = None) -> list[Job]:
        """Places in the queue, in the order of their turn; of the states named, else of all."""
        named = [jobs.c.state.in_([state.value for state in states])] if states else []
        return self._jobs(access, *named, limit=limit)

    def job(self, document_id: str, access: Access) -> Job:
        """NotFound."""
        found = self._jobs(access, documents.c.id == document_id)
        if not found:
            raise no_document(document_id)
        return found[0]

    def delete_document(self, document_id: str, access: Access) -> Sequence[str] | None:
        """Remove the document's rows; the ledger keeps its lines and forgets whom they were for. What was found in
        it belongs to where else it was found. None, and nothing changes, while something was found in it alone
        (``sole_parts`` go first): what is entered meanwhile is either seen here or refused.

        Returns the blob keys that no other document and no chat uses; hand them to ``release_blob``. NotFound.
        """
        with self._database.writing(durable=True) as connection:
            row = _theirs(connection, document_id, access)
            if _first(connection, select(documents.c.id).where(is_sole_part(document_id)).limit(1)) is not None:
                return None
            connection.execute(delete(documents).where(documents.c.id == document_id))  # its enclosures go with it
            other = select(func.min(enclosures.c.parent_id)).where(enclosures.c.document_id == documents.c.id)
            moved = update(documents).where(documents.c.parent == document_id)
            connection.execute(moved.values(parent=other.scalar_subquery()))
            connection.execute(update(usage).where(usage.c.document_id == document_id).values(document_id=""))
            return [] if _is_used(connection, row["blob"]) else [row["blob"]]

    # -- for the worker -----------------------------------------------------------------------

    def older_versions(self, document: Document) -> list[Document]:
        """The documents that ``document`` replaces: same name, same collection, lower version."""
        same = (documents.c.collection == document.collection) & (documents.c.name == plain_text(document.name))
        older = select(documents).where(same, documents.c.version < document.version)
        return self._documents(older.order_by(documents.c.version.desc()))

    def sole_parts(self, document_id: str) -> list[Document]:
        """Those of its parts that were found nowhere else, nor handed in by themselves: they go when it goes."""
        return self._documents(select(documents).where(is_sole_part(document_id)))

    def ancestors(self, document_id: str) -> list[str]:
        """Ids of the document's parent, its parent's, and so on."""
        with self._database.reading() as connection:
            return above(connection, document_id)

    def family(self, document_id: str) -> tuple[int, int]:
        """How many documents were found in a document, in those, and so on; and their bytes together."""
        seen, level, size = {document_id}, [document_id], 0
        with self._database.reading() as connection:
            while level:
                inner = select(documents.c.id, documents.c.size).where(documents.c.parent.in_(level))
                found = [(row.id, row.size) for row in connection.execute(inner) if row.id not in seen]
                level = [each for each, _ in found]
                seen.update(level)
                size += sum(each for _, each in found)
        return len(seen) - 1, size

    def pages_done(self, document_id: str) -> set[int]:
        """Numbers of the pages that ended in any way since the document was last queued."""
        query = select(pages.c.number).where(pages.c.document_id == document_id, ~pages.c.stale)
        with self._database.reading() as connection:
            return set(connection.scalars(query))

    def half_embedded(self) -> list[str]:
        """Ids of the documents of which fewer chunks are said to have their vector than there are."""
        with self._database.reading() as connection:
            return list(
                connection.scalars(select(documents.c.id).where(documents.c.chunks_embedded < documents.c.chunks))
            )

    def blob_in_use(self, key: str) -> bool:
        with self._database.reading() as connection:
            return _is_used(connection, key)

    def release_blob(self, key: str, forget: Callable[[str], None]) -> bool:
        """Call ``forget(key)`` if no document and no chat uses the blob, and keep any from claiming it meanwhile.

        Returns whether it was forgotten. A claim waits for this, so who puts a blob, claims it, and then still
        finds it in the store has it for good; who does not find it puts it once more.
        """
        with self._database.writing() as connection:
            self._database.lock(connection, lock_key(key))
            if _is_used(connection, key):
                return False
            forget(key)
            return True

    def rows_left(self, document_id: str) -> int:
        """How many rows of any table still name the document: 0 after ``delete_document``."""
        tables = (jobs, pages, readings, corrections, usage)
        columns = (documents.c.id, documents.c.parent, *(table.c.document_id for table in tables))
        columns += (enclosures.c.parent_id, enclosures.c.document_id)
        with self._database.reading() as connection:
            counts = (select(func.count()).where(column == document_id) for column in columns)
            return sum(connection.execute(count).scalar_one() for count in counts)

    # -- pages --------------------------------------------------------------------------------

    def put_page(self, document_id: str, page: PageReading, lease: Lease | None = None) -> None:
        """Keep a page with all its readings and count it, or replace the page of that number. NotFound; LeaseLost
        where the ``lease`` it was read under is no longer held."""
        with self._database.writing() as connection:
            if lease is not None:
                require_lease(connection, lease)
            counts = _locked(connection, document_id)
            same = (pages.c.document_id == document_id) & (pages.c.number == page.number)
            former = _first(connection, select(pages.c.reader, pages.c.status, pages.c.stale).where(same))
            connection.execute(delete(pages).where(same))  # its readings go with it
            connection.execute(insert(pages).values(page_row(document_id, page)))
            if rows := reading_rows(document_id, page):
                connection.execute(insert(readings), rows)
            values = recounted(counts, None if former is None or former["stale"] else former, page)
            connection.execute(update(documents).where(documents.c.id == document_id).values(values))

    def page(self, document_id: str, number: int, access: Access) -> PageReading:
        """NotFound when there is no such page, or it was not read yet."""
        found = self._pages(document_id, access, pages.c.number == number)
        if not found:
            raise NotFound(f"There is no page {number} of the document {document_id}, or it was not read yet")
        return found[0]

    def pages(self, document_id: str, access: Access, first: int = 1) -> Iterator[PageReading]:
        """All pages read so far, from ``first`` on, in order, a few at a time. NotFound at once when there is no such
        document."""
        self._row(document_id, access)
        return self._all_pages(document_id, access, first)

    def page_endings(self, document_id: str, access: Access) -> list[PageEnding]:
        """How each page read so far ended, in order, without what it says. NotFound."""
        self._row(document_id, access)
        names = ("number", "reader", "status", "confidence")
        query = select(*(pages.c[name] for name in names)).where(pages.c.document_id == document_id)
        with self._database.reading() as connection:
            rows = _rows(connection, query.order_by(pages.c.number))
        return [
            PageEnding(row["number"], Reader(row["reader"]), PageStatus(row["status"]), row["confidence"])
            for row in rows
        ]

    # -- corrections --------------------------------------------------------------------------

    def corrections(self, document_id: str, access: Access) -> list[Correction]:
        """What people said about a document's blocks, by page and in the order it was said. NotFound."""
        self._row(document_id, access)
        with self._database.reading() as connection:
            return _corrections(connection, document_id)

    def corrected(self, document_id: str, page: PageReading) -> PageReading:
        """A page just read, as people corrected it before. For the worker."""
        with self._database.reading() as connection:
            return corrected(page, _corrections(connection, document_id, [page.number]))

    def marked(self, document_id: str) -> frozenset[int]:
        """The pages on which somebody marked a block as misread and nobody said what stands there. For the worker."""
        query = select(corrections.c.page).where(corrections.c.document_id == document_id, corrections.c.text.is_(None))
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def correct(
        self, document_id: str, correction: Correction, access: Access, *, read_marked: bool = False
    ) -> Document:
        """Keep ``correction`` in the place of the one before it; the document is queued, to be published anew, where
        its text changes, and with ``read_marked`` to have its page read again where it is a mark on a page that has
        looks of its own. NotFound."""
        with self._database.writing(durable=True) as connection:
            row = _theirs(connection, document_id, access)
            before = [
                one
                for one in _corrections(connection, document_id, [correction.page])
                if one.bbox == correction.bbox and one.original == correction.original
            ]
            connection.execute(delete(corrections).where(corrections.c.id.in_([one.id for one in before])))
            connection.execute(insert(corrections).values(correction_row(document_id, correction)))
            if correction.text is None and read_marked and document_of(row).has_looks:
                return page_again(connection, document_id, correction.page)
            changes = any(one.text is not None for one in [*before, correction])
            return _published_anew(connection, row) if changes else document_of(row)

    def withdraw_correction(self, document_id: str, correction_id: int, access: Access) -> Document:
        """Forget a correction; queued where the text changes, as in ``correct``. NotFound."""
        with self._database.writing(durable=True) as connection:
            row = _theirs(connection, document_id, access)
            same = (corrections.c.id == correction_id) & (corrections.c.document_id == document_id)
            found = _first(connection, select(corrections).where(same))
            if found is None:
                raise NotFound(f"There is no correction {correction_id} of {row['name']}", "Open its page again")
            connection.execute(delete(corrections).where(same))
            return document_of(row) if found["text"] is None else _published_anew(connection, row)

    # -- usage --------------------------------------------------------------------------------

    def record(self, usage_line: Usage) -> None:
        """Add a line to the ledger."""
        with self._database.writing() as connection:
            connection.execute(insert(usage).values(usage_row(usage_line, datetime.now(UTC))))

    def usage_totals(self, access: Access, since: datetime | None = None) -> list[UsageTotal]:
        """The ledger by purpose, model and collection, dearest first; ``since`` has a time zone.

        A line that belongs to no collection is seen by whom it was for, and by whoever may see everything.
        """
        groups = (usage.c.purpose, usage.c.model, usage.c.collection)
        sums = [func.sum(usage.c[name]) for name in ("prompt_tokens", "completion_tokens", "visual_tokens")]
        sums += [func.sum(usage.c[name]) for name in ("seconds", "price")]
        query = select(*groups, func.count(), *sums).where(_visible_usage(access)).group_by(*groups)
        if since is not None:
            query = query.where(usage.c.at >= since.astimezone(UTC))
        with self._database.reading() as connection:
            totals = [UsageTotal(*row) for row in connection.execute(query)]
        return sorted(totals, key=lambda total: (-total.price, -total.prompt_tokens, total.purpose, total.model))

    # -- inside -------------------------------------------------------------------------------

    def _documents(self, query: Executable) -> list[Document]:
        with self._database.reading() as connection:
            return [document_of(row) for row in _rows(connection, query)]

    def _jobs(self, access: Access, *which: ColumnElement[bool], limit: int | None = None) -> list[Job]:
        query = select(documents, *(column for column in jobs.c if column.name != "document_id")).join(jobs)
        query = query.where(_visible(access), *which).order_by(jobs.c.urgency, jobs.c.turn, documents.c.id)
        with self._database.reading() as connection:
            return [job_of(row) for row in _rows(connection, query.limit(limit))]

    def _row(self, document_id: str, access: Access) -> Row:
        with self._database.reading() as connection:
            row = _first(connection, select(documents).where(documents.c.id == document_id, _visible(access)))
        if row is None:
            raise no_document(document_id)
        return row

    def _update(self, document_id: str, *, durable: bool = False, **values: Any) -> None:
        with self._database.writing(durable=durable) as connection:
            changed = connection.execute(update(documents).where(documents.c.id == document_id).values(values))
            if not changed.rowcount:
                raise no_document(document_id)

    def _all_pages(self, document_id: str, access: Access, first: int) -> Iterator[PageReading]:
        last = first - 1
        while found := self._pages(document_id, access, pages.c.number > last):
            yield from found
            last = found[-1].number

    def _pages(self, document_id: str, access: Access, which: ColumnElement[bool]) -> list[PageReading]:
        """The first pages of those wanted, with their readings, in order."""
        mine = select(pages).join(documents).where(_visible(access), pages.c.document_id == document_id, which)
        with self._database.reading() as connection:
            rows = _rows(connection, mine.order_by(pages.c.number).limit(PAGES_AT_ONCE))
            numbers = [row["number"] for row in rows]
            theirs = select(readings).where(readings.c.document_id == document_id, readings.c.number.in_(numbers))
            kept = _rows(connection, theirs.order_by(readings.c.number, readings.c.ordinal))
            said = _corrections(connection, document_id, numbers) if numbers else []
        read = [page_of(row, [reading for reading in kept if reading["number"] == row["number"]]) for row in rows]
        return [corrected(page, said) for page in read] if said else read


def _visible(access: Access) -> ColumnElement[bool]:
    """The one access filter: a condition on ``documents`` that is true for what ``access`` may see."""
    if access.collections is None:
        return true()
    return documents.c.collection.in_(sorted(access.collections))


def _visible_usage(access: Access) -> ColumnElement[bool]:
    if access.collections is None:
        return true()
    own = (usage.c.collection == "") & (usage.c.user == access.user)
    return or_(usage.c.collection.in_(sorted(access.collections)), own)


def _rows(connection: Connection, query: Executable) -> list[Row]:
    return [cast("Row", row) for row in connection.execute(query).mappings()]


def _first(connection: Connection, query: Executable) -> Row | None:
    return next(iter(_rows(connection, query)), None)


def _locked(connection: Connection, document_id: str) -> Row:
    """The document's row, kept from other writers until the transaction ends. NotFound."""
    row = _first(connection, select(documents).where(documents.c.id == document_id).with_for_update())
    if row is None:
        raise no_document(document_id)
    return row


def _theirs(connection: Connection, document_id: str, access: Access) -> Row:
    """As ``_locked``, of a document that they may see. NotFound."""
    row = _locked(connection, document_id)
    if not access.allows(row["collection"]):
        raise no_document(document_id)
    return row


def _settled(connection: Connection, document_id: str, access: Access) -> Row:
    """As ``_theirs``, of a document that is not being read. NotFound, BadRequest."""
    row = _theirs(connection, document_id, access)
    if not DocumentStatus(row["status"]).is_final:
        raise BadRequest(f"{row['name']} is still being read", "Try again when it has been read")
    return row


def _moved(connection: Connection, document_id: str, collection: str, access: Access) -> Document:
    row = _settled(connection, document_id, access)
    there = (documents.c.collection == collection) & (documents.c.id != document_id)
    same = (documents.c.sha256 == row["sha256"]) | (documents.c.name == row["name"])
    if taken := _first(connection, select(documents.c.name).where(there, same)):
        raise BadRequest(
            f"The collection {collection} already holds {taken['name']}", "Delete the one of the two you do not need"
        )
    return _published_anew(connection, row, {"collection": collection, "version": 1})


def _renamed(connection: Connection, document_id: str, former: str, name: str, access: Access) -> Document | None:
    """With ``name`` in the place of ``former`` at the beginning of its own; None where that changes nothing."""
    row = _theirs(connection, document_id, access)
    wanted = name + row["name"].removeprefix(former) if row["name"].startswith(former) else row["name"]
    if wanted == row["name"]:
        return None
    row = _settled(connection, document_id, access)
    same = (documents.c.collection == row["collection"]) & (documents.c.name == wanted)
    if _first(connection, select(documents.c.id).where(same)):
        raise BadRequest(f"The collection {row['collection']} already holds {wanted}", "Choose another name")
    return _published_anew(connection, row, {"name": wanted, "search_name": folded(wanted), "version": 1})


def _published_anew(connection: Connection, row: Row, values: Mapping[str, Any] | None = None) -> Document:
    """Write ``values`` and let the worker publish the pages that are there once more: it reads none of them again."""
    changes = dict(values or {})
    if row["pages_done"] or not DocumentStatus(row["status"]).is_final:
        anew_job(connection, row["id"])
    if row["pages_done"]:
        changes |= {"status": DocumentStatus.QUEUED.value}
    if changes:
        connection.execute(update(documents).where(documents.c.id == row["id"]).values(changes))
    return document_of({**row, **changes})


def _corrections(connection: Connection, document_id: str, numbers: Sequence[int] | None = None) -> list[Correction]:
    """Of these pages, or all."""
    wanted = select(corrections).where(corrections.c.document_id == document_id)
    if numbers is not None:
        wanted = wanted.where(corrections.c.page.in_(numbers))
    return [correction_of(row) for row in _rows(connection, wanted.order_by(corrections.c.page, corrections.c.id))]


def _highest_version(connection: Connection, collection: str, name: str) -> int:
    named = (documents.c.collection == collection) & (documents.c.name == name)
    return connection.execute(select(func.max(documents.c.version)).where(named)).scalar() or 0


def _is_used(connection: Connection, blob: str) -> bool:
    """Whether a document stands on the blob, or a picture in a chat (its object key ends in the blob's)."""
    document = select(documents.c.id).where(documents.c.blob == blob).limit(1)
    picture = (
        select(elements.c.id).where(elements.c.type == "image", elements.c.objectKey.endswith(f"/{blob}")).limit(1)
    )
    return _first(connection, document) is not None or _first(connection, picture) is not None
