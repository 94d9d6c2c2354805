"""The stable JSON shapes of the command line and the HTTP API, as pydantic models.

Fields may be added, never renamed or removed. Boxes are ``[x0, y0, x1, y1]`` in fractions of the page,
origin top left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from assistant.core.domain import (
    Answer,
    Block,
    Box,
    Citation,
    Decision,
    Document,
    Job,
    PageReading,
    Reader,
    Receipt,
    Sentence,
    TimeSpan,
    Urgency,
    Usage,
    UsageTotal,
    Verdict,
    WorkerSign,
)
from assistant.core.errors import PeritoError
from assistant.core.ports import QueueView

BoxShape = tuple[float, float, float, float]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TimeShape(Shape):
    """A stretch of a recording, in seconds from its beginning, and as people write it ("12:03–12:41")."""

    start: float
    end: float
    text: str

    @classmethod
    def of(cls, time: TimeSpan | None) -> TimeShape | None:
        return None if time is None else cls(start=round(time.start, 3), end=round(time.end, 3), text=str(time))


class BlockShape(Shape):
    kind: str
    text: str
    html: str | None
    bbox: BoxShape
    confidence: float
    reader: str
    level: int
    time: TimeShape | None = None

    @classmethod
    def of(cls, block: Block) -> BlockShape:
        return cls(
            kind=block.kind,
            text=block.text,
            html=block.html,
            bbox=block.bbox,
            confidence=round(block.confidence, 4),
            reader=block.reader,
            level=block.level,
            time=TimeShape.of(block.time),
        )


class DecisionShape(Shape):
    question: str
    score: float
    threshold: float
    outcome: str
    reason: str
    region: BoxShape | None

    @classmethod
    def of(cls, decision: Decision) -> DecisionShape:
        return cls(
            question=decision.question,
            score=decision.score,
            threshold=decision.threshold,
            outcome=decision.outcome,
            reason=decision.reason,
            region=decision.region,
        )


class ReceiptShape(Shape):
    reason: str
    decisions: list[DecisionShape]
    features: dict[str, float]
    seconds: dict[str, float]
    visual_tokens: int
    wants_vlm: bool

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptShape:
        return cls(
            reason=receipt.reason,
            decisions=[DecisionShape.of(decision) for decision in receipt.decisions],
            features={name: round(value, 4) for name, value in receipt.features.items()},
            seconds={name: round(value, 4) for name, value in receipt.seconds.items()},
            visual_tokens=receipt.visual_tokens,
            wants_vlm=receipt.wants_vlm,
        )


class PageShape(Shape):
    number: int
    reader: Literal["text", "ocr", "vlm", "speech", "mixed", "none"]
    status: Literal["read", "low_confidence", "blank", "failed"]
    confidence: float
    text: str
    blocks: list[BlockShape]
    receipt: ReceiptShape
    seconds: float
    error: str | None
    turned: int
    width: float
    height: float

    @classmethod
    def of(cls, page: PageReading) -> PageShape:
        return cls(
            number=page.number,
            reader=page.reader.value,
            status=page.status.value,
            confidence=round(page.confidence, 4),
            text=page.text,
            blocks=[BlockShape.of(block) for block in page.blocks],
            receipt=ReceiptShape.of(page.receipt),
            seconds=round(page.seconds, 4),
            error=page.error or None,
            turned=page.turned,
            width=page.width,
            height=page.height,
        )


class FileShape(Shape):
    name: str
    sha256: str
    pages: int


class ReadShape(Shape):
    """`perito read`."""

    document: FileShape
    pages: list[PageShape]


class DocumentShape(Shape):
    """A document in `perito ingest`, `perito documents` and GET /api/documents."""

    id: str
    name: str
    status: Literal["queued", "reading", "complete", "partial", "failed"]
    pages: int
    pages_done: int
    pages_failed: int
    readers: dict[str, int]
    chunks: int
    chunks_embedded: int
    collection: str
    sha256: str
    version: int
    size: int
    media_type: str
    seconds: float
    error: str | None
    duplicate: bool
    created: datetime | None
    parent: str | None = None

    @classmethod
    def of(cls, document: Document, duplicate: bool = False) -> DocumentShape:
        readers = {"text": 0, "ocr": 0, "vlm": 0} | {str(name): count for name, count in document.readers.items()}
        return cls(
            id=document.id,
            name=document.name,
            status=document.status.value,
            pages=document.pages,
            pages_done=document.pages_done,
            pages_failed=document.pages_failed,
            readers=readers,
            chunks=document.chunks,
            chunks_embedded=document.chunks_embedded,
            collection=document.collection,
            sha256=document.sha256,
            version=document.version,
            size=document.size,
            media_type=document.media_type,
            seconds=round(document.seconds, 3),
            error=document.error or None,
            duplicate=duplicate,
            created=document.created,
            parent=document.parent,
        )


class RejectedShape(Shape):
    """A file that was not accepted at all."""

    id: None = None
    name: str
    status: Literal["failed"] = "failed"
    pages: int = 0
    readers: dict[str, int] = {}
    seconds: float = 0.0
    error: str
    code: str = ""  # of the error, as in ErrorShape

    @classmethod
    def of(cls, name: str, error: PeritoError) -> RejectedShape:
        return cls(name=name, error=str(error), code=error.code)


class IngestShape(Shape):
    """`perito ingest`, POST and GET /api/documents."""

    documents: list[DocumentShape | RejectedShape]


class PageSummaryShape(Shape):
    """How a page of a document ended, without its text."""

    number: int
    reader: Literal["text", "ocr", "vlm", "speech", "mixed", "none"]
    status: Literal["read", "low_confidence", "blank", "failed"]
    confidence: float
    seconds: float
    error: str | None
    receipt: ReceiptShape

    @classmethod
    def of(cls, page: PageReading) -> PageSummaryShape:
        return cls(
            number=page.number,
            reader=page.reader.value,
            status=page.status.value,
            confidence=round(page.confidence, 4),
            seconds=round(page.seconds, 4),
            error=page.error or None,
            receipt=ReceiptShape.of(page.receipt),
        )


class DocumentDetailShape(Shape):
    """`perito documents show` and GET /api/documents/{id}."""

    document: DocumentShape
    pages: list[PageSummaryShape]


class ProgressShape(Shape):
    """One event of GET /api/documents/{id}/progress; ``page`` is the page that just ended, if one did."""

    document: DocumentShape
    page: PageSummaryShape | None


class JobShape(Shape):
    """A document's place in the queue."""

    document: DocumentShape
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    urgency: Literal["person", "program", "bulk"]
    worker: str
    attempts: int
    reason: str
    next_try: datetime | None

    @classmethod
    def of(cls, job: Job) -> JobShape:
        return cls(
            document=DocumentShape.of(job.document),
            state=job.state.value,
            urgency=_URGENCIES[job.urgency],
            worker=job.worker,
            attempts=job.attempts,
            reason=job.reason,
            next_try=job.next_try,
        )


