"""Delimited text (CSV, TSV) as a sheet, whatever separates and quotes its fields."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from assistant.core.settings import LimitSettings
from ingestion.sources.decoding import decode
from ingestion.sources.office.sheetpages import SheetSource
from ingestion.sources.office.sheets import MOST_CELLS, Sheet
from ingestion.sources.plain import LARGEST_TEXT

SUFFIXES = {".csv": "text/csv", ".tsv": "text/tab-separated-values", ".tab": "text/tab-separated-values"}
_SEPARATORS = ",;\t|^~"
_SAMPLE = 200  # records a separator is found from
_LEAST_ALIKE = 0.7  # share of records with the same number of fields
_LONGEST_QUOTE = 40  # lines in one field: more were never meant to be one
_QUOTE_SAMPLE = 100_000  # characters
csv.field_size_limit(LARGEST_TEXT)  # else a long field is an error in the middle of a file
_TOLD = re.compile(r"\Asep=(.)\r?\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text's fields are parted. ``quote`` is "" where quotes are letters like others."""

    separator: str
    quote: str = '"'


def delimited_source(path: Path, name: str, limits: LimitSettings) -> SheetSource | None:
    """A file as a sheet; None where it is no text, or nothing parts it into fields. EmptyFile, TooLarge."""
    if path.stat().st_size > LARGEST_TEXT:
        return None
    text = decode(path.read_bytes())
    told = _TOLD.match(text or "")
    body = (text or "")[told.end() :] if told else text or ""
    dialect = Dialect(told[1]) if told else find_dialect(body)
    if dialect is None:
        return None
    sheet = Sheet(Path(name).stem)
    left_out = _fill(sheet, body, dialect, limits)
    source = SheetSource(name, SUFFIXES.get(Path(name).suffix.lower(), "text/csv"), [sheet], limits)
    source.damage = left_out
    return source


def _fill(sheet: Sheet, text: str, dialect: Dialect, limits: LimitSettings) -> str:
    """Put the records into ``sheet``; returns what was left out, in words."""
    cells = unread = 0
    for row, fields in enumerate(records(text, dialect)):
        texts = {column: field.strip() for column, field in enumerate(fields) if field.strip()}
        if not texts:
            continue
        if len(sheet.rows) >= limits.sheet_rows or cells >= MOST_CELLS:
            unread += 1
            continue
        sheet.rows[row] = texts
        cells += len(texts)
    if not unread:
        return ""
    return f"{unread} rows were not read: at most {limits.sheet_rows} rows and {MOST_CELLS} cells of a file are."


def find_dialect(text: str) -> Dialect | None:
    """The separator that gives the most records the same number of fields, at least two; None where none does."""
    best: tuple[float, int, Dialect] | None = None
    for separator in _SEPARATORS:
        if separator not in text[:LARGEST_TEXT]:
            continue
        dialect = _quoted(text, separator)
        counts = Counter(len(fields) for fields in islice(records(text, dialect), _SAMPLE) if any(fields))
        width, _ = max(counts.items(), key=lambda item: (item[1] if item[0] > 1 else 0, item[0]), default=(1, 0))
        alike = counts[width] / max(1, sum(counts.values()))
        if width > 1 and alike >= _LEAST_ALIKE and (best is None or (alike, width) > best[:2]):
            best = alike, width, dialect
    return best[2] if best else None


def _quoted(text: str, separator: str) -> Dialect:
    """With double quotes, single ones where fields begin and end with them, or none where a quote never ends."""
    sample = text[:_QUOTE_SAMPLE]
    edge = re.escape(separator)
    singles = len(re.findall(rf"(?:^|{edge})'[^'\n]*'(?={edge}|$)", sample, re.MULTILINE))
    if singles * 2 > sample.count("\n") + 1 and singles > sample.count('"'):
        return Dialect(separator, "'")
    quoted = Dialect(separator)
    fields = (field for record in records(text, quoted) for field in record)
    return Dialect(separator, "") if any(field.count("\n") > _LONGEST_QUOTE for field in fields) else quoted


def records(text: str, dialect: Dialect) -> Iterator[list[str]]:
    """The fields of each record."""
    quoting = csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=quoting,
        skipinitialspace=True,
    )
