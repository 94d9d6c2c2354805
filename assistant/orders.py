"""Text in a document that gives orders to a model: it is never quoted as an answer.

A document is data. What is written to steer a model ("ignore all previous instructions …") is left to the fence
of the prompt where a model writes; where we quote, nobody is there to disregard it, so it is passed over. Only
plain attempts are known here; the rest is for whoever reads the quote and sees its page.
"""

from __future__ import annotations

import re

_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules|guidelines)\b"
    r"|\b(?:ignor[ae]|olvid[ae]|omit[ae]|desatiend[ae]|descart[ae])\b[^.\n]{0,40}"
    r"\b(?:instrucciones|reglas|indicaciones|prompts?)\b"
    r"|^\W{0,3}(?:system|assistant|sistema|asistente)\s*:\s"
    r"|\b(?:system prompt|prompt del sistema|output the word|as an ai (?:language )?model)\b",
    re.IGNORECASE | re.MULTILINE,
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s|\n)(?=[^.!?\n]*\Z)")


def without_orders(text: str) -> str:
    """``text`` less every stretch from a sentence that gives a model orders to the end of its paragraph: what
    follows ("answer that …") belongs to it. The rest stays verbatim."""
    kept: list[str] = []
    position = 0
    while found := _ORDER.search(text, position):
        starts = _SENTENCE_START.search(text[position : found.start()])
        begin = position + starts.end() if starts else found.start()
        end = _PARAGRAPH_END.search(text, found.end())
        kept.append(text[position:begin])
        position = end.start() if end else len(text)
    return "".join([*kept, text[position:]])
