"""Fakes that implement the kernel's ports in memory: real behaviour, no vendor, nothing slow.

A newcomer reads them to see what each port promises. Faults (crash, garbage, empty) are made by subclassing
or by scripting them; nothing here checks how it was called.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from PIL.Image import Image

from assistant.core.corrections import corrected
from assistant.core.domain import (
    WHOLE_PAGE,
    Access,
    Anchor,
    Block,
    BlockKind,
    Box,
    Chunk,
    Collection,
    Correction,
    Document,
    DocumentStatus,
    Hit,
    Job,
    JobState,
    PageEnding,
    PageReading,
    PageStatus,
    Reader,
    Reading,
    Receipt,
    Tally,
    Urgency,
    Usage,
    UsageTotal,
    Word,
    collection_name,
)
from assistant.core.errors import AccessDenied, NotFound
from assistant.core.ports import (
    EVERY_DOCUMENT,
    Completion,
    DocumentQuery,
    Message,
    Progress,
    QueueView,
    SearchQuery,
    Submission,
    Upload,
)

EVERYONE = Access("ana", None)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class FakeEmbedder:
    """Bag-of-words vectors: texts are as alike as the words they share. No meaning, but real cosines."""

    model = "fake-words"
    dimension = 256

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        for word in words(text):
            vector[int(hashlib.md5(word[:5].encode(), usedforsecurity=False).hexdigest(), 16) % self.dimension] += 1.0
        length = math.sqrt(sum(value * value for value in vector)) or 1.0
        return [value / length for value in vector]

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def count_tokens(self, text: str) -> int:
        return len(words(text))


@dataclass
class FakeIndex:
    """Hybrid search by cosine and BM25, fused by reciprocal rank (k = 60)."""

    stored: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    vectors: dict[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])

    def upsert(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]] | None) -> None:
        for number, chunk in enumerate(chunks):
            if self.stored.get(chunk.id) != chunk:
                self.vectors.pop(chunk.id, None)
            self.stored[chunk.id] = chunk
            if vectors is not None:
                self.vectors[chunk.id] = vectors[number]

    def add_vectors(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]) -> None:
        for chunk, vector in zip(chunks, vectors, strict=True):
            if self.stored.get(chunk.id) == chunk:
                self.vectors[chunk.id] = vector

    def search(self, query: SearchQuery) -> list[Hit]:
        visible = [
            chunk
            for chunk in self.stored.values()
            if query.access.allows(chunk.collection)
            and (not query.document_ids or chunk.document_id in query.document_ids)
        ]
        sparse = bm25(query.text, {chunk.id: chunk.searchable_text for chunk in visible})
        dense: dict[str, float] = {}
        if query.vector is not None:
            for chunk in visible:
                if vector := self.vectors.get(chunk.id):
                    dense[chunk.id] = sum(a * b for a, b in zip(query.vector, vector, strict=True))
        fused: dict[str, float] = {}
        for scores in (sparse, dense):
            for rank, chunk_id in enumerate(sorted(scores, key=lambda c: -scores[c])):
                fused[chunk_id] = fused.get(chunk_id, 0.0) + 1 / (60 + rank + 1)
        best = sorted(fused, key=lambda c: -fused[c])[: query.limit]
        return [Hit(self.stored[c], fused[c], dense.get(c), sparse.get(c)) for c in best]

    def neighbours(self, chunk: Chunk, access: Access, reach: int = 1) -> list[Chunk]:
        own = sorted(
            (c for c in self.stored.values() if c.document_id == chunk.document_id and access.allows(c.collection)),
            key=lambda c: (c.page, c.ordinal),
        )
        here = next((i for i, c in enumerate(own) if c.id == chunk.id), None)
        if here is None:
            return []
        return own[max(0, here - reach) : here] + own[here + 1 : here + 1 + reach]

    def unembedded(self, limit: int) -> list[Chunk]:
        return [chunk for chunk in self.stored.values() if chunk.id not in self.vectors][:limit]

    def delete(self, document_id: str, keep: frozenset[str] | None = None) -> None:
        for chunk in list(self.stored.values()):
            if chunk.document_id == document_id and chunk.id not in (keep or frozenset()):
                del self.stored[chunk.id]
                self.vectors.pop(chunk.id, None)

    def move(self, document_id: str, source: str, target: str) -> None:
        for chunk in list(self.stored.values()):
            if (chunk.document_id, chunk.collection) == (document_id, source):
                self.stored[chunk.id] = replace(chunk, collection=target)

    def rename(self, document_id: str, name: str, pages: int) -> None:
        for chunk in list(self.stored.values()):
            if chunk.document_id == document_id and chunk.page <= pages:
                self.stored[chunk.id] = replace(chunk, document=name)

    def count(self, document_id: str, *, embedded: bool = False) -> int:
        return sum(
            chunk.document_id == document_id and (not embedded or chunk.id in self.vectors)
            for chunk in self.stored.values()
        )

    def close(self) -> None:
        pass


def bm25(question: str, texts: Mapping[str, str], k1: float = 1.2, b: float = 0.75) -> dict[str, float]:
    """Scores of the texts that share a word with ``question`` (Robertson and Zaragoza, 2009)."""
    bags = {name: Counter(words(text)) for name, text in texts.items()}
    mean = sum(bag.total() for bag in bags.values()) / max(1, len(bags))
    scores: dict[str, float] = {}
    for word in set(words(question)):
        holding = [name for name, bag in bags.items() if word in bag]
        idf = math.log(1 + (len(bags) - len(holding) + 0.5) / (len(holding) + 0.5))
        for name in holding:
            tf = bags[name][word]
            weight = tf * (k1 + 1) / (tf + k1 * (1 - b + b * bags[name].total() / mean))
            scores[name] = scores.get(name, 0.0) + idf * weight
    return scores


Reply = str | Sequence[str] | Exception | Callable[[Sequence[Message]], "str | Exception"]


@dataclass
class FakeChatModel:
    """Answers with scripted replies, in order; the last one repeats. A reply is a text (streamed word by word), the
    pieces of one, an error to raise, or a function of the messages. Records its usage, as the real client does."""

    replies: Sequence[Reply]
    record: Callable[[Usage], None] | None = None
    model: str = "fake-model"
    asked: list[Sequence[Message]] = field(default_factory=list[Sequence[Message]])
    closed: bool = False  # the last stream was closed before its end

    async def stream(self, messages: Sequence[Message], *, purpose: str) -> AsyncIterator[str | Completion]:
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append(messages)
        said = reply(messages) if callable(reply) else reply
        if isinstance(said, Exception):
            raise said
        pieces = re.findall(r"\S+\s*|\s+", said) if isinstance(said, str) else list(said)
        told: list[str] = []
        self.closed = True
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            told.append(piece)
            yield piece
        self.closed = False
        usage = Usage(
            purpose,
            self.model,
            prompt_tokens=sum(len(words(message.text)) for message in messages),
            completion_tokens=len(told),
            visual_tokens=256 * sum(len(message.images) for message in messages),
            prompt=messages[-1].prompt,
        )
        if self.record:
            self.record(usage)
        yield Completion("".join(told), usage)

    async def aclose(self) -> None:
        pass

    async def complete(self, messages: Sequence[Message], *, purpose: str) -> Completion:
        async for piece in self.stream(messages, purpose=purpose):
            if isinstance(piece, Completion):
                return piece
        raise AssertionError("a stream ends with a Completion")


@dataclass
class FakeCatalogue:
    """Documents, pages and usage in dictionaries; what an access forbids is not found."""

    rows: dict[str, Document] = field(default_factory=dict[str, Document])
    blobs: dict[str, str] = field(default_factory=dict[str, str])
    page_rows: dict[str, dict[int, PageReading]] = field(default_factory=dict[str, dict[int, PageReading]])
    ledger: list[Usage] = field(default_factory=list[Usage])
    said: dict[str, list[Correction]] = field(default_factory=dict[str, list[Correction]])

    def claim_document(self, document: Document, blob: str) -> tuple[Document, bool]:
        self.rows[document.id] = document
        self.blobs[document.id] = blob
        self.page_rows[document.id] = {}
        return document, True

    def document(self, document_id: str, access: Access) -> Document:
        document = self.rows.get(document_id)
        if document is None or not access.allows(document.collection):
            raise NotFound(f"There is no document {document_id}")
        return document

    def documents(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> list[Document]:
        found = [
            document
            for document in reversed(self.rows.values())
            if access.allows(document.collection)
            and (not query.statuses or document.status in query.statuses)
            and query.name.casefold() in document.name.casefold()
            and (query.ids is None or document.id in query.ids or (query.with_parts and document.parent in query.ids))
            and document.id.startswith(query.id_begins)
            and query.sha256 in ("", document.sha256)
        ]
        return found[query.offset :][: query.limit]

    def tally(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> Tally:
        found = self.documents(access, replace(query, limit=None, offset=0))
        sums = (sum(getattr(d, name) for d in found) for name in ("pages", "pages_done", "pages_failed", "size"))
        return Tally(Counter(d.status for d in found), *sums)

    def confidences(self, document_ids: Sequence[str], access: Access) -> dict[str, float]:
        telling = {name: [page.confidence for page in self.pages(name, access) if page.blocks] for name in document_ids}
        return {name: sum(sure) / len(sure) for name, sure in telling.items() if sure}

    def collections(self, access: Access) -> list[Collection]:
        seen = sorted(self.documents(access), key=lambda document: document.collection)
        groups = groupby(seen, lambda document: document.collection)
        held = [(name, list(documents)) for name, documents in groups]
        return [Collection(name, len(documents), sum(d.pages for d in documents)) for name, documents in held]

    def blob(self, document_id: str, access: Access) -> str:
        return self.blobs[self.document(document_id, access).id]

    def update_document(self, document: Document) -> None:
        now = self.document(document.id, EVERYONE)
        self.rows[document.id] = replace(
            document,
            pages_done=now.pages_done,
            pages_failed=now.pages_failed,
            readers=now.readers,
            chunks=now.chunks,
            chunks_embedded=now.chunks_embedded,
        )

    def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
        now = self.document(document_id, EVERYONE)
        self.rows[document_id] = replace(now, chunks=chunks, chunks_embedded=embedded)

    def put_page(self, document_id: str, page: PageReading) -> None:
        now = self.document(document_id, EVERYONE)
        pages = self.page_rows[document_id]
        pages[page.number] = page
        self.rows[document_id] = replace(
            now,
            pages_done=len(pages),
            pages_failed=sum(page.status is PageStatus.FAILED for page in pages.values()),
            readers=dict(Counter(str(page.reader) for page in pages.values())),
        )

    def page(self, document_id: str, number: int, access: Access) -> PageReading:
        page = self.page_rows[self.document(document_id, access).id].get(number)
        if page is None:
            raise NotFound(f"Document {document_id} has no page {number}")
        return corrected(page, self.corrections(document_id, access))

    def pages(self, document_id: str, access: Access) -> Iterator[PageReading]:
        pages = self.page_rows[self.document(document_id, access).id]
        return iter([self.page(document_id, number, access) for number in sorted(pages)])

    def page_endings(self, document_id: str, access: Access) -> list[PageEnding]:
        pages = self.pages(document_id, access)
        return [PageEnding(page.number, page.reader, page.status, page.confidence) for page in pages]

    def corrections(self, document_id: str, access: Access) -> list[Correction]:
        return self.said.get(self.document(document_id, access).id, [])

    def delete_document(self, document_id: str, access: Access) -> Iterable[str]:
        self.document(document_id, access)
        blob = self.blobs.pop(document_id)
        del self.rows[document_id], self.page_rows[document_id]
        return [] if blob in self.blobs.values() else [blob]

    def record(self, usage: Usage) -> None:
        self.ledger.append(usage)

    def usage_totals(self, access: Access, since: datetime | None = None) -> list[UsageTotal]:
        """Each line by itself; a line without a collection is seen by whom it was for. Nothing here is old."""
        everything = access.collections is None
        own = [u for u in self.ledger if not u.collection and u.user == access.user]
        seen = [u for u in self.ledger if everything or (u.collection and access.allows(u.collection))]
        seen += [] if everything else own
        return [
            UsageTotal(u.purpose, u.model, u.collection, 1, u.prompt_tokens, u.completion_tokens, u.visual_tokens,
                       u.seconds, u.price)
            for u in seen
        ]  # fmt: skip


@dataclass
class FakeBlobStore:
    """Blobs as files of a folder."""

    folder: Path

    def put(self, data: bytes | BinaryIO) -> str:
        content = data if isinstance(data, bytes) else data.read()
        key = hashlib.sha256(content).hexdigest()
        (self.folder / key).write_bytes(content)
        return key

    def exists(self, key: str) -> bool:
        return (self.folder / key).exists()

    def path(self, key: str) -> Path:
        if not (self.folder / key).exists():
            raise NotFound(f"There is no blob {key}")
        return self.folder / key

    def delete(self, key: str) -> None:
        (self.folder / key).unlink(missing_ok=True)


@dataclass
class FakeIngestion:
    """Reads plain text at once, a page at every form feed, a block at every blank line; ``picture_text`` is what
    any picture says, a block a line."""

    catalogue: FakeCatalogue
    index: FakeIndex
    embedder: FakeEmbedder = field(default_factory=FakeEmbedder)
    picture_text: str = ""

    async def submit(self, upload: Upload, access: Access) -> Submission:
        collection = collection_name(upload.collection)
        access.require(collection)
        content = upload.path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        for document in self.catalogue.documents(access.narrowed(collection), DocumentQuery(sha256=digest)):
            return Submission(document, duplicate=True)
        return Submission(self.add(content.decode(), upload.name, collection, access.user))

    def add(self, text: str, name: str, collection: str = "default", owner: str = "") -> Document:
        """Read ``text`` and publish it; what ``submit`` does with a file."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        document, _ = self.catalogue.claim_document(
            Document(f"{collection}-{digest[:12]}", name, digest, collection, DocumentStatus.READING, owner=owner),
            digest,
        )
        pages = text.split("\f")
        for number, page_text in enumerate(pages, start=1):
            page = page_of(page_text, number)
            self.catalogue.put_page(document.id, page)
            chunks = chunks_of(page, document)
            self.index.upsert(chunks, self.embedder.embed_passages([chunk.searchable_text for chunk in chunks]))
        self.catalogue.update_document(replace(document, status=DocumentStatus.COMPLETE, pages=len(pages)))
        return self.catalogue.document(document.id, EVERYONE)

    async def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        yield Progress(self.catalogue.document(document_id, access))

    async def reread(self, document_id: str, access: Access) -> Document:
        return self.catalogue.document(document_id, access)

    async def move(self, document_id: str, collection: str, access: Access) -> Document:
        before = self.catalogue.document(document_id, access)
        access.require(collection)
        self.catalogue.rows[document_id] = replace(before, collection=collection)
        self.index.move(document_id, before.collection, collection)
        return self.catalogue.rows[document_id]

    async def rename(self, document_id: str, name: str, access: Access) -> Document:
        document = replace(self.catalogue.document(document_id, access), name=name)
        self.catalogue.rows[document_id] = document
        self.index.rename(document_id, name, document.pages)
        return document

    async def correct(self, document_id: str, correction: Correction, access: Access) -> Document:
        said = self.catalogue.said.setdefault(document_id, [])
        said.append(replace(correction, by=access.user, at=datetime.now(UTC), id=len(said) + 1))
        return self._published(document_id, access)

    async def withdraw_correction(self, document_id: str, correction_id: int, access: Access) -> Document:
        kept = [one for one in self.catalogue.corrections(document_id, access) if one.id != correction_id]
        self.catalogue.said[document_id] = kept
        return self._published(document_id, access)

    def _published(self, document_id: str, access: Access) -> Document:
        document = self.catalogue.document(document_id, access)
        for page in self.catalogue.pages(document_id, access):
            chunks = chunks_of(page, document)
            self.index.upsert(chunks, self.embedder.embed_passages([chunk.searchable_text for chunk in chunks]))
        return document

    async def delete(self, document_id: str, access: Access) -> None:
        self.catalogue.delete_document(document_id, access)
        self.index.delete(document_id)

    async def read_image(self, image: Image) -> Reading:
        image.tobytes()  # a picture that cannot be decoded cannot be read
        lines = [line for line in self.picture_text.split("\n") if line]
        blocks = [_block(line, number, len(lines), Reader.OCR, 0.93) for number, line in enumerate(lines)]
        return Reading(Reader.OCR, tuple(blocks), 0.93, 0.1)


