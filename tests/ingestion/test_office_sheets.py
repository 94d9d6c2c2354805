"""Workbooks and delimited text: written by openpyxl and XlsxWriter, values as a sheet shows them."""

from __future__ import annotations

import datetime
import io
import time
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import xlsxwriter
from openpyxl.comments import Comment
from openpyxl.drawing.image import Image as SheetImage

from assistant.core.domain import BlockKind
from assistant.core.errors import EmptyFile
from ingestion.sources.office.numberformats import displayed, displayed_text, moment
from tests.documents import shared
from tests.ingestion.officefiles import opened, pages, picture_of, texts, told


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        # the examples of ECMA-376 part 1, 18.8.31, and of Excel's own help on number formats
        (1234.59, "####.#", "1234.6"),
        (8.9, "#.000", "8.900"),
        (0.631, "0.#", "0.6"),
        (12, "#.0#", "12.0"),
        (1234.568, "#.0#", "1234.57"),
        (5.25, "# ???/???", "5 1/4"),
        (5.3, "# ???/???", "5 3/10"),
        (123.45, "# ?/2", "123 1/2"),
        (12000, "#,###", "12,000"),
        (3.14159, '"IVA "#.00', "IVA 3.14"),
        (1234.5, ".00", "1234.50"),
        (3, "0.##", "3."),
        (12000, "#,", "12"),
        (12200000, "0.0,,", "12.2"),
        (5, "00000", "00005"),
        (12345, "0.00E+00", "1.23E+04"),
        (0.3333, "0.0%", "33.3%"),
        (1234.5, "$#,##0.00", "$1,234.50"),
        (-1234.5, "#,##0.00;[Red](#,##0.00)", "(1,234.50)"),
        (0, '0.00;-0.00;"nada"', "nada"),
        (3, '0 "días"', "3 días"),
        (1234.5, "#,##0.00\\ [$€-C0A]", "1,234.50 €"),
        (-1234.5, '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', "-1,234.50 €"),
        (99, "[<100]0.0;0", "99.0"),
        (150, "[<100]0.0;0", "150"),
        (2.675, "0.00", "2.68"),
        (0.1 + 0.2, "General", "0.3"),
        (1e21, "General", "1E+21"),
        (5551234567, "(###) ###-####", "(555) 123-4567"),
        # dates: the day before the leap day that never was, its morrow, and the calendar since then
        (59, "yyyy-mm-dd", "1900-02-28"),
        (61, "yyyy-mm-dd", "1900-03-01"),
        (45292, "d/m/yyyy", "1/1/2024"),
        (45292, "dddd, mmmm d", "Monday, January 1"),
        (45292, '[$-C0A]d "de" mmmm "de" yyyy', "1 de enero de 2024"),
        (45292.5, "m/d/yy h:mm AM/PM", "1/1/24 12:00 PM"),
        (0.999988426, "hh:mm:ss", "23:59:59"),
        (1.25, "[h]:mm", "30:00"),
        (0.0423611, "[mm]:ss", "61:00"),
        (-1, "yyyy-mm-dd", "-1"),
    ],
)
def test_numbers_are_shown_as_their_format_says(value: float, code: str, shown: str) -> None:
    assert displayed(value, code) == shown


def test_text_and_broken_formats() -> None:
    assert displayed_text("Ana", '"Sra. "@') == "Sra. Ana"
    assert displayed_text("Ana", "0.00") == "Ana"
    assert displayed(1.5, '"' * 300) == "1.5"
    for code in ("[", "\\", '"', "0;0;0;0;0;0", "????/0", "@@", ";;;", "0" * 254, "[>=x]0", "*", "_", "E+", "0E+0/0"):
        displayed(-1234.567, code)


@pytest.mark.parametrize("year", [1900, 1955, 2000, 2024, 2100])
def test_days_are_counted_as_openpyxl_counts_them(year: int) -> None:
    from openpyxl.utils.datetime import CALENDAR_MAC_1904, to_excel

    when = datetime.datetime(year, 12, 31, 17, 45, 30)
    assert moment(to_excel(when)) == when
    if year > 1904:
        assert moment(to_excel(when, CALENDAR_MAC_1904), since_1904=True) == when


