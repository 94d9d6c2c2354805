"""How the command line shows things to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from assistant.core.domain import JobState, PageReading
from assistant.core.shapes import (
    CitationShape,
    DocumentShape,
    JobShape,
    PageSummaryShape,
    ProgressShape,
    QueueShape,
    RejectedShape,
    UsageTotalShape,
)
from assistant.quotes import one_line
from compose.doctor import Check

CANCELLED = JobState.CANCELLED.value
EXCERPT = 240  # characters of a passage shown under its source
READERS = {"text": "own text", "ocr": "OCR", "vlm": "VLM", "speech": "speech", "mixed": "mixed", "none": "nothing"}


class IngestProgress:
    """A bar over all pages of all files, on standard error; lines about documents go to standard output."""

    def __init__(self, files: int, shown: bool) -> None:
        self._files = files
        self._pages: dict[str, tuple[int, int]] = {}
        self._ended = 0
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("pages"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown)
        self._task = self._bar.add_task(f"0 of {files} files", total=None)

    def __enter__(self) -> IngestProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def update(self, progress: ProgressShape) -> None:
        """A page ended."""
        self._pages[progress.document.id] = (progress.document.pages_done, progress.document.pages)
        self._refresh()

    def ended(self) -> None:
        """A file ended."""
        self._ended += 1
        self._refresh()

    def print(self, line: str) -> None:
        """A line on standard output that does not tear the bar."""
        self._bar.stop()
        print(line, flush=True)  # noqa: T201 - the command line's own output
        self._bar.start()

    def _refresh(self) -> None:
        done, total = (sum(counts) for counts in zip(*self._pages.values(), strict=True)) if self._pages else (0, 0)
        self._bar.update(
            self._task, description=f"{self._ended} of {self._files} files", completed=done, total=total or None
        )


def outcome_line(outcome: DocumentShape | RejectedShape) -> str:
    """One line a document: pages by reader, seconds, status."""
    if isinstance(outcome, RejectedShape):
        return f"✗ {outcome.name}: {outcome.error}"
    if outcome.duplicate and outcome.status == "complete":
        return f"= {outcome.name}: already there, unchanged ({outcome.id[:8]})"
    return document_line(outcome)


def document_line(document: DocumentShape) -> str:
    """Name, pages read, readers, seconds, status, and what went wrong."""
    status = status_word(document)
    mark = {"complete": "✓", "partial": "!", "failed": "✗", CANCELLED: "–"}.get(status, "…")
    read = f"{document.pages_done - document.pages_failed} of {document.pages} pages read"
    readers = reader_mix(document.readers)
    how = f" ({readers})" if readers else ""
    line = f"{mark} {document.name}: {read}{how}, {document.seconds:.1f} s, {status} ({document.id[:8]})"
    return line + (f"\n  {document.error}" if document.error else "")


def status_word(document: DocumentShape) -> str:
    """Its status, or "cancelled" where a person stopped it: of that the catalogue keeps the sentence."""
    stopped = document.status in ("failed", "partial") and (document.error or "").startswith("Cancelled by ")
    return CANCELLED if stopped else document.status


def reader_mix(readers: dict[str, int]) -> str:
    """For instance "3 own text, 1 OCR"."""
    return ", ".join(f"{count} {READERS.get(name, name)}" for name, count in readers.items() if count)


def page_heading(page: PageReading) -> str:
    """How a page was read, and why."""
    parts = (f"page {page.number}", READERS[page.reader], page.status.replace("_", " "), f"{page.confidence:.0%}")
    return f"── {' · '.join(parts)} · {page.seconds:.1f} s\n   {page.receipt.reason}\n"


def citation_line(citation: CitationShape) -> str:
    """Number, document, page, reader, confidence, and the passage."""
    shown = one_line(citation.text, EXCERPT)
    reader = READERS.get(citation.reader, citation.reader)
    place = citation.time.text if citation.time else f"page {citation.page}"
    corrected = f", corrected by {', '.join(citation.corrected_by)}" if citation.corrected_by else ""
    where = f"{citation.document}, {place} ({reader}, {citation.confidence:.0%}{corrected})"
    return f"[{citation.number}] {where}\n    {shown}"


def documents_table(documents: Sequence[DocumentShape], *, narrowed: bool = False) -> Table | str:
    """All documents, a line each; ``narrowed`` says that only some were asked for."""
    if not documents:
        if narrowed:
            return "There are no such documents. `perito documents list` shows all."
        return "There are no documents yet. Add some with `perito ingest PATH`."
    table = _table("id", "name", "collection", "status", "pages", "read by", "version")
    for document in documents:
        pages = f"{document.pages_done - document.pages_failed}/{document.pages}"
        mix = reader_mix(document.readers)
        table.add_row(
            document.id[:8],
            document.name,
            document.collection,
            status_word(document),
            pages,
            mix,
            str(document.version),
        )
    return table


def pages_table(pages: Sequence[PageSummaryShape]) -> Table:
    """A document's pages, a line each."""
    table = _table("page", "read by", "status", "confidence", "seconds", "why")
    for page in pages:
        row = (
            str(page.number),
            READERS[page.reader],
            page.status.replace("_", " "),
            f"{page.confidence:.0%}",
            f"{page.seconds:.2f}",
        )
        table.add_row(*row, page.error or page.receipt.reason)
    return table


