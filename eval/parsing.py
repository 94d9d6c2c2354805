"""Reads documents whose text is known and gives the character error rate.

The truth lies in ``gt/`` beside the documents, in four forms: ``hand_read`` (regions read by a person),
``text_layer`` (pages degraded on purpose; the original's text), ``sroie`` (receipts, line by line; their order is
open), ``htr`` (manuscripts, line by line). ``manifest*.tsv`` says which file has which truth.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assistant.core.domain import Box, PageReading
from assistant.core.errors import NotFound, PeritoError
from eval.bench.table import Table
from eval.metrics.cer import Errors, errors, errors_by_line, errors_in_region

KINDS = ("hand_read", "text_layer", "sroie", "htr")
Read = Callable[[Path], Awaitable[Sequence[PageReading]]]


@dataclass(frozen=True, slots=True)
class Truth:
    """What stands on a page, or on a region of it. ``lines`` where their order is open, else ``text``."""

    kind: str
    file: Path
    page: int
    text: str = ""
    lines: tuple[str, ...] = ()
    region: Box | None = None  # of the upright page

    def errors(self, page: PageReading) -> Errors:
        """The reading's errors. A region's text may be cut out of its surroundings by the reading's boxes or by
        the text; whichever finds it better."""
        if self.lines:
            return errors_by_line(self.lines, page.text)
        if self.region is None:
            return errors(self.text, page.text)
        inside = "\n".join(block.text for block in page.blocks if block.bbox.share_inside(self.region) >= 0.5)
        return min(errors_in_region(self.text, inside), errors_in_region(self.text, page.text), key=lambda e: e.edits)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A truth after its file was read; ``errors`` counts everything as missed where it could not be."""

    truth: Truth
    errors: Errors
    reader: str = ""
    confidence: float = 0.0
    seconds: float = 0.0
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.truth.kind,
            "file": self.truth.file.name,
            "page": self.truth.page,
            "cer": self.errors.rate,
            "edits": self.errors.edits,
            "characters": self.errors.characters,
            "reader": self.reader or None,
            "confidence": round(self.confidence, 4),
            "seconds": round(self.seconds, 3),
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class ParseReport:
    """All truths of a folder, read."""

    title: str
    pages: tuple[Parsed, ...]
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def total(self, kind: str) -> Errors:
        return sum((parsed.errors for parsed in self.pages if parsed.truth.kind == kind), Errors(0, 0))

    def median(self, kind: str) -> float | None:
        rates = sorted(p.errors.rate or 0.0 for p in self.pages if p.truth.kind == kind)
        return rates[len(rates) // 2] if rates else None

    def as_table(self) -> Table:
        rows: list[list[str | float | int | None]] = []
        for kind in KINDS:
            of_kind = [parsed for parsed in self.pages if parsed.truth.kind == kind]
            failed = sum(bool(parsed.error) for parsed in of_kind)
            rows.append(
                [kind, self.total(kind).rate, self.median(kind), len(of_kind), self.total(kind).characters, failed]
            )
        worst = sorted(self.pages, key=lambda parsed: -parsed.errors.edits)[:5]
        notes = [
            f"most errors: {p.truth.file.name} ({p.errors.edits} of {p.errors.characters}, {p.reader})" for p in worst
        ]
        columns = ["truth", "CER", "median page", "pages", "characters", "failed"]
        return Table("parsing", self.title, columns, rows, notes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "made": self.made,
            "kinds": {
                kind: {
                    "cer": self.total(kind).rate,
                    "median": self.median(kind),
                    "characters": self.total(kind).characters,
                    "pages": sum(parsed.truth.kind == kind for parsed in self.pages),
                }
                for kind in KINDS
            },
            "pages": [parsed.as_dict() for parsed in self.pages],
        }


def load_truths(folder: Path, limit: int | None = None) -> list[Truth]:
    """The truths of a folder of documents, at most ``limit`` of each kind. NotFound where it has none."""
    truths = [truth for file, of in _manifest(folder) for truth in _truths(folder, file, of)]
    if not truths:
        raise NotFound(
            f"{folder} has no documents with a known text", "Name a folder with a manifest and a gt folder beside them"
        )
    by_kind = [[truth for truth in truths if truth.kind == kind] for kind in KINDS]
    return [truth for of_kind in by_kind for truth in of_kind[:limit]]


def _manifest(folder: Path) -> list[tuple[Path, list[Path]]]:
    """Each document with its files of truth."""
    found: list[tuple[Path, list[Path]]] = []
    for manifest in sorted(folder.glob("manifest*.tsv")):
        with manifest.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                of = [folder / name.strip() for name in (row.get("ground_truth") or "").split(";") if name.strip()]
                if of and (folder / row["file"]).is_file():
                    found.append((folder / row["file"], of))
    return found


def _truths(folder: Path, file: Path, of: Sequence[Path]) -> list[Truth]:
    truths: list[Truth] = []
    for truth in of:
        kind = truth.relative_to(folder).parts[1] if truth.is_relative_to(folder) and truth.is_file() else ""
        if kind == "hand_read" and truth.suffix == ".json":
            truths.append(_hand_read(file, truth))
        elif kind == "sroie" and truth.suffix == ".csv":
            truths.append(Truth(kind, file, 1, lines=tuple(_sroie_lines(truth))))
        elif kind == "htr" and truth.suffix == ".txt":
            truths.append(Truth(kind, file, 1, text=truth.read_text("utf-8")))
        elif kind == "text_layer" and file.suffix.lower() not in OFFICE:
            truths.append(Truth(kind, file, _page_in_name(truth.name), text=truth.read_text("utf-8")))
    return truths


OFFICE = frozenset({".docx", ".eml", ".epub", ".html", ".md", ".odt", ".pptx", ".rtf", ".xlsx", ".heic"})


def _hand_read(file: Path, truth: Path) -> Truth:
    """Its region is given on the page as stored; ``rotate_cw_to_upright`` turns it with the page."""
    values = json.loads(truth.read_text("utf-8"))
    region = turned(Box.of(*values["region_frac"]), int(values.get("rotate_cw_to_upright", 0)))
    whole = region.area > 0.98
    return Truth("hand_read", file, int(values["page"]), text=values["text"], region=None if whole else region)


def turned(box: Box, degrees: int) -> Box:
    """Where a box lies once its page is turned clockwise by quarters."""
    for _ in range(degrees // 90 % 4):
        box = Box.of(1 - box.y1, box.x0, 1 - box.y0, box.x1)
    return box


def _sroie_lines(truth: Path) -> list[str]:
    """Eight coordinates, then the line, which may hold commas."""
    rows = (row.split(",", 8) for row in truth.read_text("utf-8", errors="replace").splitlines())
    return [row[8].strip() for row in rows if len(row) == 9 and row[8].strip()]


def _page_in_name(name: str) -> int:
    """The 1 of "rotated-page-90.pdf.p1.txt"; a name without a page is page 1."""
    parts = [part[1:] for part in name.split(".") if part[:1] == "p" and part[1:].isdigit()]
    return int(parts[-1]) if parts else 1


async def parse_folder(
    truths: Sequence[Truth],
    read: Read,
    *,
    title: str = "Character errors",
    on_progress: Callable[[int, int], None] | None = None,
) -> ParseReport:
    """Read every file once with ``read`` and hold its pages against their truths. A file that cannot be read
    counts as all wrong, with its error."""
    files = list(dict.fromkeys(truth.file for truth in truths))
    parsed: list[Parsed] = []
    for number, file in enumerate(files, start=1):
        parsed += await _parsed([truth for truth in truths if truth.file == file], file, read)
        if on_progress:
            on_progress(number, len(files))
    return ParseReport(title, tuple(parsed))


async def _parsed(truths: Sequence[Truth], file: Path, read: Read) -> list[Parsed]:
    started = time.perf_counter()
    try:
        pages = {page.number: page for page in await read(file)}
    except PeritoError as error:
        return [Parsed(truth, missed(truth), error=str(error)) for truth in truths]
    seconds = time.perf_counter() - started
    found: list[Parsed] = []
    for truth in truths:
        page = pages.get(truth.page)
        if page is None:
            found.append(Parsed(truth, missed(truth), seconds=seconds, error=f"page {truth.page} was not read"))
        else:
            found.append(Parsed(truth, truth.errors(page), str(page.reader), page.confidence, seconds, page.error))
    return found


def missed(truth: Truth) -> Errors:
    """The errors of a page that was not read at all."""
    return errors_by_line(truth.lines, "") if truth.lines else errors(truth.text, "")
