"""The text reader against truth: table cells, reading order, presence, and small pages made for one trait."""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rapidfuzz import fuzz

from assistant.core.domain import Block, BlockKind, Reader, Reading
from assistant.core.settings import LimitSettings
from ingestion.readers.text import read_text
from ingestion.readers.textblocks import join_lines
from ingestion.sources import open_source
from tests.documents import SHARED, shared
from tests.ingestion.pdfs import PdfPage, text_at, write_pdf

LIMITS = LimitSettings()
Grid = dict[tuple[int, int], tuple[str, tuple[int, int]]]  # place to (text, first place of the cell)


@cache
def read(path: Path, number: int = 1) -> Reading:
    with open_source(path, limits=LIMITS) as source:
        return read_text(source.page(number))


def read_made(tmp_path: Path, content: str) -> Reading:
    return read(write_pdf(tmp_path / "made.pdf", [PdfPage(content)]))


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[list]] = []
        self.open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(["", int(given.get("rowspan") or 1), int(given.get("colspan") or 1)])
            self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.rows[-1][-1][0] += data


def grid_of(html: str) -> Grid:
    parser = _Cells()
    parser.feed(html)
    grid: Grid = {}
    for row, cells in enumerate(parser.rows):
        column = 0
        for text, down, across in cells:
            while (row, column) in grid:
                column += 1
            for i in range(down):
                for j in range(across):
                    grid[row + i, column + j] = (text, (row, column))
            column += across
    return grid


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


def neighbours(grid: Grid) -> Counter[tuple[str, str, str]]:
    """Pairs of filled cells next to each other, across and down: the relations that ICDAR 2013 scores."""
    found = set()
    for (row, column), (text, first) in grid.items():
        if not _plain(text):
            continue
        for name, (down, across) in {"across": (0, 1), "down": (1, 0)}.items():
            i, j = row + down, column + across
            while (i, j) in grid and (not _plain(grid[i, j][0]) or grid[i, j][1] == first):
                i, j = i + down, j + across
            if (i, j) in grid:
                found.add((first, grid[i, j][1], name, _plain(text), _plain(grid[i, j][0])))
            elif max((r, c) for r, c in grid)[0] > i or max(c for _, c in grid) > j:
                continue
    return Counter((name, one, other) for _, _, name, one, other in found)


def true_tables(file: Path) -> Iterator[tuple[int, Grid]]:
    """(page, cells) of an ICDAR 2013 structure file."""
    for region in ET.parse(file).getroot().iter("region"):
        grid: Grid = {}
        down, across = int(region.get("row-increment") or 0), int(region.get("col-increment") or 0)
        for cell in region.iter("cell"):
            row, column = int(cell.get("start-row") or 0) + down, int(cell.get("start-col") or 0) + across
            last_row = int(cell.get("end-row") or row - down) + down
            last_column = int(cell.get("end-col") or column - across) + across
            text = cell.findtext("content") or ""
            for i in range(row, last_row + 1):
                for j in range(column, last_column + 1):
                    grid[i, j] = (text, (row, column))
        yield int(region.get("page") or 1), grid


