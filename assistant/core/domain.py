"""The words of Perito as types, in the order a document meets them.

All are frozen and know no engine. Boxes are fractions of the page as it is shown (upright, origin at
the top left), confidences lie in [0, 1], durations are seconds, page numbers start at 1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import NamedTuple

from assistant.core.errors import AccessDenied, BadRequest

COLLECTION_CHARACTERS = 100


class Reader(StrEnum):
    """What turned pixels or bytes into text. MIXED and NONE describe whole pages only."""

    TEXT = "text"
    OCR = "ocr"
    VLM = "vlm"
    SPEECH = "speech"  # what is said in a recording, written down by a transcription endpoint
    MIXED = "mixed"
    NONE = "none"


class PageStatus(StrEnum):
    """How a page ended. There is no other ending: a page is never silently missing."""

    READ = "read"
    LOW_CONFIDENCE = "low_confidence"
    BLANK = "blank"
    FAILED = "failed"


class DocumentStatus(StrEnum):
    """COMPLETE means that every page ended READ, LOW_CONFIDENCE or BLANK."""

    QUEUED = "queued"
    READING = "reading"
    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (DocumentStatus.COMPLETE, DocumentStatus.PARTIAL, DocumentStatus.FAILED)


class Urgency(IntEnum):
    """Who waits for a document to be read; the smaller goes first."""

    PERSON = 0  # somebody looks at the screen
    PROGRAM = 1
    BULK = 2  # many files at once


class JobState(StrEnum):
    """Where a document stands in the queue. FAILED and CANCELLED ones are read on when somebody asks for it."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BlockKind(StrEnum):
    """What a piece of a page is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    FIGURE = "figure"
    CAPTION = "caption"
    EQUATION = "equation"
    HANDWRITING = "handwriting"
    STAMP = "stamp"
    HEADER = "header"
    FOOTER = "footer"


class Box(NamedTuple):
    """A rectangle in fractions of the page: 0 <= x0 <= x1 <= 1 and 0 <= y0 <= y1 <= 1.

    Build it with ``Box.of``, which clamps rounding errors and rejects what is no rectangle.
    """

    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def of(cls, x0: float, y0: float, x1: float, y1: float) -> Box:
        """A box with its sides clamped to the page. ValueError when NaN."""
        if any(side != side for side in (x0, y0, x1, y1)):  # NaN is the one number unequal to itself
            raise ValueError(f"not a box: {(x0, y0, x1, y1)}")
        sides = [min(1.0, max(0.0, float(side))) for side in (x0, y0, x1, y1)]
        left, right = sorted((sides[0], sides[2]))
        top, bottom = sorted((sides[1], sides[3]))
        return cls(round(left, 5), round(top, 5), round(right, 5), round(bottom, 5))

    @classmethod
    def around(cls, boxes: Iterable[Box]) -> Box:
        """The smallest box that holds all of ``boxes`` (at least one)."""
        x0, y0, x1, y1 = zip(*boxes, strict=True)
        return cls(min(x0), min(y0), max(x1), max(y1))

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        return self.width * self.height

    def overlap(self, other: Box) -> float:
        """The area common to both."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return max(0.0, width) * max(0.0, height)

    def share_inside(self, other: Box) -> float:
        """How much of this box lies in ``other``, in [0, 1]; 0 for a box without area."""
        return self.overlap(other) / self.area if self.area else 0.0


WHOLE_PAGE = Box(0.0, 0.0, 1.0, 1.0)


class TimeSpan(NamedTuple):
    """A stretch of a recording, in seconds from its beginning."""

    start: float
    end: float

    @classmethod
    def around(cls, spans: Iterable[TimeSpan]) -> TimeSpan:
        """The shortest stretch that holds all of ``spans`` (at least one)."""
        starts, ends = zip(*spans, strict=True)
        return cls(min(starts), max(ends))

    def __str__(self) -> str:
        """As people write it: "12:03–12:41", with hours where there are any."""
        return f"{clock(self.start)}–{clock(self.end)}"


def clock(seconds: float) -> str:
    """A moment of a recording: "0:07", "12:03", "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(frozen=True, slots=True)
class Word:
    """A word or line of text with its place, as a file or an OCR gives it."""

    text: str
    bbox: Box
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page in reading order.

    ``text`` is Markdown (a table's as a pipe table); ``html`` is set for tables only; ``level`` is
    1 to 6 for headings and 0 otherwise; ``time`` is when it is said, in recordings only.
    """

    kind: BlockKind
    text: str
    bbox: Box
    confidence: float
    reader: Reader
    html: str | None = None
    level: int = 0
    corrected_by: str = ""  # the person whose text stands here instead of the reader's
    time: TimeSpan | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence outside [0, 1]: {self.confidence}")
        if self.html is not None and self.kind is not BlockKind.TABLE:
            raise ValueError("only tables carry HTML")


