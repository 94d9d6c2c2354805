"""The messages a language model answers from: numbered, fenced sources, then the question.

Documents are data. Whoever wrote one could have put anything into it, so our own tags are taken out of
its text and characters nobody sees are dropped; the prompt says that nothing inside the fence is an order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assistant.core.domain import Chunk
from assistant.core.ports import Message
from assistant.core.prompts import load_prompt
from assistant.language import Language

LANGUAGE_NAMES: dict[Language, str] = {"en": "English", "es": "Spanish"}
_TAGS = re.compile(
    r"<\s*/?\s*(?:sources?|question|system|assistant|user|im_start|im_end)\b[^<>]{0,200}>?", re.IGNORECASE
)
_SPECIAL = re.compile(r"<\|[^<>|]{1,40}\|>|\[/?INST\]", re.IGNORECASE)  # chat templates' own marks
# zero-width and direction marks, the Unicode tag block, variation selectors: read by models, seen by nobody
_INVISIBLE = re.compile(
    r"[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e01ef\u0000-\u0008\u000b-\u001f]"
)
_HISTORY_TURNS = 6
_CHARACTERS_PER_TOKEN = 3.2  # Spanish, Qwen's tokenizer; English has 4, so this errs on the safe side
HISTORY_TOKENS = 1500
SOURCE_TOKENS = 6000


def answer_messages(
    question: str, language: Language, sources: Sequence[Chunk], history: Sequence[Message] = (), prompt: str = "answer"
) -> list[Message]:
    """The conversation so far, shortened, and the question with its ``sources`` numbered from 1."""
    wording = load_prompt(prompt)
    text = wording.render(sources=fenced(sources), question=without_tags(question), language=LANGUAGE_NAMES[language])
    return [*recent(history), Message("user", text, prompt=wording.label)]


def fenced(sources: Sequence[Chunk]) -> str:
    """The sources as the prompt shows them; "(none)" where there is none."""
    return "\n".join(_fenced(number, source) for number, source in enumerate(sources, start=1)) or "(none)"


def _fenced(number: int, source: Chunk) -> str:
    name = re.sub(r'["<>\n]', " ", without_tags(source.document))
    path = re.sub(r'["<>\n]', " ", without_tags(" > ".join(source.headings)))
    section = f' section="{path}"' if path else ""
    return (
        f'<source n="{number}" document="{name}" page="{source.page}"{section}>\n{without_tags(source.text)}\n</source>'
    )


def within_budget(sources: Sequence[Chunk], tokens: int = SOURCE_TOKENS) -> list[Chunk]:
    """As many of the ``sources``, best first, as fit; always at least one."""
    kept: list[Chunk] = []
    left = tokens
    for source in sources:
        left -= estimated_tokens(source.text) + 40
        if left < 0 and kept:
            break
        kept.append(source)
    return kept


def recent(history: Sequence[Message]) -> list[Message]:
    """The last turns of a conversation that fit, without pictures, without what is not a turn."""
    kept: list[Message] = []
    left = HISTORY_TOKENS
    for message in reversed(
        [m for m in history if m.role in ("user", "assistant") and m.text.strip()][-_HISTORY_TURNS:]
    ):
        left -= estimated_tokens(message.text)
        if left < 0:
            break
        kept.append(Message(message.role, without_tags(message.text)))
    return kept[::-1]


def without_tags(text: str) -> str:
    """``text`` without anything that could pass for our own tags or a chat template's marks."""
    visible = _INVISIBLE.sub("", text)
    while (cleaned := _SPECIAL.sub(" ", _TAGS.sub(" ", visible))) != visible:
        visible = cleaned  # removing one tag may put another together
    return visible.strip()


def estimated_tokens(text: str) -> int:
    """A cautious guess of a text's length for a language model."""
    return int(len(text) / _CHARACTERS_PER_TOKEN) + 1