def page_of(text: str, number: int = 1) -> PageReading:
    """A page whose blocks are the paragraphs of ``text``, one under the other; "# …" is a heading, "| …" a table."""
    paragraphs = [paragraph.strip("\n") for paragraph in re.split(r"\n[ \t]*\n", text) if paragraph.strip()]
    blocks = tuple(_block(p, i, len(paragraphs), Reader.TEXT, 1.0) for i, p in enumerate(paragraphs))
    status = PageStatus.READ if blocks else PageStatus.BLANK
    return PageReading(number, Reader.TEXT, status, 1.0, blocks, Receipt("plain text"), 0.0, width=595, height=842)


def _block(text: str, place: int, of: int, reader: Reader, confidence: float) -> Block:
    box = Box.of(0.1, place / of, 0.9, (place + 0.9) / of)
    if text.startswith("#"):
        marks = len(text) - len(text.lstrip("#"))
        return Block(BlockKind.HEADING, text.lstrip("# "), box, confidence, reader, level=marks)
    kind = BlockKind.TABLE if text.startswith("|") else BlockKind.PARAGRAPH
    return Block(kind, text, box, confidence, reader)


def chunks_of(page: PageReading, document: Document) -> list[Chunk]:
    """One chunk a block under its headings."""
    chunks: list[Chunk] = []
    path: tuple[str, ...] = ()
    for block in page.blocks:
        if block.kind is BlockKind.HEADING:
            path = (*path[: block.level - 1], block.text)
            continue
        number = len(chunks)
        chunks.append(
            Chunk(
                id=f"{document.id}/{page.number}/{number}",
                document_id=document.id,
                document=document.name,
                collection=document.collection,
                page=page.number,
                ordinal=number,
                text=block.text,
                anchors=(Anchor(document.id, page.number, (block.bbox,), path),),
                reader=page.reader,
                confidence=page.confidence,
                kind=block.kind,
            )
        )
    return chunks