_URGENCIES: dict[Urgency, Literal["person", "program", "bulk"]] = {
    Urgency.PERSON: "person",
    Urgency.PROGRAM: "program",
    Urgency.BULK: "bulk",
}


class WorkerShape(Shape):
    """A process that reads; ``silent`` is seconds since it last showed itself."""

    id: str
    host: str
    pid: int
    silent: float
    running: int

    @classmethod
    def of(cls, sign: WorkerSign) -> WorkerShape:
        silent = round(sign.silent, 1)
        return cls(id=sign.id, host=sign.host, pid=sign.pid, silent=silent, running=sign.running)


class QueueShape(Shape):
    """GET /api/jobs and `perito jobs list --json`."""

    paused: bool
    workers: list[WorkerShape]
    jobs: list[JobShape]

    @classmethod
    def of(cls, view: QueueView) -> QueueShape:
        return cls(
            paused=view.paused,
            workers=[
                WorkerShape(
                    id=sign.id, host=sign.host, pid=sign.pid, silent=round(sign.silent, 1), running=sign.running
                )
                for sign in view.workers
            ],
            jobs=[JobShape.of(job) for job in view.jobs],
        )


class SentenceShape(Shape):
    text: str
    citations: list[int]
    verdict: Literal["quoted", "supported", "unsupported", "uncited"]


