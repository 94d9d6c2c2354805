"""`perito eval`: the measures of ``eval`` over the real assistant and the real readers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from assistant.core.domain import Answer
from assistant.core.embedder import open_embedder
from assistant.core.errors import NotFound
from assistant.core.settings import Settings
from assistant.evidence import Weigher
from compose.backends import Backend, ingest_all, open_backend
from compose.reading import file_reader
from eval.cases import Case, load_cases
from eval.parsing import ParseReport, load_truths, parse_folder
from eval.report import report_name, write_reports
from eval.runner import Report, run_cases

OnProgress = Callable[[int, int], None]


async def evaluate_answers(
    settings: Settings, path: Path, collection: str | None, documents: Path | None, out: Path
) -> Report:
    """Ask every case of ``path`` and write the reports to ``out``.

    With ``documents`` the files that the cases name are added first, from that folder.
    """
    cases = load_cases(path)
    likeness = Weigher(open_embedder(settings.embedding)).likeness
    async with open_backend(settings) as backend:
        if documents is not None:
            await _add(backend, cases, documents, collection or "default")

        async def ask(question: str) -> Answer:
            return (await backend.ask(question, collection, lambda _: None)).as_answer()

        with _bar("questions") as on_progress:
            title = f"Answers: {path.name}"
            report = await run_cases(cases, ask, likeness=likeness, title=title, on_progress=on_progress)
    write_reports(report, out, report_name(f"answers-{path.stem}"))
    return report


async def evaluate_parsing(settings: Settings, folder: Path, limit: int | None, out: Path) -> ParseReport:
    """Read every document of ``folder`` whose truth is known, and write the reports to ``out``."""
    truths = load_truths(folder, limit)
    async with file_reader(settings) as reader:
        with _bar("documents") as on_progress:
            report = await parse_folder(truths, reader.read, on_progress=on_progress)
    write_reports(report, out, report_name(f"parsing-{folder.name or 'documents'}"))
    return report


async def _add(backend: Backend, cases: list[Case], folder: Path, collection: str) -> None:
    files = [folder / name for name in sorted({case.file for case in cases if case.file})]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise NotFound(f"The cases name {missing[0]}, which is not there", "Check --documents")
    async for _ in ingest_all(backend, files, collection, "", lambda _: None):
        pass


@contextmanager
def _bar(what: str) -> Generator[OnProgress]:
    """A progress bar on standard error where a person looks."""
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
