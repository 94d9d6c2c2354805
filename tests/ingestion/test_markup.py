"""HTML as people see it: structure and tables kept, what is hidden or foreign left out, nothing run or fetched."""

from __future__ import annotations

import base64
import io
import re
import time
from pathlib import Path

import pytest
from PIL import Image

from assistant.core.domain import Block, BlockKind
from assistant.core.errors import EmptyFile
from assistant.core.settings import LimitSettings
from ingestion.sources import open_source
from ingestion.sources.drawn import SectionSource
from ingestion.sources.markup import decode_markup, markup_parts
from ingestion.sources.sections import Part
from tests.documents import shared

LIMITS = LimitSettings()


def parts(html: str) -> list[Part]:
    return list(markup_parts(html, LIMITS))


def texts(html: str) -> list[str]:
    return [part.text for part in parts(html)]


def blocks_of(path: Path, name: str = "") -> list[Block]:
    with open_source(path, name=name, limits=LIMITS) as source:
        return [block for number in range(1, source.page_count + 1) for block in source.page(number).blocks]


def opened(folder: Path, html: str | bytes, name: str = "page.html") -> SectionSource:
    path = folder / name
    path.write_bytes(html if isinstance(html, bytes) else html.encode())
    source = open_source(path, limits=LIMITS)
    assert isinstance(source, SectionSource)
    return source


def test_hidden_orders_are_no_content() -> None:
    text = "\n".join(block.text for block in blocks_of(shared("broken_or_hostile/prompt_injection_en.html")))
    assert text == "Supplier note\nThe delivery date is 14 May 2026.\nContact: Dana Ruiz."


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>SECRET</p>",
        '<p style="Display : NONE">SECRET</p>',
        '<div style="visibility:hidden"><p>SECRET</p></div>',
        '<p style="font-size:0">SECRET</p>',
        '<p style="font-size: 1px;">SECRET</p>',
        '<p style="position:absolute;left:-9999px">SECRET</p>',
        '<p style="opacity:0">SECRET</p>',
        '<p style="color:#FFF">SECRET</p>',
        '<p class="x">SECRET</p><style>.x, .y { color: red; display: none }</style>',
        '<style>/* .z{} */ #q { visibility:hidden }</style><p id="q">SECRET</p>',
        "<script>document.write('SECRET')</script>",
        "<!-- SECRET -->",
        "<template>SECRET</template>",
        "<noscript>SECRET</noscript>",
        '<nav><a href="/">SECRET</a></nav>',
        '<div role="navigation">SECRET</div>',
        '<iframe srcdoc="&lt;p&gt;SECRET&lt;/p&gt;">SECRET</iframe>',
    ],
)
def test_what_the_page_does_not_show_is_left_out(hidden: str) -> None:
    assert texts(f"<body><p>The invoice is due on the third of May.</p>{hidden}<p>Yours, Ana</p>") == [
        "The invoice is due on the third of May.",
        "Yours, Ana",
    ]


@pytest.mark.parametrize(
    "shown",
    [
        '<style>@media print { .x { display:none } }</style><p class="x">SEEN</p>',
        '<style>.x { display:none } .x.open { display:block }</style><p class="x open">SEEN</p>',
        '<style>.x { display:none }</style><p class="x" style="display:block">SEEN</p>',
        "<style>body { visibility:hidden }</style><p>SEEN</p>",  # an anti-flicker sheet that a script takes away
        '<div style="font-size:0"><p style="font-size:14px">SEEN</p></div>',
        '<table><tr><td bgcolor="#000"><p style="color:#fff">SEEN</p></td></tr></table>',
        "<details><summary>More</summary>SEEN</details>",
        '<p style="font-size:1em">SEEN</p>',
    ],
)
def test_what_the_page_shows_is_kept(shown: str) -> None:
    assert "SEEN" in "\n".join(texts(f"<body>{shown}</body>"))


