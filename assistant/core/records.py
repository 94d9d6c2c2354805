"""Kernel types as rows of the catalogue and back.

Text columns take no NUL and no half surrogates (PostgreSQL and SQLite refuse them); in JSON both survive.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter

from assistant.core.domain import (
    Block,
    Box,
    Correction,
    Document,
    DocumentStatus,
    PageReading,
    PageStatus,
    Reader,
    Reading,
    Receipt,
    Usage,
)
from assistant.core.errors import NotFound

Row = Mapping[str, Any]

_BLOCK_FIELDS = tuple(field.name for field in fields(Block))
_BLOCKS = TypeAdapter(tuple[Block, ...])
_RECEIPT = TypeAdapter(Receipt)


def plain_text(text: str) -> str:
    """``text`` as a text column can hold it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def no_document(document_id: str) -> NotFound:
    """The same for what is not there and for what somebody may not see."""
    return NotFound(
        f"There is no document {plain_text(document_id)[:80]}", "See the list of documents for what there is"
    )


def folded(name: str) -> str:
    """A name as it is searched: "Ñandú.PDF" and "nandu.pdf" are found by each other."""
    letters = unicodedata.normalize("NFKD", plain_text(name))
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()


def document_row(document: Document, blob: str) -> dict[str, Any]:
    return {
        "id": document.id,
        "collection": plain_text(document.collection),
        "sha256": document.sha256,
        "blob": blob,
        "version": document.version,
        "pages_done": document.pages_done,
        "pages_failed": document.pages_failed,
        "readers": dict(document.readers),
        "chunks": document.chunks,
        "chunks_embedded": document.chunks_embedded,
        "size": document.size,
        "owner": plain_text(document.owner),
        "created": _utc(document.created or datetime.now(UTC)),
        "parent": document.parent,
        **document_changes(document),
    }


def document_changes(document: Document) -> dict[str, Any]:
    """What ``update_document`` writes: all that is neither identity nor a counter."""
    return {
        "name": plain_text(document.name),
        "search_name": folded(document.name),
        "status": document.status.value,
        "pages": document.pages,
        "media_type": plain_text(document.media_type),
        "seconds": document.seconds,
        "error": plain_text(document.error),
    }


def document_of(row: Row) -> Document:
    return Document(
        id=row["id"],
        name=row["name"],
        sha256=row["sha256"],
        collection=row["collection"],
        status=DocumentStatus(row["status"]),
        pages=row["pages"],
        pages_done=row["pages_done"],
        pages_failed=row["pages_failed"],
        readers=row["readers"],
        chunks=row["chunks"],
        chunks_embedded=row["chunks_embedded"],
        version=row["version"],
        size=row["size"],
        media_type=row["media_type"],
        seconds=row["seconds"],
        error=row["error"],
        owner=row["owner"],
        created=_utc(row["created"]),
        parent=row["parent"],
    )


def page_row(document_id: str, page: PageReading) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "number": page.number,
        "reader": page.reader.value,
        "status": page.status.value,
        "stale": False,
        "confidence": float(page.confidence),
        "seconds": float(page.seconds),
        "error": plain_text(page.error),
        "turned": page.turned,
        "width": float(page.width),
        "height": float(page.height),
        "blocks": _blocks_json(page.blocks),
        "receipt": _receipt_json(page.receipt),
    }


def page_of(row: Row, reading_rows: Sequence[Row]) -> PageReading:
    blocks = _blocks_of(row["blocks"])
    return PageReading(
        number=row["number"],
        reader=Reader(row["reader"]),
        status=PageStatus(row["status"]),
        confidence=row["confidence"],
        blocks=blocks,
        receipt=_RECEIPT.validate_python(row["receipt"]),
        seconds=row["seconds"],
        error=row["error"],
        turned=row["turned"],
        width=row["width"],
        height=row["height"],
        readings=tuple(_reading_of(reading, blocks) for reading in reading_rows),
    )


def correction_row(document_id: str, correction: Correction) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "page": correction.page,
        "bbox": list(correction.bbox),
        "text": None if correction.text is None else plain_text(correction.text),
        "original": plain_text(correction.original),
        "by": plain_text(correction.by),
        "at": _utc(correction.at or datetime.now(UTC)),
    }


def correction_of(row: Row) -> Correction:
    return Correction(
        page=row["page"],
        bbox=Box(*row["bbox"]),
        text=row["text"],
        original=row["original"],
        by=row["by"],
        at=_utc(row["at"]),
        id=row["id"],
    )


def recounted(counts: Row, former: Row | None, page: PageReading) -> dict[str, Any]:
    """The document's counters with ``page`` in and the page it replaces out: no look at the other pages."""
    readers: dict[str, int] = dict(counts["readers"])
    done, failed = counts["pages_done"] + 1, counts["pages_failed"] + (page.status is PageStatus.FAILED)
    if former is not None:
        done, failed = done - 1, failed - (former["status"] == PageStatus.FAILED)
        readers[former["reader"]] = readers.get(former["reader"], 0) - 1
    readers[page.reader.value] = readers.get(page.reader.value, 0) + 1
    return {
        "pages_done": done,
        "pages_failed": failed,
        "readers": {reader: count for reader, count in readers.items() if count > 0},
    }


def reading_rows(document_id: str, page: PageReading) -> list[dict[str, Any]]:
    """All readings of a page; the one that is published as it is leaves its blocks to the page."""
    rows: list[dict[str, Any]] = []
    published = next((i for i, reading in enumerate(page.readings) if reading.blocks == page.blocks), None)
    for ordinal, reading in enumerate(page.readings):
        rows.append(
            {
                "document_id": document_id,
                "number": page.number,
                "ordinal": ordinal,
                "reader": reading.reader.value,
                "published": ordinal == published,
                "confidence": float(reading.confidence),
                "seconds": float(reading.seconds),
                "turned": reading.turned,
                "text_tokens": reading.text_tokens,
                "visual_tokens": reading.visual_tokens,
                "features": _finite(reading.features),
                "note": plain_text(reading.note),
                "blocks": [] if ordinal == published else _blocks_json(reading.blocks),
            }
        )
    return rows


def usage_row(usage: Usage, at: datetime) -> dict[str, Any]:
    return {
        "at": _utc(at),
        "purpose": usage.purpose,
        "model": plain_text(usage.model),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "visual_tokens": usage.visual_tokens,
        "estimated": usage.estimated,
        "seconds": usage.seconds,
        "price": usage.price,
        "user": plain_text(usage.user),
        "collection": plain_text(usage.collection),
        "document_id": usage.document_id,
    }


def _reading_of(row: Row, published_blocks: tuple[Block, ...]) -> Reading:
    return Reading(
        reader=Reader(row["reader"]),
        blocks=published_blocks if row["published"] else _blocks_of(row["blocks"]),
        confidence=row["confidence"],
        seconds=row["seconds"],
        turned=row["turned"],
        text_tokens=row["text_tokens"],
        visual_tokens=row["visual_tokens"],
        features=row["features"],
        note=row["note"],
    )


def _blocks_json(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    return [{name: getattr(block, name) for name in _BLOCK_FIELDS} for block in blocks]


def _blocks_of(value: object) -> tuple[Block, ...]:
    return _BLOCKS.validate_python(value)


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    return asdict(receipt) | {"features": _finite(receipt.features), "seconds": _finite(receipt.seconds)}


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    """JSON knows neither NaN nor infinity, nor a library's own kinds of number."""
    return {str(name): float(value) for name, value in numbers.items() if math.isfinite(value)}


def _utc(moment: datetime) -> datetime:
    """SQLite keeps no time zone: what it holds is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