def test_tables_of_the_icdar_2013_competition() -> None:
    right = true = ours = 0
    for file in sorted(shared("gt/icdar2013").glob("*-str.xml")):
        name = f"icdar_{file.name.removesuffix('-str.xml')}.pdf"
        document = next(path for kind in ("tables", "charts_figures") if (path := SHARED / kind / name).exists())
        wanted: dict[int, Counter[tuple[str, str, str]]] = {}
        for page, grid in true_tables(file):
            wanted.setdefault(page, Counter()).update(neighbours(grid))
        for page, relations in wanted.items():
            found: Counter[tuple[str, str, str]] = Counter()
            for block in read(document, page).blocks:
                if block.html:
                    found += neighbours(grid_of(block.html))
            right += (relations & found).total()
            true += relations.total()
            ours += found.total()
    assert true > 3_000
    assert right / true > 0.95
    assert right / ours > 0.95


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    for odd, plain in {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"}.items():
        text = text.replace(odd, plain)
    return re.sub(r"\s+", " ", text).strip()


def _olmocr_tests() -> Iterator[dict]:
    lines = shared("gt/olmocr_tests.open.jsonl").read_text("utf-8").splitlines()
    kinds = ("digital_text/", "multicolumn/multi", "multicolumn/openstax", "tables/")
    for test in map(json.loads, lines):
        if test["file"].startswith(kinds) and test["file"].endswith(".pdf") and "dolma" not in test["file"]:
            yield test


def _body(reading: Reading) -> str:
    edge = (BlockKind.HEADER, BlockKind.FOOTER)
    return _normal(" ".join(block.text for block in reading.blocks if block.kind not in edge))


def _stands(text: str, body: str) -> int | None:
    found = fuzz.partial_ratio_alignment(_normal(text), body)
    return found.dest_start if found and found.score >= 90 else None


def test_sentences_are_there_and_in_order() -> None:
    results: list[bool] = []
    for test in _olmocr_tests():
        body = _body(read(shared(test["file"]), test["page"]))
        if test["type"] == "present":
            results.append(_stands(test["text"], body) is not None)
        elif test["type"] == "order":
            before, after = _stands(test["before"], body), _stands(test["after"], body)
            results.append(before is not None and after is not None and before < after)
    assert len(results) >= 15
    assert all(results)


def _table_holds(reading: Reading, test: dict) -> bool:
    steps = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
    for block in reading.blocks:
        grid = grid_of(block.html) if block.html else {}
        for (row, column), (text, first) in grid.items():
            if _normal(text) != _normal(test["cell"]):
                continue
            held = []
            for name in steps.keys() & test.keys():
                down, across = steps[name]
                i, j = row + down, column + across
                while (i, j) in grid and grid[i, j][1] == first:
                    i, j = i + down, j + across
                held.append(fuzz.ratio(_normal(grid.get((i, j), ("",))[0]), _normal(test[name])) >= 90)
            for name, places in {
                "top_heading": [(i, column) for i in range(row)],
                "left_heading": [(row, j) for j in range(column)],
            }.items():
                if test.get(name):
                    heads = [grid[place][0] for place in places if place in grid]
                    held.append(any(fuzz.ratio(_normal(head), _normal(test[name])) > 85 for head in heads))
            if all(held):
                return True
    return False


def test_cells_have_their_neighbours_and_headings() -> None:
    tests = [test for test in _olmocr_tests() if test["type"] == "table"]
    assert len(tests) >= 10
    for test in tests:
        assert _table_holds(read(shared(test["file"]), test["page"]), test), test


def _reads_through(reading: Reading, *passages: str) -> bool:
    body = _body(reading)
    places = [_stands(passage, body) for passage in passages]
    return None not in places and places == sorted(places)  # type: ignore[type-var]


def test_columns_are_read_one_after_the_other() -> None:
    assert _reads_through(
        read(shared("multicolumn/failing_pdf_pg9.pdf")),
        "RNA structural motif recognition based on least-squares distance",
        "Long noncoding",
        "They are important in various biological processes",
        "Many types of RNA structural motifs have been identified",
        "RNA molecule (i.e., the search space)",
        "is to find motifs based on their geometric features",
    )
    assert _reads_through(
        read(shared("multicolumn/pdftotext_two_column_issue.pdf"), 2),
        "Turner syndrome (TS) is a condition in phenotypic girls",
        "It is accepted that the diagnosis of TS",
        "for investigations is encouraged to avoid late diagnosis",
        "Pubertal development in TS",
        "Sex steroid replacement in TS",
    )


def test_a_sentence_runs_on_within_its_column() -> None:
    body = _body(read(shared("multicolumn/failing_pdf_pg9.pdf")))
    assert "has little or no protein-coding capability, is a remarkable class of RNAs." in body
    assert "consist" in body
    assert "building blocks of different RNA architectures and play an important role" in body


def test_three_columns(tmp_path: Path) -> None:
    words = ["alba", "bruma", "cielo", "duna", "estero", "faro", "grieta", "hielo", "isla", "junco", "llano", "monte"]
    content = ""
    for column in range(3):
        for line in range(18):
            text = " ".join(f"{words[(line + k) % 12]}" for k in range(5))
            content += text_at(40 + 180 * column, 760 - 14 * line - 3 * column, f"{column}{line:02d} {text}", 9)
    marks = re.findall(r"\b\d{3}\b", " ".join(block.text for block in read_made(tmp_path, content).blocks))
    assert marks == [f"{column}{line:02d}" for column in range(3) for line in range(18)]


def _ruled_table() -> str:
    """Three columns, three rows; the head spans the last two columns, the first column two rows."""
    lines = "0.5 w\n"
    for y in (700, 640):
        lines += f"100 {y} m 400 {y} l S\n"
    lines += "200 680 m 400 680 l S\n100 660 m 400 660 l S\n"
    for x in (100, 200, 400):
        lines += f"{x} 640 m {x} 700 l S\n"
    lines += "300 640 m 300 680 l S\n"
    cells = [(110, 685, "Concepto"), (260, 685, "Importe"), (210, 665, "2024"), (310, 665, "2025")]
    cells += [(110, 645, "Obras"), (210, 645, "1.250"), (310, 645, "2.480")]
    return lines + "".join(text_at(x, y, text, 10) for x, y, text in cells)


def test_merged_cells_of_a_ruled_table(tmp_path: Path) -> None:
    reading = read_made(tmp_path, _ruled_table())
    table = next(block for block in reading.blocks if block.kind is BlockKind.TABLE)
    assert table.html == (
        '<table><tr><td rowspan="2">Concepto</td><td colspan="2">Importe</td></tr>'
        "<tr><td>2024</td><td>2025</td></tr><tr><td>Obras</td><td>1.250</td><td>2.480</td></tr></table>"
    )
    assert table.text.splitlines()[0] == "| Concepto | Importe |  |"
    assert reading.features["merged_cells"] == 2
    assert len(reading.blocks) == 1


def test_a_frame_around_a_text_is_no_table(tmp_path: Path) -> None:
    content = "50 500 450 250 re S\n50 730 m 500 730 l S\n" + text_at(60, 735, "Aviso", 12)
    for line in range(12):
        content += text_at(
            60, 710 - 14 * line, "El solicitante declara que son ciertos los datos que constan aquí.", 11
        )
    assert all(block.kind is not BlockKind.TABLE for block in read_made(tmp_path, content).blocks)


def test_headings_have_levels(tmp_path: Path) -> None:
    content = text_at(72, 780, "Informe de gestión", 22) + text_at(72, 740, "Resultados del ejercicio", 15)
    for line in range(8):
        content += text_at(72, 715 - 14 * line, "La entidad cerró el año con un resultado mayor que el anterior,", 11)
    blocks = read_made(tmp_path, content).blocks
    assert [(block.kind, block.level) for block in blocks] == [
        (BlockKind.HEADING, 1), (BlockKind.HEADING, 2), (BlockKind.PARAGRAPH, 0),
    ]  # fmt: skip


# What a person sees on the page: a paragraph that begins in bold, one that wraps before "29)", lists with marks apart.
@pytest.mark.parametrize(
    ("file", "page", "kind", "text"),
    [
        ("digital_text/es_aeat_modelo190_instrucciones.pdf", 1, BlockKind.PARAGRAPH, "190, sin que esté permitida la"),
        ("digital_text/es_aeat_modelo190_instrucciones.pdf", 1, BlockKind.PARAGRAPH, "(BOE del 29) y al Reglamento"),
        ("digital_text/es_aeat_modelo190_instrucciones.pdf", 4, BlockKind.LIST, "- Con certificado Digital o DNI-e."),
        ("digital_text/multi_page.pdf", 1, BlockKind.LIST, "Introduced in 1964, this machine combined"),
        ("multicolumn/pdftotext_two_column_issue.pdf", 12, BlockKind.LIST, "1. Stochholm K, Juul S, Juel K"),
        ("forms/fw8ben_1.pdf", 1, BlockKind.LIST, "- I am the individual that is the beneficial owner"),
        ("multilingual/issue-71-duplicate-chars-2.pdf", 1, BlockKind.HEADING, "OBJECTIFS"),
    ],
)
def test_sentences_and_lists_are_whole(file: str, page: int, kind: BlockKind, text: str) -> None:
    assert [block.kind for block in read(shared(file), page).blocks if text in block.text] == [kind]


def test_items_become_one_list(tmp_path: Path) -> None:
    content = text_at(72, 780, "Se acuerda lo siguiente:", 11)
    items = ["• Aprobar el acta de la sesión", "anterior sin cambios", "• Encargar el estudio", "• Fijar la fecha"]
    for line, text in enumerate(items):
        content += text_at(90 if text.startswith("•") else 98, 760 - 14 * line, text, 11)
    blocks = read_made(tmp_path, content).blocks
    assert [block.kind for block in blocks] == [BlockKind.PARAGRAPH, BlockKind.LIST]
    assert blocks[1].text == (
        "- Aprobar el acta de la sesión anterior sin cambios\n- Encargar el estudio\n- Fijar la fecha"
    )


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["la adminis-", "tración"], "la administración"),
        (["un acuerdo bien-", "conocido"], "un acuerdo bien-conocido"),
        (["entre 2020-", "2025"], "entre 2020-2025"),
        (["Castilla-", "La Mancha"], "Castilla-La Mancha"),
        (["una línea", "y otra"], "una línea y otra"),
        (["これは日本", "語です"], "これは日本語です"),
    ],
)
def test_hyphens_at_line_ends(lines: list[str], joined: str) -> None:
    assert join_lines([(line, False) for line in lines], frozenset({"bien-conocido"})) == joined


