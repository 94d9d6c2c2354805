"""What Word, PowerPoint and Excel share in their drawings: charts with their data, diagrams with their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestion.sources.office.officemath import linear
from ingestion.sources.sections import Part, table_part
from ingestion.sources.xmlparts import kid, kids, number
from ingestion.tables import Table, table_of

_FILE_NAME = re.compile(r"[^\n]{1,200}\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg|webp)", re.IGNORECASE)
_MOST_POINTS = 500
_MOST_SERIES = 40


def chart_part(root: Element | None) -> Part | None:
    """The data a chart shows as a table, one row a category and one column a series; None without any."""
    plot = kid(root, "c:chart", "c:plotArea")
    kinds = plot if plot is not None else ()
    series = [each for kind in kinds if kind.tag.endswith("Chart") for each in kids(kind, "c:ser")]
    columns = [_series(each) for each in series[:_MOST_SERIES]]
    if not any(points for _, _, points in columns):
        return None
    title = chart_title(root)
    labels: dict[int, str] = {}
    for _, names, _ in columns:
        labels = names | labels
    places = sorted(set(labels) | {place for _, _, points in columns for place in points})[:_MOST_POINTS]
    head = [title, *(name for name, _, _ in columns)]
    rows = [[labels.get(place, ""), *(points.get(place, "") for _, _, points in columns)] for place in places]
    table: Table = table_of([head, *rows])
    return table_part(table)


def chart_title(root: Element | None) -> str:
    """The title a chart shows; "" where it has none of its own."""
    return " ".join(drawn_text(kid(root, "c:chart", "c:title")).split())


def _series(series: Element) -> tuple[str, dict[int, str], dict[int, str]]:
    """A series' name, its categories and its values by their place."""
    name = " ".join(_points(kid(series, "c:tx")).values())
    labels = _points(kid(series, "c:cat")) or _points(kid(series, "c:xVal"))
    points = _points(kid(series, "c:val")) or _points(kid(series, "c:yVal"))
    return name, labels, points


def _points(holder: Element | None) -> dict[int, str]:
    if holder is None:
        return {}
    found: dict[int, str] = {}
    for point in holder.iter("c:pt"):
        shown = kid(point, "c:v")
        if shown is not None:
            found[number(point, "idx")] = (shown.text or "").strip()
    plain = kid(holder, "c:v")
    return found or ({0: (plain.text or "").strip()} if plain is not None else {})


def diagram_text(root: Element | None) -> str:
    """The words of a diagram (SmartArt) as a list, in the order of its points."""
    texts = [drawn_text(kid(point, "dgm:t")).strip() for point in kids(kid(root, "dgm:ptLst"), "dgm:pt")]
    return "\n".join(f"- {text}" for text in texts if text)


def drawn_text(element: Element | None) -> str:
    """The text of a shape: a line for each paragraph."""
    return "\n".join(drawn_paragraph(each) for each in element.iter("a:p")) if element is not None else ""


def drawn_paragraph(paragraph: Element) -> str:
    """The text of one paragraph of a shape."""
    return "".join(_drawn_pieces(paragraph))


def _drawn_pieces(paragraph: Element) -> Iterator[str]:
    for node in paragraph.iter():
        if node.tag == "a:t":
            yield node.text or ""
        elif node.tag == "a:br":
            yield "\n"
        elif node.tag == "m:oMath":
            yield linear(node)


def said_instead(text: str) -> str:
    """What an author wrote for those who do not see a picture; "" where a program filled in a file's name."""
    text = text.removesuffix("Description automatically generated").strip()
    return "" if _FILE_NAME.fullmatch(text) else text
