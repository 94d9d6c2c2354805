"""Which documents a ``DocumentQuery`` wants, and in which order, as SQL over the table ``documents``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, func, select

from assistant.core.domain import PageStatus
from assistant.core.enclosures import with_parts
from assistant.core.ports import DocumentQuery, Order
from assistant.core.records import folded
from assistant.core.tables import documents, pages


def conditions(query: DocumentQuery) -> Iterator[ColumnElement[bool]]:
    if query.statuses:
        yield documents.c.status.in_([status.value for status in query.statuses])
    if query.name:
        yield documents.c.search_name.contains(folded(query.name), autoescape=True)
    if query.ids is not None:
        # All in one: PostgreSQL would go through a sum of two conditions for every document there is.
        yield documents.c.id.in_(with_parts(query.ids) if query.with_parts else query.ids)
    if query.id_begins:
        yield documents.c.id.startswith(query.id_begins, autoescape=True)
    if query.sha256:
        yield documents.c.sha256 == query.sha256


def ordering(query: DocumentQuery) -> Iterator[ColumnElement[Any]]:
    first = _sorted_by(query.order)
    yield first.asc().nulls_last() if query.ascending else first.desc().nulls_last()
    yield documents.c.created.desc()
    yield documents.c.id


def confidence() -> ColumnElement[Any]:
    """Of a document's pages that say something, on average; answered from an index alone."""
    telling = (PageStatus.READ.value, PageStatus.LOW_CONFIDENCE.value)
    mean = select(func.avg(pages.c.confidence))
    return mean.where(pages.c.document_id == documents.c.id, pages.c.status.in_(telling)).scalar_subquery()


def _sorted_by(order: Order) -> ColumnElement[Any]:
    if order is Order.CONFIDENCE:
        return confidence()
    return documents.c["search_name" if order is Order.NAME else order.value]
