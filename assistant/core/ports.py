"""What the paths need from the outside, in interfaces of a few methods each.

Stores and the embedder are synchronous and thread-safe: async callers go through
``asyncio.to_thread``. What waits on a network model is async.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from assistant.core.domain import (
    Access,
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
    Reading,
    Tally,
    TimeSpan,
    Urgency,
    Usage,
    UsageTotal,
    WorkerSign,
)

if TYPE_CHECKING:
    from PIL.Image import Image


class BlobStore(Protocol):
    """Bytes by content: the same bytes are kept once. Keys are SHA-256 hex digests."""

    def put(self, data: bytes | BinaryIO) -> str:
        """Store and return the key. DiskFull when there is no room; never half a blob."""
        ...

    def path(self, key: str) -> Path:
        """A local file with the blob's bytes. NotFound."""
        ...

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Forget the blob; deleting what is not there is no error."""
        ...


class Embedder(Protocol):
    """Text to unit vectors. A query and a passage are embedded differently."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_query(self, text: str) -> list[float]: ...

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]: ...

    def count_tokens(self, text: str) -> int:
        """Length of ``text`` for this model; chunks are sized by it."""
        ...


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for, and in which collections it may be found."""

    text: str
    vector: Sequence[float] | None
    access: Access
    limit: int = 12
    document_ids: frozenset[str] = field(default_factory=frozenset[str])  # empty: all


class ChunkIndex(Protocol):
    """Hybrid search over chunks (dense + BM25, fused by RRF). One schema, Edge or a server behind it."""

    def upsert(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]] | None) -> None:
        """Write chunks with their BM25 vector; dense vectors may follow later (None). A chunk that is
        stored just like this keeps what it has, its dense vector included."""
        ...

    def add_vectors(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]) -> None:
        """Give chunks the dense vectors they waited for. One that was changed or deleted since it was
        read is left alone, so that a late vector never brings back old text."""
        ...

    def search(self, query: SearchQuery) -> list[Hit]:
        """Best first, only from collections that ``query.access`` allows."""
        ...

    def neighbours(self, chunk: Chunk, access: Access, reach: int = 1) -> list[Chunk]:
        """The chunks just before and after in the document, in order, without ``chunk`` itself."""
        ...

    def unembedded(self, limit: int) -> list[Chunk]:
        """Chunks that wait for their dense vector, oldest document first."""
        ...

    def delete(self, document_id: str, keep: frozenset[str] | None = None) -> None:
        """Remove the document's chunks, but for the ids in ``keep``."""
        ...

    def move(self, document_id: str, source: str, target: str) -> None:
        """Let the document's chunks be found in the collection ``target`` and not in ``source`` any more; their
        vectors stay. May be repeated."""
        ...

    def rename(self, document_id: str, name: str, pages: int) -> None:
        """Let the document's chunks, of its pages 1 to ``pages``, carry its new name; their vectors stay. May be
        repeated."""
        ...

    def count(self, document_id: str, *, embedded: bool = False) -> int:
        """How many chunks the document has; with ``embedded`` only those that have their dense vector."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message; ``images`` are PNG, JPEG or WebP files' bytes, shown to a VLM before the text. ``prompt`` is
    the ``label`` of the prompt it was rendered from."""

    role: str  # "system", "user", "assistant"
    text: str
    images: tuple[bytes, ...] = ()
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished model reply. ``truncated``: it stopped at the token limit. ``confidence``: the mean
    probability of its tokens in [0, 1], None where the endpoint tells none."""

    text: str
    usage: Usage
    truncated: bool = False
    confidence: float | None = None


class ChatModel(Protocol):
    """Any OpenAI-compatible endpoint. Both raise EndpointDown / EndpointBusy after their retries."""

    @property
    def model(self) -> str: ...

    def stream(self, messages: Sequence[Message], *, purpose: str) -> AsyncIterator[str | Completion]:
        """Pieces of text as they come, then one Completion with the whole."""
        ...

    async def complete(self, messages: Sequence[Message], *, purpose: str) -> Completion: ...

    async def aclose(self) -> None:
        """Close the connections; whoever was given the model to own it does so."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Something said in a recording; ``confidence`` in [0, 1], None where the endpoint tells none."""

    time: TimeSpan
    text: str
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that is said in a recording, in order. ``seconds`` is how long writing it down took."""

    segments: tuple[Segment, ...]
    model: str
    seconds: float = 0.0


class Transcriber(Protocol):
    """Writes down what is said in a recording."""

    async def transcribe(self, path: Path, media_type: str) -> Transcript:
        """EndpointDown, EndpointBusy after retries; TooLarge, BadRequest, Misconfigured."""
        ...

    async def aclose(self) -> None: ...


class ImageReader(Protocol):
    """OCR or a VLM: what stands on a picture."""

    async def read(self, image: Image, regions: Sequence[Box] = ()) -> Reading:
        """Read ``image``, or only ``regions`` of it; boxes come back in fractions of the whole
        (upright) image. WorkerDied, EndpointDown, EndpointBusy."""
        ...

    async def aclose(self) -> None: ...


class Order(StrEnum):
    """What a list of documents can be sorted by."""

    CREATED = "created"
    NAME = "name"
    COLLECTION = "collection"
    STATUS = "status"
    VERSION = "version"
    PAGES = "pages"
    CONFIDENCE = "confidence"
    SIZE = "size"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents are wanted; all conditions hold together. One collection: ``Access.narrowed``."""

    statuses: frozenset[DocumentStatus] = frozenset()  # empty: any
    name: str = ""  # a part of it, without regard to case and accents
    ids: frozenset[str] | None = None
    with_parts: bool = False  # also what was found in the documents of these ids, in their parts, and so on
    id_begins: str = ""
    sha256: str = ""
    limit: int | None = None
    offset: int = 0
    order: Order = Order.CREATED
    ascending: bool = False