def test_what_openpyxl_writes_is_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Ventas 2026"
    sheet["A1"] = "Ventas por zona"
    for row, values in enumerate((("Zona", "Enero", "Cuota"), ("Norte", 1250.5, 0.25), ("Sur", -98, 0.75)), 3):
        for column, value in enumerate(values, 1):
            sheet.cell(row, column, value)
    for row in (4, 5):
        sheet.cell(row, 2).number_format = '#,##0.00 "€"'
        sheet.cell(row, 3).number_format = "0%"
    sheet["A6"], sheet["B6"] = "Cierre", datetime.date(2026, 3, 31)
    sheet["B6"].number_format = "dd/mm/yyyy"
    sheet["B4"].comment = Comment("Sin IVA", "Ana")
    sheet["A9"] = "Fuente: contabilidad"
    sheet.row_dimensions[5].hidden = True
    sheet.column_dimensions["C"].hidden = True
    secret = book.create_sheet("Notas")
    secret["B2"] = "No publicar"
    secret.sheet_state = "hidden"
    book.create_sheet("Vacía")
    path = tmp_path / "ventas.xlsx"
    book.save(path)

    first, second = pages(path)
    assert [(str(b.kind), b.text) for b in first.blocks] == [
        ("heading", "Ventas 2026"),
        ("heading", "'Ventas 2026'!A1"),
        ("paragraph", "Ventas por zona"),
        ("heading", "'Ventas 2026'!A3:C6"),
        (
            "table",
            "| Zona | Enero | Cuota (hidden column) |\n| --- | --- | --- |\n| Norte | 1,250.50 € | 25% |\n"
            "| Sur (hidden row) | -98.00 € | 75% |\n| Cierre | 31/03/2026 |  |",
        ),
        ("heading", "'Ventas 2026'!A9"),
        ("paragraph", "Fuente: contabilidad"),
        ("paragraph", "[comment on B4 by Ana: Sin IVA]"),
    ]
    assert [b.text for b in second.blocks] == ["Notas (hidden)", "Notas!B2", "No publicar"]


def test_formulas_show_their_saved_result(tmp_path: Path) -> None:
    path = tmp_path / "f.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Hoja1")
        money = book.add_format({"num_format": "#,##0.00"})
        sheet.write_row("A1", ["Concepto", "Importe"])
        sheet.write("A2", "Total")
        sheet.write_formula("B2", "=SUM(C1:C9)", money, 1234.5)
        sheet.write("A3", "Aprobado")
        sheet.write_boolean("B3", True)
        sheet.write("A4", "Error")
        sheet.write_formula("B4", "=1/0", None, "#DIV/0!")
        sheet.write_rich_string("A5", "en ", book.add_format({"bold": True}), "negrita", " no")
    assert "| Total | 1,234.50 |\n| Aprobado | TRUE |\n| Error | #DIV/0! |\n| en negrita no |  |" in texts(path)[2]


