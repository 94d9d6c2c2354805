"""What stands where in a Word document's XML: behind wrappers, in drawings, in tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ingestion.sources.xmlparts import kid, value
from ingestion.tables import Cell, Table

FLOW_THROUGH = frozenset({"w:customXml", "w:ins", "w:moveTo", "w:sdtContent"})
_DEEPEST = 60
_RAISED = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")


def goes_on(properties: Element | None) -> bool:
    """Whether the next paragraph goes on with this one: its end is deleted, or it is a large first letter."""
    drop_cap = value(kid(properties, "w:framePr"), "w:dropCap", "none")
    return kid(properties, "w:rPr", "w:del") is not None or drop_cap != "none"


def looked_into(element: Element, *, wrapped: bool = False) -> Iterator[Element]:
    """What to look into of an element that only wraps others: the first form of alternatives that has anything,
    a content control's content unless it only says what to fill in. ``wrapped``: the wrapper, not its children."""
    if element.tag == "mc:AlternateContent":
        chosen = kid(element, "mc:Choice")
        chosen = chosen if chosen is not None and len(chosen) else kid(element, "mc:Fallback")
    elif element.tag == "w:sdt":
        chosen = None if is_on(kid(element, "w:sdtPr", "w:showingPlcHdr")) else kid(element, "w:sdtContent")
    else:
        chosen = element if element.tag in FLOW_THROUGH else None
    if chosen is not None:
        yield from [chosen] if wrapped else chosen


def drawn_nodes(drawing: Element, depth: int = 0) -> Iterator[Element]:
    """The nodes of a drawing that show something; what stands in a text box is left to the flow, and of two forms
    of the same only the first is given."""
    for child in drawing:
        if child.tag == "mc:Fallback" and kid(drawing, "mc:Choice") is not None:
            continue
        yield child
        if child.tag != "w:txbxContent" and depth < _DEEPEST:
            yield from drawn_nodes(child, depth + 1)


def table_rows(table: Element) -> Iterator[Element]:
    """A table's rows, also those that something is wrapped around."""
    return _wrapped(table, "w:tr")


def row_cells(row: Element) -> Iterator[Element]:
    """A row's cells, also those that something is wrapped around."""
    return _wrapped(row, "w:tc")


def _wrapped(around: Element, tag: str, depth: int = 0) -> Iterator[Element]:
    for child in around:
        if child.tag == tag:
            yield child
        elif depth < 5 and child.tag in ("w:sdt", "w:customXml", "w:ins", "w:moveTo"):
            yield from _wrapped(_content(child), tag, depth + 1)


def _content(element: Element) -> Element:
    inner = kid(element, "w:sdtContent")
    return inner if inner is not None else element


def leave_blank(row: list[Cell], columns: int) -> int:
    """Grid columns that a row leaves out at its start or end."""
    columns = min(max(0, columns), 100)
    if columns:
        row.append(Cell(columns=columns))
    return columns


def head_rows(table: Table) -> int:
    """Without a word from the file: the first row, and those its merged cells reach into where it groups columns."""
    if len(table.rows) < 2:
        return 0
    first = table.rows[0]
    deep = max((cell.rows for cell in first), default=1)
    return deep if deep <= 3 and any(cell.columns > 1 for cell in first) and deep < len(table.rows) else 1


def symbol_letter(element: Element) -> str:
    """A sign of a symbol font, where Unicode has it at the same place; of Wingdings only what forms use."""
    try:
        code = int(value(element, "w:char"), 16)
    except ValueError:
        return ""
    known = {0xF0FE: "☒", 0xF0FD: "☒", 0xF0A8: "☐", 0xF06F: "☐", 0xF0FC: "✓", 0xF0E0: "→", 0xF0B7: "•"}
    return known.get(code, chr(code) if 32 <= code < 0xE000 and not 0xD800 <= code < 0xE000 else "")


def raised_digits(text: str) -> str:
    """What is set above the line, where Unicode has it: 10 to the 6th is not 106."""
    return text.translate(_RAISED) if re.fullmatch(r"[-+−–]?\d+", text.strip()) else text


def is_on(flag: Element | None) -> bool:
    """Whether a property that is there is not there to say no."""
    return flag is not None and value(flag, "w:val", "1").lower() not in ("0", "false", "off", "none")
