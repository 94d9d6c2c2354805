"""A file and a page of it as the process that opens it tells the server (``fileprogram``): in order, the page as the
file gives it, its route, and its own text as blocks where the route says so.

All of it is done where PDFium and Pillow run, so that only small, finished things of ours come back.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.core.domain import Reader, Reading, Word
from assistant.core.settings import TriageSettings
from ingestion.pages import Page
from ingestion.readers.text import read_text
from ingestion.sources.enclosed import Enclosure
from ingestion.triage import Plan, plan_page


@dataclass(frozen=True, slots=True)
class About:
    """An open file as a whole."""

    page_count: int
    media_type: str
    damage: str = ""  # "" when the file is whole, else one sentence about what is missing
    enclosures: tuple[Enclosure, ...] = ()  # files within it
    seconds: float | None = None  # of a recording: how long it is, 0 where it does not say; else None


@dataclass(frozen=True, slots=True)
class FirstLook:
    """``width`` and ``height`` are of the page as shown, in points (pixels for pictures). ``text`` is there where the
    plan takes the page's own text as it stands, ``words`` where the look of the page is to order it."""

    number: int
    width: float
    height: float
    plan: Plan
    text: Reading | None = None
    words: tuple[Word, ...] = ()


def look_at(page: Page, settings: TriageSettings) -> FirstLook:
    """All that the pipeline needs of ``page`` before it may want a picture of it."""
    plan = plan_page(page, settings)
    ordered_by_look = plan.route is Reader.TEXT and plan.wants_layout
    has_text = plan.route in (Reader.TEXT, Reader.MIXED) and not ordered_by_look
    return FirstLook(
        number=page.number,
        width=page.width,
        height=page.height,
        plan=plan,
        text=read_text(page) if has_text else None,
        words=page.words if ordered_by_look else (),
    )
