"""What a vision-language model writes, as blocks; and the replies that are not to be trusted."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import pytest

from assistant.core.domain import BlockKind
from ingestion.readers.htmltable import find_tables, read_table
from ingestion.readers.reply import fault_of, is_blank, pieces_of, repeated_unit
from tests.documents import SHARED, shared

REPLY = """\
# Informe anual

El **beneficio** creció.
Segunda línea.

- uno
- dos
  - dos y medio

<table><tr><th colspan="2">Año 2023</th></tr>
<tr><td rowspan=2>Madrid</td><td>1.234,50 €</td></tr>

<tr><td>a | b &amp; c</td></tr></table>

## Firma

| A | B |
|---|---|
| 1 | 2 |

$$E = mc^2$$

[figure]
Ventas 2020 2021
"""


def test_markdown_and_html_become_blocks_in_order() -> None:
    pieces = pieces_of(REPLY)
    assert [(piece.kind, piece.level) for piece in pieces] == [
        (BlockKind.HEADING, 1),
        (BlockKind.PARAGRAPH, 0),
        (BlockKind.LIST, 0),
        (BlockKind.TABLE, 0),
        (BlockKind.HEADING, 2),
        (BlockKind.TABLE, 0),
        (BlockKind.EQUATION, 0),
        (BlockKind.FIGURE, 0),
    ]
    assert pieces[0].text == "Informe anual"
    assert pieces[1].text == "El **beneficio** creció.\nSegunda línea."
    assert pieces[2].text == "- uno\n- dos\n  - dos y medio"
    assert pieces[3].text == (
        "| Año 2023 | Año 2023 |\n| --- | --- |\n| Madrid | 1.234,50 € |\n| Madrid | a \\| b & c |"
    )
    assert pieces[3].html == (
        '<table><tr><th colspan="2">Año 2023</th></tr><tr><td rowspan="2">Madrid</td><td>1.234,50 €</td></tr>'
        "<tr><td>a | b &amp; c</td></tr></table>"
    )
    assert pieces[5].html == "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert pieces[7].text == "Ventas 2020 2021"


def test_nothing_of_the_models_html_reaches_a_browser_but_text() -> None:
    cell = '<td style="a" onclick="b()"><script>alert(1)</script><b>7 &lt;i&gt;</b><img src=x></td>'
    [piece] = pieces_of(f'<table onload="x()"><tr>{cell}</table>')
    assert piece.html == "<table><tr><td>7 &lt;i&gt;</td></tr></table>"
    assert piece.text == "| 7 <i> |\n| --- |"


@pytest.mark.parametrize(
    "wrapped", ["```markdown\n# T\n\nx\n```", "Here is the transcription:\n\n# T\n\nx", "# T\n\nx"]
)
def test_wrappings_come_off(wrapped: str) -> None:
    assert [piece.text for piece in pieces_of(wrapped)] == ["T", "x"]


@pytest.mark.parametrize("reply", ["", "  \n", "[blank]", "[Blank]\n", "```\n[blank]\n```", "blank"])
def test_a_blank_page_has_no_blocks(reply: str) -> None:
    assert is_blank(reply)
    assert pieces_of(reply) == []
    assert fault_of(reply, truncated=False, inked=False) == ""
    assert "saw nothing" in fault_of(reply, truncated=False, inked=True)


def test_a_wild_span_costs_nothing() -> None:
    table = read_table('<table><tr><td colspan="99999999" rowspan="x">a</td><td>b</td></tr></table>')
    assert len(table.grid()[0]) <= 101


def test_unclosed_and_nested_tables_are_found() -> None:
    parts = list(
        find_tables("a <table><tr><td><TABLE><tr><td>1</td></tr></TABLE></td></tr></table> b <table><tr><td>2")
    )
    assert [is_table for _, is_table in parts] == [False, True, False, True]
    assert read_table(parts[3][0]).grid() == [["2"]]


@pytest.mark.parametrize("path", sorted((SHARED / "gt" / "icdar2013").glob("*-str.xml")), ids=lambda path: path.stem)
def test_published_tables_survive_the_way_through_html(path: Path) -> None:
    """Tables with merged cells as people annotated them (ICDAR 2013), written as a model would."""
    for table in ET.parse(path).getroot().iter("table"):
        cells = {
            (int(cell.get("start-row", 0)), int(cell.get("start-col", 0))): (
                " ".join((cell.findtext("content") or "").split()),
                int(cell.get("end-row", cell.get("start-row", 0))),
                int(cell.get("end-col", cell.get("start-col", 0))),
            )
            for region in list(table.iter("region"))[:1]
            for cell in region.iter("cell")
        }
        grid = read_table(html_of(cells)).grid()
        for (row, column), (text, end_row, _) in cells.items():
            for covered in range(row, end_row + 1):
                assert grid[covered][column] == text, (row, column)


def html_of(cells: dict[tuple[int, int], tuple[str, int, int]]) -> str:
    """The annotated cells as an HTML table; places nobody annotated are empty cells."""
    taken = {
        (r, c): (row, column)
        for (row, column), (_, end_row, end_column) in cells.items()
        for r in range(row, end_row + 1)
        for c in range(column, end_column + 1)
    }
    rows, columns = (max(place[axis] for place in taken) + 1 for axis in (0, 1))
    html = "<table>"
    for row in range(rows):
        html += "<tr>"
        for column in range(columns):
            owner = taken.get((row, column))
            if owner is None:
                html += "<td></td>"
            elif owner == (row, column):
                text, end_row, end_column = cells[owner]
                html += f"<td rowspan={end_row - row + 1} colspan='{end_column - column + 1}'>{escape(text)}</td>"
        html += "</tr>"
    return html + "</table>"


@pytest.mark.parametrize(
    ("reply", "truncated", "told"),
    [
        ("the same thing again " * 200, True, "repeated itself"),
        ("Total\n" + "Subtotal de la partida anterior\n" * 40, False, "repeated itself"),
        ("A page that goes on and", True, "cut off"),
        ("<think>The image shows an invoice</think># Invoice", False, "reasoning"),
        ("Okay, let me see.</think>\n# Invoice", False, "reasoning"),
        ("I'm sorry, but I can't assist with transcribing this image.", False, "refused"),
        ("Lo siento, no puedo leer el texto de esta imagen.", False, "refused"),
        ("As an AI model I am unable to view the document.", False, "refused"),
    ],
)
def test_known_failures_are_recognised(reply: str, truncated: bool, told: str) -> None:
    assert told in fault_of(reply, truncated=truncated, inked=True)


@pytest.mark.parametrize(
    "reply",
    [
        "Lo siento mucho, querida Ana. Te escribo desde Vigo, donde llueve.",
        "I am sorry to hear of your loss.\n\nYours, J. Smith",
        "<table>" + "<tr><td>0,00</td><td>0,00</td><td></td></tr>" * 60 + "</table>",
        "Nombre ........................................ " * 8,
        "<table>" + "".join(f"<tr><td>{n}</td><td>no</td><td>no</td></tr>" for n in range(60)) + "</table>",
        "the the the",
    ],
)
def test_honest_pages_are_not_taken_for_failures(reply: str) -> None:
    assert fault_of(reply, truncated=False, inked=True) == ""


def test_no_real_page_is_taken_for_a_failure() -> None:
    """The true text of every page in the collection that has one."""
    texts = [path.read_text("utf-8", "replace") for path in sorted(shared("gt/text_layer").glob("*.txt"))]
    texts += [path.read_text("utf-8", "replace") for path in sorted(shared("gt/tables_csv").glob("*.csv"))]
    assert len(texts) > 10
    assert {text[:60]: fault for text in texts if (fault := fault_of(text, truncated=False, inked=True))} == {}


def test_the_repeated_unit_is_found_wherever_it_begins() -> None:
    unit = repeated_unit("One page of honest text. " + "and so on and " * 30)
    assert sorted(unit.split()) == ["and", "and", "on", "so"]
    assert repeated_unit("") == ""