class CitationShape(Shape):
    number: int
    document: str
    document_id: str
    page: int
    boxes: list[BoxShape]
    reader: str
    confidence: float
    text: str
    time: TimeShape | None = None
    corrected_by: list[str] = []

    @classmethod
    def of(cls, citation: Citation) -> CitationShape:
        return cls(
            number=citation.number,
            document=citation.document,
            document_id=citation.document_id,
            page=citation.page,
            boxes=list(citation.boxes),
            reader=citation.reader,
            confidence=round(citation.confidence, 4),
            text=citation.text,
            time=TimeShape.of(citation.time),
            corrected_by=list(citation.corrected_by),
        )

    def as_citation(self) -> Citation:
        """The citation again, for whoever got it over HTTP."""
        return Citation(
            number=self.number,
            document=self.document,
            document_id=self.document_id,
            page=self.page,
            boxes=tuple(Box.of(*box) for box in self.boxes),
            reader=Reader(self.reader),
            confidence=self.confidence,
            text=self.text,
            time=TimeSpan(self.time.start, self.time.end) if self.time else None,
            corrected_by=tuple(self.corrected_by),
        )


class UsageShape(Shape):
    purpose: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    visual_tokens: int
    seconds: float
    price: float
    prompt: str = ""  # name and hash of the prompt that was sent

    @classmethod
    def of(cls, usage: Usage) -> UsageShape:
        return cls(
            purpose=usage.purpose,
            model=usage.model,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            visual_tokens=usage.visual_tokens,
            seconds=round(usage.seconds, 4),
            price=usage.price,
            prompt=usage.prompt,
        )


class UsageTotalShape(Shape):
    """The calls of one purpose, model and collection together; "" where a call belonged to none."""

    purpose: str
    model: str
    collection: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    visual_tokens: int
    seconds: float
    price: float

    @classmethod
    def of(cls, total: UsageTotal) -> UsageTotalShape:
        return cls(**asdict(total))


class UsageTotalsShape(Shape):
    """`perito usage` and GET /api/usage, dearest first."""

    usage: list[UsageTotalShape]

    @classmethod
    def of(cls, totals: Sequence[UsageTotal]) -> UsageTotalsShape:
        return cls(usage=[UsageTotalShape.of(total) for total in totals])


class AnswerShape(Shape):
    """`perito ask` and POST /api/ask."""

    question: str
    answer: str
    refused: bool
    quoted: bool
    language: str
    sentences: list[SentenceShape]
    citations: list[CitationShape]
    usage: list[UsageShape]
    seconds: float

    @classmethod
    def of(cls, answer: Answer) -> AnswerShape:
        return cls(
            question=answer.question,
            answer=answer.text,
            refused=answer.refused,
            quoted=answer.quoted,
            language=answer.language,
            sentences=[
                SentenceShape(text=s.text, citations=list(s.citations), verdict=s.verdict.value)
                for s in answer.sentences
            ],
            citations=[CitationShape.of(citation) for citation in answer.citations],
            usage=[UsageShape.of(usage) for usage in answer.usage],
            seconds=round(answer.seconds, 3),
        )

    def as_answer(self) -> Answer:
        """The answer again, for whoever got it over HTTP."""
        return Answer(
            question=self.question,
            text=self.answer,
            refused=self.refused,
            quoted=self.quoted,
            language=self.language,
            sentences=tuple(
                Sentence(sentence.text, tuple(sentence.citations), Verdict(sentence.verdict))
                for sentence in self.sentences
            ),
            citations=tuple(citation.as_citation() for citation in self.citations),
            seconds=self.seconds,
        )


class ErrorShape(Shape):
    """Every error of the HTTP API, and of the command line with --json."""

    error: ErrorDetail


class ErrorDetail(Shape):
    code: str
    message: str
    advice: str


def dump(shape: BaseModel) -> dict[str, Any]:
    """The shape as plain JSON values."""
    return shape.model_dump(mode="json")


def read_shape(name: str, sha256: str, total_pages: int, pages: Sequence[PageReading]) -> ReadShape:
    """What `perito read` prints."""
    return ReadShape(
        document=FileShape(name=name, sha256=sha256, pages=total_pages), pages=[PageShape.of(page) for page in pages]
    )
