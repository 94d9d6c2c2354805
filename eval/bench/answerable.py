"""From dropping a scan to being able to ask about it, on a server that has nothing else to do."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from PIL import Image

from eval.bench._server import Server, running_server
from eval.bench.table import Table

SCANS = ("scan_clean/typewriter.png", "scan_clean/linn.png", "scan_clean/es_modelo721_p1_300dpi.png")
LONG = 100
QUESTION = "modelo 721 monedas virtuales situadas en el extranjero"


def run(documents: Path) -> Table:
    """Seconds until the first page was published, and whether a question then cites that document."""
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        scans = [Image.open(documents / name).convert("L") for name in SCANS]
        first = _timed(server, _pdf(Path(folder) / "first.pdf", scans[:2]), whole=True)
        one = _pdf(Path(folder) / "one.pdf", scans[2:])
        long = _pdf(Path(folder) / "long.pdf", [scans[2 - number % 3] for number in range(LONG)])
        rows = [
            ("page 1 of the first scan after the start", "-", first[0], "-"),
            ("one-page scan", 4.0, *_timed(server, one, whole=False)),
            (f"page 1 of a {LONG}-page scan", 6.0, *_timed(server, long, whole=False)),
        ]
    notes = ("From the POST to the event that page 1 is published; then one question must cite the document.",)
    columns = ("dropped", "goal s", "answerable after s", "cited")
    title = "Drop to answerable (a server with nothing else to do)"
    return Table("answerable", title, columns, rows, notes, "4 s and 6 s")


def _pdf(path: Path, pages: list[Image.Image]) -> Path:
    pages[0].save(path, save_all=True, append_images=pages[1:], resolution=150)
    return path


def _timed(server: Server, file: Path, *, whole: bool) -> tuple[float, bool]:
    server.wait_until_idle()
    started = time.perf_counter()
    document = server.add(file)
    seconds = 0.0
    for progress in server.progress(document["id"]):
        page = progress["page"]
        if page and page["number"] == 1 and not seconds:
            seconds = time.perf_counter() - started
            if not whole:
                break
    cited = {citation["document_id"] for citation in server.ask(QUESTION)["citations"]}
    if not whole:
        server.http.delete(f"/api/documents/{document['id']}").raise_for_status()
    return round(seconds, 2), document["id"] in cited