def usage_table(totals: Sequence[UsageTotalShape]) -> Table | str:
    """What models used, a line for each purpose, model and collection."""
    if not totals:
        return "No model has been used yet."
    table = _table("for", "model", "collection", "calls", "tokens in", "of pictures", "tokens out", "seconds", "price")
    for total in totals:
        tokens = (total.calls, total.prompt_tokens, total.visual_tokens, total.completion_tokens)
        numbers = [f"{number:,}" for number in tokens]
        table.add_row(
            total.purpose, total.model, total.collection, *numbers, f"{total.seconds:,.1f}", f"{total.price:,.4f}"
        )
    return table


def queue_line(queue: QueueShape, state: JobState | None = None) -> str:
    """For instance "Reading is paused. 2 workers, 3 waiting, 1 running". Only ``state`` was asked for, if given."""
    counts = Counter(job.state for job in queue.jobs)
    parts = [f"{len(queue.workers)} worker{'s' * (len(queue.workers) != 1)}"]
    parts += [f"{count} {name}" for name, count in counts.items()]
    if not queue.jobs:
        parts.append(f"no document {state}" if state else "nothing is waiting or being read")
    return ("Reading is paused. " if queue.paused else "") + ", ".join(parts)


def job_line(job: JobShape) -> str:
    """Name, state, pages read, and why it waits or failed."""
    document = job.document
    read = f"{document.pages_done - document.pages_failed} of {document.pages} pages read"
    line = f"{document.name}: {job.state}, {read} ({document.id[:8]})"
    return line + (f"\n  {job.reason}" if job.reason else "")


def retry_line(before: JobShape, after: JobShape) -> str:
    """What a retry did, or why there was nothing to do."""
    document = after.document
    which = f"{document.name} ({document.id[:8]})"
    if before.state in ("waiting", "running"):
        now = "being read" if before.state == "running" else "waiting"
        return f"{which} is {now} already; a wait between two tries ends now."
    if before.document.status == "complete":
        again = f"`perito documents reread {document.id[:8]}` reads it again"
        return f"There is nothing to retry: {which} was read completely. {again}."
    return f"{which} is to be read on: {document.pages_done} of {document.pages} pages are there."


def cancel_line(before: JobShape, after: JobShape) -> str:
    """What a cancel did, or why there was nothing to do."""
    document = after.document
    which = f"{document.name} ({document.id[:8]})"
    if before.state in ("waiting", "running") and after.state == "cancelled":
        return f"Stopped reading {which}. {after.reason} `perito jobs retry {document.id[:8]}` goes on."
    if after.state == "done":
        return (
            f"There is nothing to cancel: {which} was read already. "
            f"`perito documents reread {document.id[:8]}` reads it again, `perito documents delete` removes it."
        )
    return f"There is nothing to cancel: {which} is {after.state} already. {after.reason}".rstrip()


def jobs_table(jobs: Sequence[JobShape]) -> Table:
    """The queue, a line each, in the order of its turn."""
    table = _table("id", "name", "collection", "state", "urgency", "pages", "tries", "why")
    for job in jobs:
        document = job.document
        pages = f"{document.pages_done - document.pages_failed}/{document.pages}"
        row = (document.id[:8], document.name, document.collection, job.state, job.urgency, pages)
        table.add_row(*row, str(job.attempts) if job.attempts else "", job.reason)
    return table


def checks_table(checks: Iterable[Check]) -> Table:
    """What the doctor found."""
    table = _table("", "check", "found", "what to do")
    for check in checks:
        table.add_row({"ok": "✓", "note": "·", "bad": "✗"}[check.state], check.name, check.found, check.advice)
    return table


def settings_table(settings: Iterable[tuple[str, str, str]]) -> Table:
    """Every setting with its value and meaning."""
    table = _table("setting", "value", "meaning")
    for name, value, meaning in settings:
        table.add_row(name, value, meaning)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
