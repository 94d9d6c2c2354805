"""What bad office files get: a bound, or a refusal that says why. Nothing is fetched, run or expanded."""

from __future__ import annotations

import random
import resource
import socket
import zipfile
from pathlib import Path

import pytest
import xlsxwriter

from assistant.core.errors import EncryptedFile, PeritoError, TooLarge, UnreadableFile
from ingestion.sources.package import Package
from tests.documents import shared
from tests.ingestion.officefiles import LIMITS, opened, paragraph, picture_of, texts, word, zipped

ENTITIES = (
    '<!DOCTYPE d [<!ENTITY a "ja"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY x SYSTEM "file:///etc/passwd">]>'
)


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooLarge, match="decompression bomb"):
        opened(shared("broken_or_hostile/deflate_bomb_200MB.docx"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_what_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(1_500_000)
    path = word(tmp_path / "big.docx", paragraph("x"), {"media/a.bin": noise})
    assert texts(path) == ["x"]
    with pytest.raises(TooLarge, match="unpacks to 2 MB; the limit is 1 MB"):
        opened(path, unpacked_mb=1)


def test_a_part_that_lies_about_its_size_is_read_no_further(tmp_path: Path) -> None:
    path = word(tmp_path / "lie.docx", paragraph("x" * 50_000))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("word/document.xml").file_size
    data = data.replace(size.to_bytes(4, "little"), (400).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match="damaged"):
        opened(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("part", ["document.xml", "styles.xml", "_rels/document.xml.rels"])
def test_entities_are_refused_wherever_they_stand(part: str, encoding: str, tmp_path: Path) -> None:
    far = f'<?xml version="1.0" encoding="{encoding}"?><!-- {"x" * 70_000} -->'  # beyond the first piece read
    hostile = (far + ENTITIES + "<d>&c;&x;</d>").encode(encoding)
    path = word(tmp_path / "e.docx", paragraph("x"), {part: hostile}, "r1=styles:styles.xml")
    with pytest.raises(UnreadableFile, match="declares XML entities"):
        opened(path)


def test_the_shared_hostile_files() -> None:
    with pytest.raises(UnreadableFile, match="declares XML entities"):
        opened(shared("broken_or_hostile/entity_expansion.docx"))
    with pytest.raises(EncryptedFile, match="behind a password"):
        opened(shared("broken_or_hostile/password_protected.xlsx"))


def test_links_out_of_the_file_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something wants the network")

    monkeypatch.setattr(socket, "socket", refuse)
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="x/image" Target="http://127.0.0.1:9/a.png" TargetMode="External"/>'
        '<Relationship Id="r2" Type="x/attachedTemplate" Target="file:///etc/passwd" TargetMode="External"/>'
        '<Relationship Id="r3" Type="x/image" Target="../../../../etc/passwd"/></Relationships>'
    )
    drawn = '<w:p><w:r><w:drawing><a:blip r:embed="{}"/></w:drawing></w:r></w:p>'
    body = drawn.format("r1") + drawn.format("r3") + paragraph("Texto")
    assert texts(word(tmp_path / "l.docx", body, {"_rels/document.xml.rels": rels})) == ["Texto"]


def test_macros_are_parts_like_others(tmp_path: Path) -> None:
    path = word(tmp_path / "m.docm", paragraph("Con macros"), {"vbaProject.bin": b"\x00" * 100, "media/x.png": b"no"})
    assert texts(path) == ["Con macros"]


def test_a_truncated_file_is_refused_and_a_broken_part_noted(tmp_path: Path) -> None:
    whole = word(tmp_path / "w.docx", paragraph("x"), {"styles.xml": "<w:styles"}, "r1=styles:styles.xml")
    with opened(whole) as source:
        assert "styles.xml cannot be read" in source.damage
    cut = tmp_path / "cut.docx"
    cut.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(UnreadableFile, match="damaged Office file"):
        opened(cut)


def test_a_damaged_list_of_parts_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    path = word(tmp_path / "list.docx", paragraph("Hola mundo"))
    with zipfile.ZipFile(path) as whole:
        entry = whole.getinfo("[Content_Types].xml")
        assert entry.compress_type == zipfile.ZIP_DEFLATED
        begin = entry.header_offset + 30 + len(entry.filename)
    data = bytearray(path.read_bytes())
    data[begin : begin + 20] = b"\xff" * 20  # no deflate stream begins so
    path.write_bytes(data)
    assert texts(path) == ["Hola mundo"]


def test_an_office_file_by_another_name_and_a_zip_that_is_none(tmp_path: Path) -> None:
    path = word(tmp_path / "informe.pdf", paragraph("Soy de Word"))
    assert texts(path) == ["Soy de Word"]
    with pytest.raises(PeritoError):
        opened(zipped(tmp_path / "x.docx", {"word/readme.txt": "no"}))


def test_a_sheet_that_breaks_off_keeps_its_rows(tmp_path: Path) -> None:
    path, cut = tmp_path / "s.xlsx", tmp_path / "cut.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("H")
        for row in range(500):
            sheet.write_row(row, 0, [f"k{row}", row])
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(cut, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data[: len(data) // 2] if name.endswith("sheet1.xml") else data)
    with opened(cut) as source:
        assert "what stands before was read" in source.damage
    assert any("| k100 | 100 |" in text for text in texts(cut))


def test_spans_and_references_that_make_no_sense(tmp_path: Path) -> None:
    cells = (
        f'<w:tc><w:tcPr><w:gridSpan w:val="999999999"/></w:tcPr>{paragraph("a")}</w:tc><w:tc>{paragraph("b")}</w:tc>'
    )
    strange = f'<w:tbl><w:tr><w:trPr><w:gridBefore w:val="-5"/></w:trPr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>'
    deep_drawing = f"<w:p><w:r><w:drawing>{'<a:g>' * 3_000}{'</a:g>' * 3_000}</w:drawing></w:r></w:p>"
    deep = "<w:tbl><w:tr><w:tc>" * 300 + paragraph("hondo") + "</w:tc></w:tr></w:tbl>" * 300
    lists = paragraph("x", '<w:numPr><w:ilvl w:val="77"/><w:numId w:val="zz"/></w:numPr>')
    body = strange + deep + deep_drawing + lists + '<w:p><w:r><w:fldChar w:fldCharType="end"/><w:t>y</w:t></w:r></w:p>'
    said = texts(word(tmp_path / "odd.docx", body))
    assert said[0].startswith("| a |")
    assert said[-2:] == ["x", "y"]


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx", "odt", "rtf"])
def test_flipped_bytes_never_crash(kind: str, tmp_path: Path) -> None:
    """Damage inside the parts: the archive is whole, its XML is not."""
    source = {
        "docx": "office/docling_word_sample.docx", "xlsx": "office/stanley-cups.xlsx", "odt": "office/eng_spa_mult.odt",
        "pptx": "office/docling_powerpoint_sample.pptx", "rtf": "office/eng_spa_mult.rtf",
    }[kind]  # fmt: skip
    chance = random.Random(kind)
    original = shared(source).read_bytes()
    for round_ in range(12):
        path = tmp_path / f"{round_}.{kind}"
        if kind == "rtf":
            data = bytearray(original[:60_000])
            for _ in range(60):
                data[chance.randrange(6, len(data))] = chance.choice(b"\\{}'u0;x")
            path.write_bytes(data)
        else:
            with zipfile.ZipFile(shared(source)) as old, zipfile.ZipFile(path, "w") as new:
                for name in old.namelist():
                    data = bytearray(old.read(name))
                    if name.endswith((".xml", ".rels")) and chance.random() < 0.3 and data and "Content_T" not in name:
                        for _ in range(chance.randrange(1, 6)):
                            data[chance.randrange(len(data))] = chance.choice(b'<>/"&x0 =')
                    new.writestr(name, bytes(data))
        try:
            with opened(path) as read:
                for number in range(1, read.page_count + 1):
                    read.page(number)
        except PeritoError as error:
            assert error.advice


def test_parts_are_found_whatever_their_case(tmp_path: Path) -> None:
    path = zipped(tmp_path / "c.docx", {"Word\\Document.XML": "<a/>", "word/media/p.png": picture_of("x")})
    package = Package(path, "c.docx", LIMITS)
    assert "word/document.xml" in package
    assert package.tree("/word/document.xml").tag == "a"
    package.close()