@dataclass(frozen=True, slots=True)
class Decision:
    """One comparison that sent a page or region to a reader, exactly as it was made."""

    question: str  # what was asked, e.g. "text layer sound?"
    score: float
    threshold: float
    outcome: str  # what followed, e.g. "ocr"
    reason: str  # one plain sentence for people
    region: Box | None = None  # None: the whole page


@dataclass(frozen=True, slots=True)
class Receipt:
    """Why a page took its route and what that cost."""

    reason: str  # one plain sentence: the deciding one
    decisions: tuple[Decision, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict[str, float])
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])  # by reader
    visual_tokens: int = 0
    wants_vlm: bool = False  # a better reader is wanted but none was there (the backlog)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader made of one page or region. All readings are kept; one is published."""

    reader: Reader
    blocks: tuple[Block, ...]
    confidence: float
    seconds: float
    turned: int = 0  # degrees clockwise the page was turned to stand upright: 0, 90, 180, 270
    text_tokens: int = 0
    visual_tokens: int = 0
    features: Mapping[str, float] = field(default_factory=dict[str, float])
    note: str = ""  # e.g. why a VLM's reading was set aside

    def __post_init__(self) -> None:
        if self.turned not in (0, 90, 180, 270):
            raise ValueError(f"a page is turned by quarters, not by {self.turned} degrees")


@dataclass(frozen=True, slots=True)
class PageReading:
    """A page as published: its blocks in reading order, how it ended, and its receipt."""

    number: int
    reader: Reader
    status: PageStatus
    confidence: float
    blocks: tuple[Block, ...]
    receipt: Receipt
    seconds: float
    error: str = ""
    turned: int = 0
    width: float = 0.0  # of the upright page, in points (pixels for pictures)
    height: float = 0.0
    readings: tuple[Reading, ...] = ()

    @property
    def text(self) -> str:
        return "\n\n".join(block.text for block in self.blocks if block.text)


@dataclass(frozen=True, slots=True)
class PageEnding:
    """How a page ended, without what it says."""

    number: int
    reader: Reader
    status: PageStatus
    confidence: float


@dataclass(frozen=True, slots=True)
class Document:
    """One version of one source file in one collection."""

    id: str
    name: str
    sha256: str
    collection: str
    status: DocumentStatus
    pages: int = 0  # of the file; 0 until it was opened
    pages_done: int = 0  # ended in any way
    pages_failed: int = 0
    readers: Mapping[str, int] = field(default_factory=dict[str, int])  # pages by "text", "ocr", "vlm", …
    chunks: int = 0
    chunks_embedded: int = 0
    version: int = 1
    size: int = 0  # bytes
    media_type: str = ""
    seconds: float = 0.0
    error: str = ""
    owner: str = ""
    created: datetime | None = None
    parent: str | None = None  # the document it was found in (a mail, an archive), unless it was handed in by itself

    @property
    def has_looks(self) -> bool:
        """Whether its pages look as their author or a camera made them; others are drawn by us."""
        return self.media_type == "application/pdf" or self.media_type.startswith("image/")


@dataclass(frozen=True, slots=True)
class Correction:
    """A person's word on a misread block. It belongs to a document, so it outlives each reading of the same bytes."""

    page: int
    bbox: Box  # of the block when it was corrected
    text: str | None  # what stands there (Markdown); None: only marked as misread
    original: str = ""  # what the reader had read
    by: str = ""
    at: datetime | None = None
    id: int = 0  # given by the catalogue


