"""A reasoning model's thoughts, taken out of its reply while it streams."""

from __future__ import annotations

from dataclasses import dataclass

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass
class ThoughtFilter:
    """Lets through what is said and holds back what is thought: ``<think>…</think>`` at the start of a reply,
    as models emit it whose server has no parser for it. The marks may come in pieces."""

    _held: str = ""
    _speaking: bool = False

    def feed(self, piece: str) -> str:
        if self._speaking:
            return piece
        self._held += piece
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            _, closed, rest = start.partition(_CLOSE)
            if not closed:
                return ""
            return self._speak(rest.lstrip())
        return "" if _OPEN.startswith(start) else self._speak(self._held)

    def finish(self) -> str:
        """What is left when the reply ends; an unfinished thought is no answer."""
        return "" if self._speaking or self._held.lstrip().startswith(_OPEN) else self._held

    def _speak(self, text: str) -> str:
        self._speaking = True
        return text