@pytest.mark.parametrize("file", ["rotated/edgar-rotated90.pdf", "rotated/rotated-page-90.pdf"])
def test_text_that_stands_sideways_turns_the_page(file: str) -> None:
    with open_source(shared(file), limits=LIMITS) as source:
        page = source.page(1)
        reading = read_text(page)
    assert reading.turned == 270  # its text runs downwards as shown: a quarter back
    if "edgar" in file:
        upright = read(shared("digital_text/edgar.pdf"))
        assert fuzz.ratio(_body(reading), _body(upright)) > 97
        pairs = {block.text: block for block in upright.blocks}
        same = [(block, pairs[block.text]) for block in reading.blocks if block.text in pairs]
        assert len(same) > 8
        assert all(one.bbox == pytest.approx(other.bbox, abs=0.01) for one, other in same)


def test_text_in_several_directions_is_all_read() -> None:
    reading = read(shared("rotated/testOrient.pdf"))
    text = " ".join(block.text for block in reading.blocks)
    for piece in (
        "This is box text at top",
        "This is box text at bottom",
        "This is box text on left",
        "This is box text on righy",
    ):
        assert piece in text
    left = next(block for block in reading.blocks if "on left" in block.text)
    assert left.bbox.x1 < 0.25
    assert left.bbox.height > left.bbox.width