def test_an_article_keeps_its_structure_and_leaves_the_menus_out() -> None:
    """Against the Markdown that another parser, docling, made of the same page."""
    blocks = blocks_of(shared("office/docling_wiki_duck.html"))
    reference = shared("gt/docling_ref/docling_wiki_duck.html.md").read_text("utf-8")
    headings = [block.text for block in blocks if block.kind is BlockKind.HEADING]
    theirs = [line.lstrip("# ") for line in reference.splitlines() if line.startswith("## ")]
    wanted = [heading for heading in theirs if heading in headings]
    assert len(wanted) >= 6
    assert [heading for heading in headings if heading in wanted] == wanted
    text = "\n".join(block.text for block in blocks)
    paragraphs = [line for line in reference.splitlines() if len(line) > 200 and line[0].isalpha() and "[" not in line]
    words = set(re.findall(r"\w+", text))
    for line in paragraphs:
        ours = sum(word in words for word in re.findall(r"\w+", line)) / len(re.findall(r"\w+", line))
        assert ours > 0.97, line[:80]
    assert "Afrikaans" not in text and "Jump to content" not in text and "[edit]" not in text
    infobox = next(block for block in blocks if block.kind is BlockKind.TABLE)
    assert "| Class: | Aves |" in infobox.text
    assert '<th colspan="2">' in (infobox.html or "")


def test_tables_of_a_filing_lose_their_spacing_columns() -> None:
    tables = [block for block in blocks_of(shared("office/example-10k-1p.html")) if block.kind is BlockKind.TABLE]
    contents = next(table for table in tables if "Risk Factors" in table.text)
    assert "| Item 1A. | Risk Factors | 9 |" in contents.text
    assert contents.html is not None and "<td>Item 1A.</td><td>Risk Factors</td><td>9</td>" in contents.html
    stocks = next(table for table in tables if "Trading symbol" in table.text)
    assert "| Common stock | GLXZ | OTCQB marketplace |" in stocks.text


def test_the_same_text_as_the_truth() -> None:
    text = " ".join(block.text for block in blocks_of(shared("office/eng_spa_mult.html")))
    truth = shared("gt/text_layer/eng_spa_mult.txt").read_text("utf-8")
    assert re.findall(r"\w+", text) == re.findall(r"\w+", truth)


def test_merged_cells_are_kept() -> None:
    html = """<table><caption>Ventas</caption>
    <tr><th rowspan=2>Región<th colspan=2>2026</tr><tr><th>Enero<th>Febrero</tr>
    <tr><td rowspan="2">Norte<td>1<td>2</tr><tr><td>3<td>4</tr></table>"""
    caption, table = parts(html)
    assert (caption.kind, caption.text) == (BlockKind.CAPTION, "Ventas")
    assert table.html == (
        '<table><tr><th rowspan="2">Región</th><th colspan="2">2026</th></tr><tr><th>Enero</th><th>Febrero</th></tr>'
        '<tr><td rowspan="2">Norte</td><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>'
    )
    assert "| Norte | 3 | 4 |" in table.text


def test_tables_that_only_place_text_are_read_as_text() -> None:
    html = (
        "<table><tr><td><h1>Aviso</h1><p>Uno.</p></td><td><table><tr><th>a<th>b<tr><td>1<td>2</table></td></tr></table>"
    )
    assert [part.kind for part in parts(html)] == [BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.TABLE]


def test_lists_terms_code_and_signs() -> None:
    html = """<h2>Lista</h2><ol start=3><li>tres<ul><li>dentro</ul><li>cuatro</ol>
    <dl><dt>IVA<dd>21 %</dl><pre><code>if x:
        y()</code></pre><p>4 m<sup>2</sup> de H<sub>2</sub>O, <del>10</del> 12 €
    <br>fin&nbsp;aquí<a><sup>[1]</sup></a></p>"""
    assert texts(html) == [
        "Lista",
        "3. tres\n  - dentro\n4. cuatro",
        "- IVA: 21 %",
        "```\nif x:\n        y()\n```",
        "4 m² de H₂O, ~~10~~ 12 €\nfin aquí[1]",
    ]


def test_only_the_main_part_is_read_where_the_page_names_it() -> None:
    main = "<main><p>El plazo termina el día cinco.</p></main>"
    html = f"<title>Sede</title><header>Menú Buscar</header>{main}<footer>©</footer>"
    assert texts(html) == ["Sede", "El plazo termina el día cinco."]
    small = html.replace("El plazo termina el día cinco.", "")
    assert "Menú Buscar" in texts(small)
    foot = parts("<body><p>Texto de la página.</p><footer>Aviso legal</footer></body>")[-1]
    assert (foot.kind, foot.text) == (BlockKind.FOOTER, "Aviso legal")


