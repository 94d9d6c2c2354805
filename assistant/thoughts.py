"""A reasoning model's thoughts, taken out of its reply while it streams."""

from __future__ import annotations

from dataclasses import dataclass

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass
class ThoughtFilter:
    """Lets through what is said and holds back what is thought: ``<think>…</think>`` at the start of a reply,
    as models emit it whose server has no parser for it, and the blanks around it. The marks may come in pieces."""

    _held: str = ""
    _speaking: bool = False

    def feed(self, piece: str) -> str:
        """The part of the reply that may be shown now."""
        if self._speaking:
            return piece
        self._held = (self._held + piece).lstrip()
        if self._held.startswith(_OPEN):
            before, closed, rest = self._held.partition(_CLOSE)
            self._held = rest.lstrip() if closed else before
        if not self._held or self._held.startswith(_OPEN) or _OPEN.startswith(self._held):
            return ""
        self._speaking = True
        return self._held

    def finish(self) -> str:
        """What is left when the reply ends; an unfinished thought is no answer."""
        return "" if self._speaking or self._held.startswith(_OPEN) else self._held