EVERY_DOCUMENT = DocumentQuery()


class Catalogue(Protocol):
    """Documents, pages, readings and usage. Every read takes an Access and hides what it forbids
    behind NotFound, so that nobody learns what exists."""

    def document(self, document_id: str, access: Access) -> Document: ...

    def documents(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> list[Document]:
        """In the order asked for: newest first, where none is."""
        ...

    def tally(self, access: Access, query: DocumentQuery = EVERY_DOCUMENT) -> Tally:
        """What all documents wanted come to; limit and offset do not count."""
        ...

    def confidences(self, document_ids: Sequence[str], access: Access) -> Mapping[str, float]:
        """The mean confidence of the pages that say something, by document; left out where none does."""
        ...

    def collections(self, access: Access) -> list[Collection]:
        """Those that hold a document, in alphabetical order."""
        ...

    def blob(self, document_id: str, access: Access) -> str:
        """The blob key of the document's source file."""
        ...

    def update_document(self, document: Document) -> None:
        """Write name, status, pages, media type, seconds and error. The counters are not taken from a
        document that may be old by now: they belong to ``put_page`` and ``count_chunks``. NotFound."""
        ...

    def count_chunks(self, document_id: str, chunks: int, embedded: int) -> None:
        """Set how many chunks a document has and how many of them have their dense vector. NotFound."""
        ...

    def put_page(self, document_id: str, page: PageReading) -> None: ...

    def page(self, document_id: str, number: int, access: Access) -> PageReading: ...

    def pages(self, document_id: str, access: Access) -> Iterator[PageReading]: ...

    def page_endings(self, document_id: str, access: Access) -> list[PageEnding]:
        """How each page read so far ended, in order. NotFound."""
        ...

    def corrections(self, document_id: str, access: Access) -> list[Correction]:
        """What people said about its blocks, by page and in the order it was said. NotFound."""
        ...

    def delete_document(self, document_id: str, access: Access) -> Iterable[str] | None:
        """Remove rows; returns the blob keys that no other document uses. None while parts of it alone are there."""
        ...

    def release_blob(self, key: str, forget: Callable[[str], None]) -> bool:
        """Call ``forget(key)`` if no document and no chat picture stands on the blob; whether it was called."""
        ...

    def record(self, usage: Usage, /) -> None: ...

    def usage_totals(self, access: Access, since: datetime | None = None) -> list[UsageTotal]:
        """The ledger by purpose, model and collection, dearest first; ``since`` has a time zone."""
        ...


@dataclass(frozen=True, slots=True)
class Upload:
    """A file someone hands over. ``path`` is local and stays until the submission returns."""

    path: Path
    name: str
    collection: str = "default"
    password: str = ""
    parent: str | None = None  # the document it was found in
    urgency: Urgency = Urgency.PROGRAM


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of an upload: its document, and whether the same bytes were there already."""

    document: Document
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """A document while it is being read; ``page`` is the page that just ended, if one did."""

    document: Document
    page: PageReading | None = None


class Ingestion(Protocol):
    """The write path as the read path's interfaces see it."""

    async def submit(self, upload: Upload, access: Access) -> Submission:
        """Accept a file: it is stored and queued when this returns, and survives a crash.
        BadInput when it can be seen at once that it cannot be read; DiskFull; AccessDenied."""
        ...

    def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        """What happens to a document, from now until its end (the last one is final)."""
        ...

    async def reread(self, document_id: str, access: Access) -> Document: ...

    async def move(self, document_id: str, collection: str, access: Access) -> Document:
        """Put a document into another collection, with all its chunks and what was found in it alone. AccessDenied;
        BadRequest while it is being read, or where the collection holds the same file or one of that name."""
        ...

    async def rename(self, document_id: str, name: str, access: Access) -> Document:
        """Give a document another name, with all its chunks and what was found in it alone; no page is read again.
        NotFound; BadRequest while it is being read, or where its collection holds one of that name."""
        ...

    async def correct(self, document_id: str, correction: Correction, access: Access) -> Document:
        """Let a block say what a person says it says, or mark it as misread (no text): then the page is read again
        where there is a better reader for it. The whole is published anew. The correction of the same place
        before it is replaced. NotFound."""
        ...

    async def withdraw_correction(self, document_id: str, correction_id: int, access: Access) -> Document:
        """Let the reader's text stand again. NotFound."""
        ...

    async def delete(self, document_id: str, access: Access) -> None:
        """Remove points, rows and blobs, and verify that none is left."""
        ...

    async def read_image(self, image: Image) -> Reading:
        """Read a picture without keeping it (for pictures in the chat when no VLM is there)."""
        ...


@dataclass(frozen=True, slots=True)
class QueueView:
    """The queue as somebody may see it; ``workers`` are all that showed themselves, alive or not."""

    paused: bool
    jobs: tuple[Job, ...]
    workers: tuple[WorkerSign, ...]


class Queue(Protocol):
    """The queue of documents to be read, as people see and steer it."""

    async def jobs(self, access: Access, states: Sequence[JobState] = (), limit: int | None = None) -> QueueView:
        """In the order of their turn; of the states named, else of all."""
        ...

    async def job(self, document_id: str, access: Access) -> Job:
        """NotFound."""
        ...

    async def retry(self, document_id: str, access: Access) -> Job:
        """Read on where it failed, was cancelled or left pages out. NotFound."""
        ...

    async def cancel(self, document_id: str, access: Access) -> Job:
        """Stop reading it, in the middle of a page; what was read stays. NotFound."""
        ...

    async def pause(self, access: Access) -> None:
        """Nobody begins a page any more, in any process, until ``resume``. AccessDenied but for who may see all."""
        ...

    async def resume(self, access: Access) -> None:
        """AccessDenied but for who may see all."""
        ...


class PageImages(Protocol):
    """Page images for citations."""

    def page_image(self, document_id: str, number: int, access: Access, boxes: Sequence[Box] = ()) -> bytes:
        """The upright page as a JPEG with ``boxes`` drawn on it. NotFound."""
        ...