def _digital() -> list[Path]:
    return sorted(
        p for kind in ("digital_text", "multicolumn", "tables", "forms") for p in (SHARED / kind).glob("*.pdf")
    )


def test_no_word_is_lost_or_made_up() -> None:
    """Every word the page shows stands in the blocks, and the other way round."""
    shared("digital_text")
    worst: list[tuple[float, str]] = []
    for path in _digital()[::2]:
        with open_source(path, limits=LIMITS) as source:
            page = source.page(1)
        if not page.lines:
            continue
        shown = Counter(re.findall(r"\w", " ".join(line.text for line in page.lines).casefold()))
        blocks = read_text(page).blocks
        made = Counter(re.findall(r"\w", " ".join(block.text for block in blocks).casefold()))
        worst.append(((shown & made).total() / max(shown.total(), made.total()), path.name))
    assert len(worst) > 25
    assert min(worst)[0] > 0.985, min(worst)


def test_blocks_are_sound() -> None:
    for path in _digital()[1::5]:
        for block in read(path).blocks:
            assert_sound(block)


def assert_sound(block: Block) -> None:
    assert block.text.strip()
    assert block.reader is Reader.TEXT
    assert block.bbox.area > 0
    assert (block.html is not None) == (block.kind is BlockKind.TABLE)
    assert (block.level > 0) == (block.kind is BlockKind.HEADING)
