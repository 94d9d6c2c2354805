"""Answers as the chat shows them: numbers that open pages, and the list of sources below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from assistant.core.domain import Answer, Citation
from assistant.core.ports import Message
from assistant.quotes import beginning, readable
from assistant.web.boxes import write_boxes
from assistant.web.texts import without_links

NUMBER = re.compile(r"\[(\d+)\]")
NUMBER_BEHIND_QUOTE = re.compile(r"(?:(?<=” )|(?<=\n\n))\[(\d+)\](?=\n\n|\Z)")
NUMBER_BEHIND_NAME = re.compile(r"(?<= )\[(\d+)\]$", re.MULTILINE)
REMEMBERED_MESSAGES = 8
EXCERPT = 1200  # characters of a passage shown beside its page


def image_url(citation: Citation) -> str:
    """Where the page with the passage boxed is served."""
    path = f"/api/documents/{citation.document_id}/pages/{citation.page}/image"
    return f"{path}?boxes={write_boxes(citation.boxes)}" if citation.boxes else path


def source_url(citation: Citation, pictures: Sequence[str]) -> str:
    """The page of a document, or the attached picture (the first counts as page 1); "" where there is neither."""
    if citation.document_id:
        return image_url(citation)
    if not 1 <= citation.page <= len(pictures):
        return ""
    return f"/api/attachments/{pictures[citation.page - 1]}?source={citation.number}"


def with_links(text: str, answer: Answer, pictures: Sequence[str] = ()) -> str:
    """``[n]`` as a Markdown link to the page or picture with the passage, for every n that is a source.

    In quotes and in the list of the nearest passages only the numbers that we wrote behind them: an encyclopedia's text
    has such numbers of its own, and so has a file that was downloaded twice.
    """
    numbers = NUMBER_BEHIND_QUOTE if answer.quoted else NUMBER_BEHIND_NAME if answer.refused else NUMBER
    pages = {citation.number: source_url(citation, pictures) for citation in answer.citations}

    def link(found: re.Match[str]) -> str:
        url = pages.get(int(found[1]))
        return rf"[\[{found[1]}\]]({url})" if url else found[0]

    return numbers.sub(link, text)


def source_props(answer: Answer, pictures: Sequence[str] = ()) -> dict[str, Any]:
    """What the element `Sources` is given; ``pictures`` are the ids of attachments the question was about."""
    return {
        "items": [_item(citation, pictures) for citation in answer.citations if source_url(citation, pictures)],
        "nearest": answer.refused,
        "pictures": list(pictures),
    }


def _item(citation: Citation, pictures: Sequence[str]) -> dict[str, Any]:
    return {
        "number": citation.number,
        "document": citation.document,
        "document_id": citation.document_id,
        "page": citation.page,
        "time": str(citation.time) if citation.time else "",
        "boxes": [list(box) for box in citation.boxes],
        "reader": citation.reader.value,
        "confidence": round(citation.confidence, 4),
        "corrected_by": ", ".join(citation.corrected_by),
        "text": beginning(readable(citation.text), EXCERPT),
        "image": source_url(citation, pictures),
        "boxed": bool(citation.document_id),  # our endpoint draws the boxes; a picture is shown as it was sent
    }


def remembered(messages: Sequence[tuple[str, str]]) -> list[Message]:
    """The last messages as (role, text), as the assistant wants them: bare numbers, nothing empty."""
    kept = [Message(role, without_links(text)) for role, text in messages if text.strip()]
    return kept[-REMEMBERED_MESSAGES:]