@dataclass(frozen=True, slots=True)
class Job:
    """A document's place in the queue. ``reason`` is why it waits or how it ended, "" where nothing is wrong."""

    document: Document
    state: JobState
    urgency: Urgency
    worker: str = ""  # the id of the worker that reads it
    attempts: int = 0  # tries put off since it last got a page further
    reason: str = ""
    next_try: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkerSign:
    """A process that reads, as it last showed itself. ``silent`` is seconds since then."""

    id: str
    host: str
    pid: int
    silent: float
    running: int  # documents it reads


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a passage stands; made when the page is read and carried unchanged to the citation. Of a recording,
    ``times`` says when each of the ``boxes`` is said."""

    document_id: str
    page: int
    boxes: tuple[Box, ...]
    headings: tuple[str, ...] = ()
    times: tuple[TimeSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of retrieval. ``id`` is deterministic: same document, page and ordinal, same id."""

    id: str
    document_id: str
    document: str  # the document's name
    collection: str
    page: int
    ordinal: int  # within the page, from 0
    text: str
    anchors: tuple[Anchor, ...]
    reader: Reader
    confidence: float
    kind: BlockKind = BlockKind.PARAGRAPH
    corrected_by: tuple[str, ...] = ()  # the people whose text stands in it instead of the reader's

    @property
    def headings(self) -> tuple[str, ...]:
        return self.anchors[0].headings if self.anchors else ()

    @property
    def time(self) -> TimeSpan | None:
        """When it is said, in a recording."""
        times = [time for anchor in self.anchors for time in anchor.times]
        return TimeSpan.around(times) if times else None

    @property
    def searchable_text(self) -> str:
        """What is embedded and indexed: the heading path, then the text."""
        path = " > ".join(self.headings)
        return f"{path}\n{self.text}" if path else self.text


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk. ``score`` orders hits; ``dense`` is the cosine similarity to the question
    (None while the chunk waits for its vector); ``sparse`` its BM25 score (None where no word is shared)."""

    chunk: Chunk
    score: float
    dense: float | None = None
    sparse: float | None = None


class Verdict(StrEnum):
    """What became of a sentence when it was held against its sources."""

    QUOTED = "quoted"  # stands verbatim in the source
    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    UNCITED = "uncited"


@dataclass(frozen=True, slots=True)
class Citation:
    """A checked pointer from sentences to a passage; of a recording, with the ``time`` in which it is said."""

    number: int
    document: str
    document_id: str
    page: int
    boxes: tuple[Box, ...]
    reader: Reader
    confidence: float
    text: str
    time: TimeSpan | None = None
    corrected_by: tuple[str, ...] = ()  # as its chunk has it


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer with the numbers of its citations."""

    text: str
    citations: tuple[int, ...] = ()
    verdict: Verdict = Verdict.UNCITED


@dataclass(frozen=True, slots=True)
class Usage:
    """One ledger line. ``visual_tokens`` are part of ``prompt_tokens`` where the endpoint counts so."""

    purpose: str  # "answer", "page", "picture", "embedding", "recording"
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    visual_tokens: int = 0
    seconds: float = 0.0
    price: float = 0.0
    user: str = ""
    collection: str = ""
    document_id: str = ""
    estimated: bool = False  # the endpoint reported no usage: the tokens are our own estimate
    prompt: str = ""  # name and hash of the prompt that was sent


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The ledger summed over the calls of one purpose, model and collection."""

    purpose: str
    model: str
    collection: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    visual_tokens: int
    seconds: float
    price: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The text with its citations. ``quoted`` says that no language model wrote it: the sentences are
    quotes. A refused answer may still carry the nearest passages as citations, shown as such."""

    question: str
    text: str
    refused: bool
    sentences: tuple[Sentence, ...]
    citations: tuple[Citation, ...]
    usage: tuple[Usage, ...] = ()
    seconds: float = 0.0
    language: str = "en"  # "en" or "es": of the question
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Collection:
    """A set of documents with the same access rights; ``pages`` of all its documents together."""

    name: str
    documents: int
    pages: int


@dataclass(frozen=True, slots=True)
class Tally:
    """Documents by status, and what they hold together; ``size`` in bytes."""

    documents: Mapping[DocumentStatus, int]
    pages: int = 0
    pages_done: int = 0
    pages_failed: int = 0
    size: int = 0

    @property
    def total(self) -> int:
        return sum(self.documents.values())

    @property
    def unfinished(self) -> int:
        return self.documents.get(DocumentStatus.QUEUED, 0) + self.documents.get(DocumentStatus.READING, 0)


def collection_name(text: str) -> str:
    """The name of a collection as it is kept and compared: composed letters, single blanks, nothing unseen.

    BadRequest for a name without a letter or digit, or of more than 100 characters.
    """
    seen = " ".join(unicodedata.normalize("NFC", text).split())
    name = "".join(filter(str.isprintable, seen)).strip()
    if max(len(text), len(name)) > COLLECTION_CHARACTERS or not any(character.isalnum() for character in name):
        raise BadRequest(
            "The collection's name is too long, or holds no letter and no digit",
            f"Give a name of 1 to {COLLECTION_CHARACTERS} characters",
        )
    return name


@dataclass(frozen=True, slots=True)
class Access:
    """Who asks and which collections they may see: the one filter every read goes through.

    ``collections`` None means all of them; an empty set means none (deny is the default).
    """

    user: str
    collections: frozenset[str] | None = frozenset()

    def allows(self, collection: str) -> bool:
        return self.collections is None or collection in self.collections

    def require(self, collection: str) -> None:
        """AccessDenied where they may not add to ``collection``."""
        if not self.allows(collection):
            raise AccessDenied(f"{self.user} may not add to the collection {collection}")

    def narrowed(self, collection: str | None) -> Access:
        """The same person, looking only into ``collection`` (None: no narrowing). BadRequest for what is no name."""
        if collection is None:
            return self
        collection = collection_name(collection)
        return Access(self.user, frozenset({collection}) if self.allows(collection) else frozenset())
