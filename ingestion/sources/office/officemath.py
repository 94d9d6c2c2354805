"""Office's formulas on one line: a/b, x^2, √(x)."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ingestion.sources.xmlparts import kid, kids, value

_DEEPEST = 60


def linear(element: Element, depth: int = 0) -> str:
    """The formula as a line of text that keeps its structure."""
    if depth > _DEEPEST:
        return ""
    if element.tag in ("m:t", "w:t"):
        return element.text or ""
    made = _structured(element, depth + 1)
    if made is not None:
        return made
    separator = "\n" if element.tag == "m:oMathPara" else ""
    return separator.join(linear(child, depth + 1) for child in element)


def _structured(element: Element, depth: int) -> str | None:
    def of(name: str) -> str:
        part = kid(element, f"m:{name}")
        return "" if part is None else linear(part, depth).strip()

    tag = element.tag
    if tag == "m:f":
        return f"{_grouped(of('num'))}/{_grouped(of('den'))}"
    if tag in ("m:sSup", "m:sSub", "m:sSubSup"):
        below = f"_{_grouped(of('sub'))}" if tag != "m:sSup" else ""
        above = f"^{_grouped(of('sup'))}" if tag != "m:sSub" else ""
        return of("e") + below + above
    if tag == "m:rad":
        return f"{of('deg')}√({of('e')})"
    if tag == "m:nary":
        sign = value(kid(element, "m:naryPr", "m:chr"), "m:val", "∫")
        below = f"_{_grouped(of('sub'))}" if of("sub") else ""
        above = f"^{_grouped(of('sup'))}" if of("sup") else ""
        return f"{sign}{below}{above} {of('e')}"
    if tag == "m:d":
        properties = kid(element, "m:dPr")
        begin, end = value(kid(properties, "m:begChr"), "m:val", "("), value(kid(properties, "m:endChr"), "m:val", ")")
        return begin + ", ".join(linear(each, depth) for each in kids(element, "m:e")) + end
    if tag == "m:m":
        rows = (", ".join(linear(each, depth) for each in kids(row, "m:e")) for row in kids(element, "m:mr"))
        return f"[{'; '.join(rows)}]"
    return "" if tag.endswith("Pr") else None


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"