def png(width: int = 64, height: int = 48) -> bytes:
    """A plain picture as a PNG file."""
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height), "white").save(file, "PNG")
    return file.getvalue()


@dataclass
class FakeQueue:
    """A queue in which everything is done at once; it can be paused."""

    catalogue: FakeCatalogue
    paused: bool = False

    async def jobs(self, access: Access, states: Sequence[JobState] = (), limit: int | None = None) -> QueueView:
        found = [self._job(document) for document in self.catalogue.documents(access)]
        return QueueView(self.paused, tuple(job for job in found if not states or job.state in states)[:limit], ())

    async def job(self, document_id: str, access: Access) -> Job:
        return self._job(self.catalogue.document(document_id, access))

    async def retry(self, document_id: str, access: Access) -> Job:
        return await self.job(document_id, access)

    async def cancel(self, document_id: str, access: Access) -> Job:
        return await self.job(document_id, access)

    async def pause(self, access: Access) -> None:
        self._turn(access, paused=True)

    async def resume(self, access: Access) -> None:
        self._turn(access, paused=False)

    def _turn(self, access: Access, *, paused: bool) -> None:
        if access.collections is not None:
            raise AccessDenied(f"{access.user} may not")
        self.paused = paused

    def _job(self, document: Document) -> Job:
        return Job(document, JobState.DONE, Urgency.PROGRAM)


class ScriptedReader:
    """An ImageReader that answers as told and remembers the pictures it was shown."""

    def __init__(self, answer: Reading | Exception) -> None:
        self.answer = answer
        self.shown: list[tuple[tuple[int, int], tuple[Box, ...]]] = []

    async def read(self, image: Image, regions: Sequence[Box] = ()) -> Reading:
        self.shown.append((image.size, tuple(regions)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def structure(self, image: Image, words: Sequence[Word]) -> Reading:
        return await self.read(image)

    async def aclose(self) -> None:
        pass


def vlm_reading(*texts: str, note: str = "") -> Reading:
    blocks = tuple(Block(BlockKind.HANDWRITING, text, WHOLE_PAGE, 0.9, Reader.VLM) for text in texts)
    return Reading(Reader.VLM, blocks, 0.9 if blocks else 0.0, 0.5, visual_tokens=1500, note=note)