def test_a_formula_without_a_saved_result_is_shown_itself(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"], sheet["B1"] = "Suma", "=SUM(C1:C3)"
    book.save(tmp_path / "s.xlsx")
    assert "=SUM(C1:C3)" in texts(tmp_path / "s.xlsx")[2]


def test_joined_cells_and_two_rows_of_column_names(tmp_path: Path) -> None:
    path = tmp_path / "m.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("H")
        sheet.merge_range("A1:A2", "Zona")
        sheet.merge_range("B1:C1", "2026")
        sheet.write_row("B2", ["Q1", "Q2"])
        for row in range(2, 60):
            sheet.write_row(row, 0, [f"Z{row}", row, row * 2])
        sheet.merge_range("A61:A62", "Resto")
        sheet.write_row("B61", [1, 2])
        sheet.write_row("B62", [3, 4])
    blocks = [block for page in pages(path) for block in page.blocks]
    grids = [block for block in blocks if block.kind is BlockKind.TABLE]
    assert [b.text for b in blocks if b.kind is BlockKind.HEADING] == ["H", "H!A1:C32", "H!A33:C62"]
    for grid in grids:  # also where the header is shown again
        assert grid.text.startswith("| Zona | 2026 Q1 | 2026 Q2 |\n")
        assert grid.html is not None
        assert grid.html.startswith(
            '<table><tr><th rowspan="2">Zona</th><th colspan="2">2026</th></tr><tr><th>Q1</th><th>Q2</th></tr>'
        )
    assert grids[-1].html is not None
    assert '<td rowspan="2">Resto</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr>' in grids[-1].html


def test_column_names_above_an_empty_row_are_the_header(tmp_path: Path) -> None:
    path = tmp_path / "e.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("H")
        sheet.write_row("A1", ["Zona", "Ventas"])
        sheet.write_row("A3", ["Norte", 5])
        sheet.write_row("A4", ["Sur", 6])
        sheet.write_row("A7", ["Otra", "cosa"])
        sheet.write_row("A8", ["a", "b"])
    assert texts(path)[1:3] == ["H!A1:B4", "| Zona | Ventas |\n| --- | --- |\n| Norte | 5 |\n| Sur | 6 |"]
    assert texts(path)[3] == "H!A7:B8"


def test_a_range_is_boxed_where_its_cells_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "b.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("H")
        sheet.write_row("A1", ["Zona", "Ventas"])
        sheet.write_row("A2", ["Norte", 5])
        for row in range(5, 9):
            sheet.write_row(row, 0, ["█████", "█████"])  # ink
    with opened(path) as source:
        page = source.page(1)
        ink = np.asarray(page.render(100).convert("L")) < 100
    box = page.blocks[-1].bbox
    height, width = ink.shape
    top, bottom, left, right = (round(v) for v in (box.y0 * height, box.y1 * height, box.x0 * width, box.x1 * width))
    total = ink.sum()
    assert ink[top:bottom, left:right].sum() > 0.8 * total


def test_pictures_of_a_sheet_are_pages_after_it(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet["A1"] = "Con foto"
    sheet.add_image(SheetImage(io.BytesIO(picture_of("Recibo 44"))), "C3")
    book.save(tmp_path / "p.xlsx")
    with opened(tmp_path / "p.xlsx") as source:
        first, second = source.page(1), source.page(2)
        assert (first.is_picture, second.is_picture, second.render(200).size) == (False, True, (700, 160))


def test_a_long_sheet_is_pages_of_rows_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "long.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("H")
        sheet.write_row(0, 0, ["Clave", "Valor"])
        for row in range(1, 951):
            sheet.write_row(row, 0, [f"k{row}", row])
    read = pages(path)
    assert len(read) == 11
    tables = [block for page in read for block in page.blocks if block.kind is BlockKind.TABLE]
    assert all(table.text.startswith("| Clave | Valor |\n") for table in tables)
    rows = [line for table in tables for line in table.text.split("\n")[2:]]
    assert rows == [f"| k{row} | {row} |" for row in range(1, 951)]


def test_more_rows_than_are_read_are_told(tmp_path: Path) -> None:
    path = tmp_path / "huge.xlsx"
    with xlsxwriter.Workbook(path, {"constant_memory": True}) as book:
        sheet = book.add_worksheet("H")
        for row in range(20_000):
            sheet.write_row(row, 0, [row, row])
    begun = time.perf_counter()  # the other rows are not looked at
    with opened(path, sheet_rows=1_000) as source:
        assert source.damage == (
            "H goes on below row 1000, where reading stopped: at most 1000 rows of a sheet and 1500000 cells of a file "
            "are read."
        )
        assert "| 999 | 999 |" in source.page(source.page_count).blocks[-1].text
    assert time.perf_counter() - begun < 2


def test_an_empty_workbook_is_empty() -> None:
    with pytest.raises(EmptyFile, match="nothing in the sheets"):
        opened(shared("broken_or_hostile/empty.xlsx"))


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("stanley-cups.xlsx", ["| Maple Leafs | TOR | 13 |", "'Stanley Cups'!A1:C5"]),
        (
            "2023-half-year-analyses-by-segment.xlsx",
            ["| Zone AOA | 9,060 | 2,068 | 1,985 | (83) | (49) | (16) | (259) |"],
        ),
        ("vodafone.xlsx", ["| Average foreign exchange rates | Nine quarters to 30 June 2023 | 14 |"]),
        ("docling_csv-semicolon.csv", ["| 4 | 5Cef8BFA16c5e3c | Linda | Olsen | Dominguez;Mcmillan and Donovan |"]),
    ],
)
def test_real_sheets(file: str, wanted: list[str]) -> None:
    text = "\n".join(texts(shared(f"office/{file}")))
    assert [each for each in wanted if each not in text] == []


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_delimited_text_of_any_separator_and_encoding(separator: str, encoding: str, tmp_path: Path) -> None:
    rows = [
        ["Nombre", "Nota"],
        ["Muñoz, Ana", 'dijo "sí"; y calló | fin'],
        ["Peña", "dos\nlíneas"],
        ["López", "1.250,50"],
    ]
    lines = [separator.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path = tmp_path / "datos.csv"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    (kind, text) = told(path)[-1]
    assert kind == "table"
    assert text == (
        '| Nombre | Nota |\n| --- | --- |\n| Muñoz, Ana | dijo "sí"; y calló \\| fin |\n| Peña | dos líneas |\n'
        "| López | 1.250,50 |"
    )


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("sep=;\na;b\n1,5;2,5\n", ["| a | b |", "| 1,5 | 2,5 |"]),
        ("'a','b'\n'x, y','z'\n'u','v'\n", ["| a | b |", "| x, y | z |"]),
        ('a,b\n5" disco,x\n7" disco,y\n' + "".join(f"{n},z\n" for n in range(60)), ['| 5" disco | x |', "| 59 | z |"]),
        ("importe;fecha\n1.250,50;2026-01-02\n98,00;2026-01-03\n", ["| importe | fecha |", "| 98,00 | 2026-01-03 |"]),
    ],
)
def test_odd_delimited_text(content: str, rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(content, "utf-8")
    text = "\n".join(texts(path))
    assert [row for row in rows if row not in text] == []


def test_a_text_that_is_only_called_csv_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "carta.csv"
    path.write_text("Estimada señora Pérez:\n\nLe escribo para pedirle un favor.\n", "utf-8")
    assert told(path) == [("paragraph", "Estimada señora Pérez:"), ("paragraph", "Le escribo para pedirle un favor.")]
