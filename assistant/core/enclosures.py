"""Documents found in documents (a mail's attachments, an archive's files): who lies in whom.

``documents.parent`` names the file in which a document was found first; ``enclosures`` names every one.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, Select, insert, select, update

from assistant.core.records import Row, no_document
from assistant.core.tables import documents, enclosures


def found_again(connection: Connection, row: Row, parent: str | None) -> Row:
    """A document that is there already, met once more: in ``parent``, or handed in by itself (None)."""
    note_enclosure(connection, parent, row["id"])
    if parent is not None or row["parent"] is None:
        return row
    connection.execute(update(documents).where(documents.c.id == row["id"]).values(parent=None))
    return {**row, "parent": None}


def note_enclosure(connection: Connection, parent: str | None, document_id: str) -> None:
    """Note that a document was found in another; a file that holds itself, or what it lies in, does not count (there
    would be a circle that nothing could be the last of). NotFound when the other is gone."""
    if parent is None:
        return
    within = documents.c.id.in_(with_parts([document_id])) & (documents.c.id == parent)
    if connection.scalar(select(documents.c.id).where(within)) is not None:
        return
    # Nobody removes the other before this transaction ends: who does then finds this in it.
    there = select(documents.c.id).where(documents.c.id == parent).with_for_update(read=True, key_share=True)
    if connection.scalar(there) is None:
        raise no_document(parent)
    link = {"parent_id": parent, "document_id": document_id}
    known = select(enclosures.c.document_id).where(
        enclosures.c.parent_id == parent, enclosures.c.document_id == document_id
    )
    if connection.scalar(known.limit(1)) is None:
        connection.execute(insert(enclosures).values(link))


def above(connection: Connection, document_id: str) -> list[str]:
    """Ids of the documents it lies in, the nearest first."""
    found: list[str] = []
    next_one = connection.scalar(select(documents.c.parent).where(documents.c.id == document_id))
    while next_one is not None and next_one not in (document_id, *found):
        found.append(next_one)
        next_one = connection.scalar(select(documents.c.parent).where(documents.c.id == next_one))
    return found


def with_parts(ids: Collection[str]) -> Select[tuple[str]]:
    """Ids of these documents, of what was found in them, in their parts, and so on."""
    family = select(documents.c.id).where(documents.c.id.in_(ids)).cte("family", recursive=True)
    deeper = select(enclosures.c.document_id).join(family, enclosures.c.parent_id == family.c.id)
    return select(family.union(deeper).c.id)


def is_sole_part(document_id: str) -> ColumnElement[bool]:
    """The condition that a row of ``documents`` lies in this document and in no other."""
    elsewhere = select(enclosures.c.parent_id).where(
        enclosures.c.document_id == documents.c.id, enclosures.c.parent_id != document_id
    )
    return (documents.c.parent == document_id) & ~elsewhere.exists()


def sole_family(connection: Connection, document_id: str) -> list[str]:
    """Ids of its sole parts, of theirs, and so on."""
    found: list[str] = []
    level = [document_id]
    while level:
        inner = [connection.scalars(select(documents.c.id).where(is_sole_part(one))) for one in level]
        level = [one for ids in inner for one in ids if one not in (document_id, *found)]
        found += level
    return found
