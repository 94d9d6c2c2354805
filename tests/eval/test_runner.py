"""Asking every case."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from assistant.core.domain import Answer, Box, Citation, Reader, Sentence, Verdict
from assistant.core.errors import StoreBusy
from eval.cases import Case
from eval.report import as_html, report_name, write_reports
from eval.runner import Report, run_cases

CASES = [
    Case.model_validate(values)
    for values in (
        {"id": "1", "question": "How much is the rent?", "file": "lease.pdf", "page": 2, "evidence": "950 euros"},
        {"id": "2", "question": "Who is <b>Ana</b>?", "unanswerable": True},
        {"id": "3", "question": "When does it end?", "file": "lease.pdf", "page": 5},
        {"id": "4", "question": "broken"},
    )
]


async def ask(question: str) -> Answer:
    if question == "broken":
        raise StoreBusy("Another process has the index", "Wait")
    if "Ana" in question:
        return Answer(question, "I found nothing.", True, (Sentence("I found nothing."),), ())
    text = "The rent is 950 euros a month."
    cited = Citation(1, "lease.pdf", "d", 2, (Box(0, 0, 1, 1),), Reader.OCR, 0.9, text)
    return Answer(question, f"“{text}” [1]", False, (Sentence(text, (1,), Verdict.QUOTED),), (cited,), quoted=True)


async def report() -> Report:
    return await run_cases(CASES, ask, title="A first set")


async def test_means_are_over_the_eligible_and_failures_are_none() -> None:
    done: list[tuple[int, int]] = []
    found = await run_cases(CASES, ask, concurrency=2, on_progress=lambda n, of: done.append((n, of)))
    figures = {figure.name: (figure.mean, figure.eligible) for figure in found.figures}
    assert figures == {
        "page_hit": (0.5, 2),
        "passage_hit": (1.0, 1),
        "refusal": (1.0, 3),
        "faithfulness": (1.0, 2),
    }
    assert [outcome.case.id for outcome in found.failed] == ["4"]
    assert "Another process" in found.failed[0].error
    assert done[-1] == (4, 4)
    assert (found.refusals.precision, found.refusals.recall, found.refusals.answered) == (1.0, 1.0, 1.0)


async def test_the_table_shows_counts_and_failures() -> None:
    table = (await report()).as_table()
    rows = {row[0]: row for row in table.rows}
    assert rows["page_hit"][1:3] == [0.5, 2]
    assert "1 of 4 cases failed" in table.notes[0]


class Page(HTMLParser):
    """What a page loads, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        assert tag != "b", "text of a case must not become markup"

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_the_page_stands_alone_and_shows_every_case() -> None:
    page = Page()
    page.feed(as_html(await report()))
    assert page.loaded == []
    assert all(case.question in page.text for case in CASES)
    assert "Another process has the index" in page.text


async def test_reports_are_written_where_asked(tmp_path: Path) -> None:
    data, page = write_reports(await report(), tmp_path / "new", report_name("../doc qa.jsonl"))
    assert data.name == "doc-qa.jsonl.json" and page.exists()
    kept = json.loads(data.read_text("utf-8"))
    assert kept["metrics"]["page_hit"] == {"mean": 0.5, "eligible": 2}
    assert kept["outcomes"][0]["answer"]["citations"][0]["page"] == 2
