"""Office files made by hand, for what libraries do not write: the XML that a test is about, and little around it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from assistant.core.settings import LimitSettings
from ingestion.pages import Page
from ingestion.sources import Source, open_source

LIMITS = LimitSettings()  # pyright: ignore[reportCallIssue]
W = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office", "text": "text", "table": "table", "style": "style", "draw": "drawing",
        "presentation": "presentation", "svg": "svg-compatible", "fo": "xsl-fo-compatible", "chart": "chart",
    }.items()
) + ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'  # fmt: skip


def zipped(path: Path, parts: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def word(path: Path, body: str, parts: dict[str, str | bytes] | None = None, relations: str = "") -> Path:
    """A Word document of this body; ``parts`` under word/, known by ``relations``: "r1=footnotes:footnotes.xml"."""
    told = [each.partition("=") for each in relations.split()]
    listed = "".join(
        f'<Relationship Id="{key}" Type="{_RELATIONS}/{rest.partition(":")[0]}" Target="{rest.partition(":")[2]}"/>'
        for key, _, rest in told
    )
    return zipped(
        path,
        {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/word/document.xml" ContentType="{_WORD}.document.main+xml"/></Types>',
            "_rels/.rels": f"{_rels()}<Relationship Id='rId1' Type='{_RELATIONS}/officeDocument' "
            "Target='word/document.xml'/></Relationships>",
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": f"{_rels()}{listed}</Relationships>",
            **{f"word/{name}": data for name, data in (parts or {}).items()},
        },
    )


def _rels() -> str:
    return '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'


def open_document(path: Path, kind: str, body: str, automatic: str = "", parts: dict[str, bytes] | None = None) -> Path:
    """An OpenDocument file; ``kind`` is "text", "spreadsheet" or "presentation"."""
    return zipped(
        path,
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {ODF}><office:automatic-styles>{automatic}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}></office:body>"
            "</office:document-content>",
            **(parts or {}),
        },
    )


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}<w:r><w:t>{text}</w:t></w:r></w:p>"


def picture_of(text: str, width: int = 700, height: int = 160) -> bytes:
    """A PNG that shows ``text``."""
    picture = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(picture).text((20, 40), text, fill="black", font=ImageFont.truetype("DejaVuSans.ttf", 56))
    data = io.BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()


def opened(path: Path, **limits: int) -> Source:
    return open_source(path, limits=LIMITS.model_copy(update=limits))


def pages(path: Path) -> list[Page]:
    with opened(path) as source:
        return [source.page(number) for number in range(1, source.page_count + 1)]


def told(path: Path) -> list[tuple[str, str]]:
    """Kind and text of every block of a file."""
    return [(str(block.kind), block.text) for page in pages(path) for block in page.blocks]


def texts(path: Path) -> list[str]:
    return [text for _, text in told(path)]
