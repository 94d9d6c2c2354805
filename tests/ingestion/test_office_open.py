"""OpenDocument and Rich Text, from XML and words written after their standards."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.core.domain import BlockKind
from assistant.core.errors import EncryptedFile, UnreadableFile, UnsupportedFile
from tests.documents import shared
from tests.ingestion.officefiles import open_document, opened, pages, picture_of, texts, told, zipped

LISTS = (
    '<text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1" '
    'style:num-suffix="."/><text:list-level-style-bullet text:level="2" text:bullet-char="•"/></text:list-style>'
    '<style:style style:name="T1" style:family="text"><style:text-properties text:display="none"/></style:style>'
)


def cell(text: str, more: str = "") -> str:
    return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"


def test_a_text(tmp_path: Path) -> None:
    body = (
        '<text:tracked-changes><text:changed-region><text:deletion><text:p>Borrado</text:p></text:deletion>'
        "</text:changed-region></text:tracked-changes>"
        '<text:h text:outline-level="1">Contrato</text:h>'
        '<text:p>Plazo<text:s text:c="2"/>de '
        '<text:span>quince</text:span><text:span text:style-name="T1"> mil</text:span>'
        ' días<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>Hábiles.</text:p></text:note-body></text:note>.</text:p>"
        '<text:list text:style-name="L1"><text:list-item><text:p>uno</text:p><text:list><text:list-item><text:p>punto'
        "</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>dos</text:p></text:list-item>"
        "</text:list>"
        "<table:table><table:table-header-rows><table:table-row>" + cell("Zona") + cell("€") + "</table:table-row>"
        "</table:table-header-rows><table:table-row>" + cell("Norte", 'table:number-rows-spanned="2"') + cell("5")
        + "</table:table-row><table:table-row><table:covered-table-cell/>" + cell("6") + "</table:table-row>"
        "</table:table>"
        "<text:p>Fin<office:annotation><dc:creator>Ana</dc:creator><text:p>¿Seguro?</text:p></office:annotation>"
        '<draw:frame><draw:image xlink:href="Pictures/a.png"/><svg:desc>Sello</svg:desc></draw:frame>'
        '<draw:frame><draw:image xlink:href="http://example.org/b.png"/></draw:frame>'
        "<draw:frame><draw:text-box><text:p>En el cuadro</text:p></draw:text-box></draw:frame></text:p>"
    )  # fmt: skip
    path = open_document(tmp_path / "t.odt", "text", body, LISTS, {"Pictures/a.png": picture_of("Sello")})
    assert told(path) == [
        ("heading", "Contrato"),
        ("paragraph", "Plazo  de quince días[^1]."),
        ("paragraph", "[^1]: Hábiles."),
        ("list", "1. uno\n  - punto\n2. dos"),
        ("table", "| Zona | € |\n| --- | --- |\n| Norte | 5 |\n| Norte | 6 |"),
        ("paragraph", "Fin"),
        ("figure", "Sello"),
        ("paragraph", "En el cuadro"),
        ("paragraph", "[comment by Ana: ¿Seguro?]"),
    ]
    assert len(pages(path)[0].pictures) == 1


def test_sheets(tmp_path: Path) -> None:
    styles = (
        '<style:style style:name="ta2" style:family="table"><style:table-properties table:display="false"/>'
        "</style:style>"
    )
    body = (
        '<table:table table:name="Ventas"><table:table-column table:number-columns-repeated="2"/>'
        '<table:table-column table:visibility="collapse"/><table:table-row>'
        + cell("Zona") + cell("2026", 'table:number-columns-spanned="2"')
        + "<table:covered-table-cell/></table:table-row>"
        "<table:table-row>" + cell("Norte")
        + '<table:table-cell office:value-type="float" office:value="1250.5"><text:p>1.250,50 €</text:p>'
        "<office:annotation><dc:creator>Ana</dc:creator><text:p>Sin IVA</text:p></office:annotation></table:table-cell>"
        + cell("5")
        + '</table:table-row><table:table-row table:visibility="filter" table:number-rows-repeated="2">' + cell("Sur")
        + cell("1") + cell("2") + '</table:table-row><table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>'
        '<table:table table:name="Oculta" table:style-name="ta2"><table:table-row>' + cell("x") + cell("y")
        + "</table:table-row></table:table>"
    )  # fmt: skip
    first, second = pages(open_document(tmp_path / "s.ods", "spreadsheet", body, styles))
    assert [block.text for block in first.blocks] == [
        "Ventas",
        "Ventas!A1:C4",
        "| Zona | 2026 | 2026 |\n| --- | --- | --- |\n| Norte | 1.250,50 € | 5 |\n| Sur (hidden row) | 1 | 2 |\n"
        "| Sur (hidden row) | 1 | 2 |",
        "[comment on B2 by Ana: Sin IVA]",
    ]
    assert [block.text for block in second.blocks] == ["Oculta (hidden)", "Oculta!A1:B1", "| x | y |\n| --- | --- |"]


def test_slides(tmp_path: Path) -> None:
    styles = (
        '<style:style style:name="dp1" style:family="drawing-page"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style>'
    )
    box = (
        "<draw:frame {} svg:x='{}cm' svg:y='{}cm' svg:width='14cm' svg:height='2cm'><draw:text-box>{}</draw:text-box>"
        "</draw:frame>"
    )
    body = (
        "<draw:page draw:name='p1'>" + box.format("", 0, 8, "<text:p>Abajo</text:p>")
        + box.format("presentation:class='title'", 0, 0, "<text:p>Título</text:p>")
        + "<presentation:notes>" + box.format("presentation:class='notes'", 0, 0, "<text:p>Despacio.</text:p>")
        + "</presentation:notes></draw:page><draw:page draw:style-name='dp1'>"
        + box.format("", 0, 1, "<text:p>Otra</text:p>") + "</draw:page>"
    )  # fmt: skip
    first, second = pages(open_document(tmp_path / "p.odp", "presentation", body, styles))
    assert [block.text for block in first.blocks] == ["Título", "Abajo", "Speaker notes", "Despacio."]
    assert [block.text for block in second.blocks] == ["Slide 2 (hidden slide)", "Otra"]
    below = first.blocks[1].bbox
    assert (round(below.x1, 2), round(below.y0 * first.height)) == (0.5, round(8 * 72 / 2.54))


def test_locked_and_strange_open_documents_are_refused(tmp_path: Path) -> None:
    lock = (
        b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><manifest:file-entry>'
        b"<manifest:encryption-data/></manifest:file-entry></manifest:manifest>"
    )
    locked = open_document(tmp_path / "l.odt", "text", "", parts={"META-INF/manifest.xml": lock})
    with pytest.raises(EncryptedFile, match="behind a password"):
        opened(locked)
    with pytest.raises(UnsupportedFile, match="OpenDocument formula"):
        opened(zipped(tmp_path / "f.odf", {"mimetype": "application/vnd.oasis.opendocument.formula"}))


def test_numbers_of_a_list_go_on_where_the_file_says_so(tmp_path: Path) -> None:
    one = '<text:list text:style-name="L1" {}><text:list-item><text:p>x</text:p></text:list-item></text:list>'
    body = one.format("") + "<text:p>a</text:p>" + one.format('text:continue-numbering="true"') + "<text:p>b</text:p>"
    path = open_document(tmp_path / "n.odt", "text", body + one.format(""), LISTS)
    assert texts(path) == ["1. x", "a", "2. x", "b", "1. x"]


def rtf(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "r.rtf"
    head = (
        r"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial Cyr;}}{\stylesheet{\s0 Normal;}"
        r"{\s1\outlinelevel0 heading 1;}{\s2 heading 2;}}{\info{\author Nadie}}"
    )
    path.write_bytes((head + body + "}").encode("latin-1"))
    return path


def test_rich_text(tmp_path: Path) -> None:
    body = (
        r"{\header\pard Confidencial\par}\pard\s1 Contrato\par\pard\s2 Plazos\par"
        r"\pard\s0 A\'f1o \u8364?5 {\v oculto}{\deleted borrado}{\f1 \'cf\'f0\'e8}{\footnote\pard \chftn  Nota.}\par"
        r"{\field{\*\fldinst HYPERLINK x}{\fldrslt enlace}} {\*\unknown nada}\{llaves\}\line dos\par"
        r"{\listtext\pard 1.\tab}\pard\ilvl0 uno\par{\listtext\pard\'b7\tab}\pard\ilvl1 punto\par"
        r"\trowd\cellx1000\cellx2000\cellx3000\pard\intbl Zona\cell 2025\cell 2026\cell\row"
        r"\trowd\clvmgf\cellx1000\cellx3000\pard\intbl Norte\cell 7\par y 9\cell\row"
        r"\trowd\clvmrg\cellx1000\cellx2000\cellx3000\pard\intbl \cell 1\cell 2\cell\row"
        r"\pard Fin.\par"
    )
    path = rtf(tmp_path, body)
    assert told(path) == [
        ("header", "Confidencial"),
        ("heading", "Contrato"),
        ("heading", "Plazos"),
        ("paragraph", "Año €5 При[^1]"),
        ("paragraph", "enlace {llaves}\ndos"),
        ("list", "1. uno\n  - punto"),
        ("table", "| Zona | 2025 | 2026 |\n| --- | --- | --- |\n| Norte | 7 y 9 |  |\n| Norte | 1 | 2 |"),
        ("paragraph", "Fin."),
        ("paragraph", "[^1]: Nota."),
    ]
    (grid,) = [block for block in pages(path)[0].blocks if block.kind is BlockKind.TABLE]
    assert grid.html is not None
    assert '<td rowspan="2">Norte</td><td colspan="2">7\ny 9</td>' in grid.html


def test_pictures_and_letters_of_several_bytes_in_rich_text(tmp_path: Path) -> None:
    picture = picture_of("Sello").hex()
    path = rtf(tmp_path, rf"{{\*\shppict{{\pict\pngblip {picture}}}}}{{\nonshppict{{\pict\wmetafile8 0102}}}}\par")
    assert len(pages(path)[0].pictures) == 1
    japanese = "".join(f"\\'{byte:02x}" for byte in "日本語".encode("cp932"))
    with_font = tmp_path / "j.rtf"
    with_font.write_text(rf"{{\rtf1\ansi{{\fonttbl{{\f0\fcharset128 M;}}}}\f0 {japanese} \u-10179?\u-8704?\par}}")
    assert texts(with_font) == ["日本語 😀"]


def test_a_cut_rich_text_is_read_to_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "cut.rtf"
    path.write_bytes(rb"{\rtf1\ansi\pard Primero.\par Segundo")
    assert texts(path) == ["Primero.", "Segundo"]
    with opened(path) as source:
        assert "ends in the middle" in source.damage
    deep = tmp_path / "deep.rtf"
    deep.write_bytes(rb"{\rtf1 " + b"{" * 50_000 + b"x" + b"}" * 50_001)
    with pytest.raises(UnreadableFile, match="nests more"):
        opened(deep)


def test_a_real_open_document_and_its_twin_in_rich_text() -> None:
    odt, rich = (texts(shared(f"office/eng_spa_mult.{suffix}")) for suffix in ("odt", "rtf"))
    assert odt == rich