def data_address(picture: Image.Image) -> str:
    held = io.BytesIO()
    picture.save(held, "PNG")
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def test_a_picture_written_into_the_page_stands_on_it(tmp_path: Path) -> None:
    seal = Image.new("RGB", (300, 200), "red")
    foreign = '<img src="https://example.org/x.png" alt="Plano">'
    html = f'<p>Antes</p><img alt="Sello" src="{data_address(seal)}"><p>Después</p>{foreign}'
    with opened(tmp_path, html) as source:
        page = source.page(1)
        assert [(block.kind, block.text) for block in page.blocks] == [
            (BlockKind.PARAGRAPH, "Antes"),
            (BlockKind.FIGURE, "Sello"),
            (BlockKind.PARAGRAPH, "Después"),
            (BlockKind.PARAGRAPH, "Plano"),
        ]
        (box,) = page.pictures
        assert page.blocks[1].bbox == box
        drawn = page.render(100)
        middle = int((box.x0 + box.x1) / 2 * drawn.width), int((box.y0 + box.y1) / 2 * drawn.height)
        assert drawn.getpixel(middle) == (255, 0, 0)
        assert box.width * 595 / (box.height * 842) == pytest.approx(1.5, rel=0.05)


def test_a_large_picture_is_a_page_of_its_own(tmp_path: Path) -> None:
    with opened(
        tmp_path, f'<p>Antes</p><img src="{data_address(Image.new("L", (1200, 1600), 90))}"><p>Después</p>'
    ) as source:
        assert source.page_count == 3
        page = source.page(2)
        assert page.is_picture
        assert page.render(200).size == (1200, 1600)


def test_the_title_stands_in_for_a_missing_heading() -> None:
    assert [(part.text, part.level) for part in parts("<title> Acta  7 </title><p>Uno")] == [("Acta 7", 1), ("Uno", 0)]
    assert texts("<title>Sitio</title><h1>Acta</h1>") == ["Acta"]


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("<p>¿Cuánto pagó Ibáñez? 12 €".encode("cp1252"), "windows-1252"),
        (b'<meta charset="iso-8859-1">' + "<p>¿Cuánto pagó Ibáñez? 12 €".encode("cp1252"), ""),
        (
            "<meta http-equiv=x content='text/html;charset=ISO-8859-1'><p>¿Cuánto pagó Ibáñez? 12 €".encode(),
            "",
        ),
        ("<p>¿Cuánto pagó Ibáñez? 12 €".encode("utf-16"), "latin-1"),
        ("<p>¿Cuánto pagó Ibáñez? 12 €".encode("utf-8-sig"), "cp1252"),
        ('<meta charset="utf-8"><p>¿Cuánto pagó Ibáñez? 12 €'.encode("cp1252"), ""),
        ("<p>¿Cuánto pagó Ibáñez? 12 €".encode(), "zip"),
        ("<p>¿Cuánto pagó Ibáñez? 12 €".encode(), "no-such-charset"),
    ],
)
def test_encodings_as_browsers_find_them(data: bytes, charset: str) -> None:
    text = decode_markup(data, charset)
    assert text is not None
    assert text.endswith("<p>¿Cuánto pagó Ibáñez? 12 €")


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 300_000 + "fondo",
        "<b>" * 100_000 + "fondo",
        "<ul><li>" * 50_000 + "fondo",
        "<table><tr><td>" * 20_000 + "fondo",
        "<x/>" * 200_000 + "fondo",
        "<a <a <a " * 100_000 + ">fondo",
        "<style>" + "a" * 1_000_000 + "</style>fondo",
        "<style>" + ".a{display:none}" * 50_000 + "</style>fondo",
        "<p>fondo" + "<!--" * 100_000,
        '<table><tr><td colspan="99999999" rowspan="99999999">fondo<td>1<tr><td>2</table>',
    ],
)
def test_hostile_markup_takes_little_time(html: str) -> None:
    begun = time.perf_counter()
    found = "\n".join(texts(html))
    assert "fondo" in found
    assert time.perf_counter() - begun < 5


def test_a_text_that_begins_with_a_tag_is_told_by_its_name(tmp_path: Path) -> None:
    text = "<div align=center>\n\n# Título\n\n</div>\n\n* uno\n* dos\n"
    with opened(tmp_path, text, "README.md") as source:
        assert source.media_type == "text/markdown"
    with opened(tmp_path, text, "page.htm") as source:
        assert source.media_type == "text/html"


def test_a_page_with_nothing_to_see_is_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "app.html"
    path.write_text("<!doctype html><html><body><div id=root></div><script>render()</script></body></html>")
    with pytest.raises(EmptyFile, match=r"no text to see in app\.html"):
        open_source(path, limits=LIMITS)
