"""Prompts: one Markdown file per use in the ``prompts`` package, strictly rendered and hashed.

A variable stands in a file as ``{{ name }}``. What is put in is never looked at again, so a source or
a question that contains ``{{ … }}`` stays what it is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources

from assistant.core.errors import Misconfigured

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VARIABLE = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")


@dataclass(frozen=True)
class Prompt:
    """A prompt file's text. ``hash`` changes with every change of it: it tells in logs, ledgers and
    reports which wording an answer or a reading came from."""

    name: str
    template: str

    @cached_property
    def hash(self) -> str:
        """The first 12 hex digits of the SHA-256 of the text."""
        return hashlib.sha256(self.template.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """Name and hash, e.g. "answer@1f0c52d3a9be"."""
        return f"{self.name}@{self.hash}"

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(_VARIABLE.findall(self.template))

    def render(self, **values: str) -> str:
        """The text with every variable filled in. Misconfigured when one is missing or unknown."""
        missing, unknown = self.variables - values.keys(), values.keys() - self.variables
        if missing or unknown:
            problems = [f"is missing {', '.join(sorted(missing))}"] if missing else []
            problems += [f"knows no {', '.join(sorted(unknown))}"] if unknown else []
            raise Misconfigured(
                f"The prompt {self.name} {' and '.join(problems)}",
                f"Its variables are: {', '.join(sorted(self.variables)) or 'none'}",
            )
        return _VARIABLE.sub(lambda match: values[match[1]], self.template)


@lru_cache(maxsize=64)
def load_prompt(name: str) -> Prompt:
    """The prompt in ``prompts/NAME.md``. Misconfigured when there is none, it is empty, or a ``{{`` in
    it opens nothing we would fill in."""
    file = resources.files("prompts") / f"{name}.md"
    if not _NAME.fullmatch(name) or not file.is_file():
        raise Misconfigured(f"There is no prompt {name!r}", "Prompts are the Markdown files of the prompts package")
    text = file.read_text("utf-8").strip()
    if not text or "{{" in _VARIABLE.sub("", text):
        raise Misconfigured(f"The prompt {name} is empty or holds a broken {{{{ variable }}}}", "Mend its file")
    return Prompt(name, text)
