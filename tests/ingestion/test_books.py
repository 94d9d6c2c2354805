"""Books in reading order, with their pictures; what is protected or hostile is refused in words."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from assistant.core.domain import BlockKind
from assistant.core.errors import EncryptedFile, UnreadableFile
from assistant.core.settings import LimitSettings
from ingestion.sources import Source, open_source
from tests.documents import shared

LIMITS = LimitSettings()
CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="2.0">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>El faro</dc:title>
<dc:creator>Ana Ruiz</dc:creator></metadata>
<manifest><item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="c2" href="text/dos.xhtml" media-type="application/xhtml+xml"/>
<item id="c1" href="text/uno%20.xhtml" media-type="application/xhtml+xml"/>
<item id="p" href="img/plano.png" media-type="image/png"/></manifest>
<spine toc="ncx"><itemref idref="c1"/><itemref idref="c2"/><itemref idref="gone"/></spine></package>"""
NCX = """<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN"
"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Primera parte</text></navLabel>
<content src="text/uno%20.xhtml"/><navPoint><navLabel>
<text>La tormenta</text></navLabel><content src="text/dos.xhtml#x"/>
</navPoint></navPoint></navMap></ncx>"""
ONE = """<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/>
<script src="x.js"/></head>
<body><p>El farero subió.<a id="n"/> Era tarde.</p><img src="../img/plano.png" alt="Plano del faro"/></body></html>"""
TWO = '<html><body><p>Llovía sobre el mar.</p><img src="http://x.example/a.png"/></body></html>'


def png() -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (200, 100), "red").save(held, "PNG")
    return held.getvalue()


def book(folder: Path, **changes: str | bytes) -> Source:
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": PACKAGE,
        "OEBPS/toc.ncx": NCX,
        "OEBPS/text/uno .xhtml": ONE,
        "OEBPS/text/dos.xhtml": TWO,
        "OEBPS/img/plano.png": png(),
        **{
            name.replace("__", "/").replace("_xml", ".xml").replace("_opf", ".opf"): data
            for name, data in changes.items()
        },
    }
    path = folder / "libro.epub"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return open_source(path, limits=LIMITS)


def test_chapters_begin_pages_in_reading_order(tmp_path: Path) -> None:
    with book(tmp_path) as source:
        assert (source.media_type, source.page_count, source.damage) == ("application/epub+zip", 2, "")
        first, second = source.page(1), source.page(2)
        assert [(block.kind, block.text, block.level) for block in first.blocks] == [
            (BlockKind.HEADING, "El faro", 1),
            (BlockKind.PARAGRAPH, "Ana Ruiz", 0),
            (BlockKind.HEADING, "Primera parte", 1),
            (BlockKind.PARAGRAPH, "El farero subió. Era tarde.", 0),
            (BlockKind.FIGURE, "Plano del faro", 0),
        ]
        assert [(block.text, block.level) for block in second.blocks] == [
            ("La tormenta", 2),
            ("Llovía sobre el mar.", 0),
        ]
        (box,) = first.pictures
        drawn = first.render(100)
        assert drawn.getpixel((int((box.x0 + 0.02) * drawn.width), int((box.y0 + 0.02) * drawn.height))) == (255, 0, 0)


def test_a_real_book_of_the_third_version() -> None:
    with open_source(shared("office/eng_spa_mult.epub"), limits=LIMITS) as source:
        words = re.findall(
            r"\w+", " ".join(b.text for n in range(source.page_count) for b in source.page(n + 1).blocks)
        )
    truth = re.findall(r"\w+", shared("gt/text_layer/eng_spa_mult.txt").read_text("utf-8"))
    assert words == ["Untitled", "document", *truth]


def test_a_real_book_with_a_cover_and_many_chapters() -> None:
    with open_source(shared("office/winter-sports.epub"), limits=LIMITS) as source:
        assert source.page_count > 100
        cover = source.page(1)
        assert cover.blocks[0].text == "Winter Sports in Switzerland"
        assert len(cover.pictures) == 1
        pages = [source.page(number) for number in range(1, source.page_count + 1)]
    headings = [block.text for page in pages for block in page.blocks if block.kind is BlockKind.HEADING]
    assert any("TOBOGGANING" in heading.upper() for heading in headings)
    assert sum(len(block.text) for page in pages for block in page.blocks) > 250_000


@pytest.mark.parametrize("part", ["META-INF__container_xml", "OEBPS__book_opf"])
def test_entities_are_refused(part: str, tmp_path: Path) -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>'
    with pytest.raises(UnreadableFile, match="declares XML entities"):
        book(tmp_path, **{part: bomb})


def test_entities_in_a_chapter_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE html [<!ENTITY a "BUM"><!ENTITY f SYSTEM "file:///etc/passwd">]><html><body><p>x&a;&f;y</p></body></html>'
    with book(tmp_path, **{"OEBPS/text/dos.xhtml": bomb}) as source:
        text = source.page(2).blocks[-1].text
    assert "BUM" not in text.replace("&a;", "").replace('"BUM"', "") and "root:" not in text


def test_a_protected_book_is_refused_and_disguised_fonts_are_not(tmp_path: Path) -> None:
    listed = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
        xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:EncryptionMethod Algorithm="{}"/>
        </enc:EncryptedData></encryption>"""
    with pytest.raises(EncryptedFile, match="protected against copying"):
        book(tmp_path, **{"META-INF__encryption_xml": listed.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")})
    with book(tmp_path, **{"META-INF__encryption_xml": listed.format("http://www.idpf.org/2008/embedding")}) as source:
        assert source.page_count == 2


def test_a_missing_chapter_costs_only_itself(tmp_path: Path) -> None:
    broken = PACKAGE.replace("text/dos.xhtml", "text/fehlt.xhtml")
    with book(tmp_path, OEBPS__book_opf=broken) as source:
        assert source.page_count == 1
        assert "fehlt.xhtml is missing" in source.damage
