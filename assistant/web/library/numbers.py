"""Numbers, sizes and moments as people write them in English and Spanish."""

from __future__ import annotations

from datetime import datetime

UNITS = ("B", "kB", "MB", "GB", "TB")


def number(value: float, language: str, digits: int = 0) -> str:
    """1,204.5 in English, 1204,5 in Spanish, which groups from five figures on."""
    english = f"{value:,.{digits}f}"
    if language == "en":
        return english
    spanish = english.replace(",", " ").replace(".", ",").replace(" ", ".")
    return spanish.replace(".", "") if abs(value) < 10_000 else spanish


def size(count: int, language: str) -> str:
    """Bytes in the largest unit that leaves a whole part."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{number(value, language, 1 if unit and value < 9.95 else 0)} {UNITS[unit]}"


def percent(share: float) -> int:
    """Of 1. Nothing short of it is called 100, nothing above 0 is called 0."""
    rounded = round(100 * share)
    if share < 1.0:
        rounded = min(rounded, 99)
    return max(rounded, 1) if share > 0 else 0


def moment(when: datetime) -> str:
    """Where no script runs; the page's script writes it in the person's own time."""
    return when.strftime("%Y-%m-%d %H:%M UTC")
