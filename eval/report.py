"""Reports kept: JSON for machines, one self-contained HTML page for people."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from eval.bench.table import Table, shown_cell
from eval.parsing import ParseReport
from eval.runner import Outcome, Report

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7fd6a0; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
details { margin: .3rem 0; } pre { white-space: pre-wrap; margin: .3rem 0; }
"""


def write_reports(report: Report | ParseReport, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``NAME.json`` and ``NAME.html`` into ``folder`` (made where missing) and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{name}.json", folder / f"{name}.html"
    data.write_text(json.dumps(report.as_dict(), ensure_ascii=False, indent=2), "utf-8")
    page.write_text(as_html(report), "utf-8")
    return data, page


def as_html(report: Report | ParseReport) -> str:
    """One page without anything to load from elsewhere."""
    details = _cases(report) if isinstance(report, Report) else _pages(report)
    title = html.escape(report.title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><p>Made {html.escape(report.made)}</p>"
        f"{_table(report.as_table())}{details}</body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th scope='col'>{html.escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in table.rows)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def _cell(cell: str | int | float | bool | None) -> str:
    kind = ' class="number"' if isinstance(cell, int | float) else ""
    return f"<td{kind}>{html.escape(shown_cell(cell))}</td>"


def _cases(report: Report) -> str:
    """Every question with its answer; those that went wrong first."""
    ordered = sorted(report.outcomes, key=lambda outcome: _goodness(outcome))
    return "<h2>Questions</h2>" + "".join(_case(outcome) for outcome in ordered)


def _goodness(outcome: Outcome) -> float:
    scores = [score for score in outcome.scores.values() if score is not None]
    return sum(scores) / len(scores) if scores else -1.0


def _case(outcome: Outcome) -> str:
    scores = ", ".join(
        f'<span class="{"good" if score >= 1 else "bad"}">{name} {score:.2g}</span>'
        for name, score in outcome.scores.items()
        if score is not None
    )
    case, answer = outcome.case, outcome.answer
    expected = (
        "no answer in the documents" if case.unanswerable else f"{case.answer} ({case.document}, page {case.page})"
    )
    said = outcome.error or (answer.text if answer else "")
    cited = (
        "; ".join(f"[{c.number}] {c.document}, page {c.page}, {c.reader}" for c in answer.citations) if answer else ""
    )
    return (
        f"<details><summary>{html.escape(case.question)} — {scores or 'failed'}</summary>"
        f"<p>Expected: {html.escape(expected)}</p><pre>{html.escape(said)}</pre><p>{html.escape(cited)}</p></details>"
    )


def _pages(report: ParseReport) -> str:
    ordered = sorted(report.pages, key=lambda parsed: -(parsed.errors.rate or 0.0))
    columns = ["file", "page", "truth", "CER", "reader", "confidence", "seconds", "error"]
    rows = [
        [p.truth.file.name, p.truth.page, p.truth.kind, p.errors.rate, p.reader, p.confidence, p.seconds, p.error]
        for p in ordered
    ]
    return "<h2>Pages</h2>" + _table(Table("pages", "Pages", columns, rows))


def report_name(source: str) -> str:
    """A file name for the report on ``source``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", source).strip("-.") or "report"
