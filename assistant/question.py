"""What a person asks, made ready to search for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from assistant.core.errors import BadRequest
from assistant.core.ports import Message
from assistant.language import Language, content_words, detect_language, fold, root, tokens

MAX_CHARACTERS = 4000  # about 1,000 tokens: an embedding model sees no more, and nobody asks longer
_FOLLOW_UP_WORDS = 3  # a question of at most so many content words may lean on the turn before
_CARRIED_WORDS = 8
_TURNS = 20  # looked back at, so that a long conversation costs no more than a short one
_CONTROL = re.compile(r"[\u0000-\u0008\u000b-\u001f\u007f\u200b\u200e\u200f\u202a-\u202e\ufeff]")
_LEANING = re.compile(
    r"^[¿¡\s]*(?:y|e|pero|and|but|also|tambien|entonces|then|so|what about|how about|que hay de|que tal)\b"
    r"|\b(?:it|its|they|them|their|that one|this one|he|she|his|her|ese|esa|eso|esos|esas|este|esta|esto|ello|ellos"
    r"|ellas|el mismo|la misma)\b"
)
_GREETINGS = (
    r"hola|buen[oa]s(?: dias| tardes| noches)?|buen dia|saludos|que tal"
    r"|hello|hi|hey|greetings|good (?:morning|afternoon|evening|day)"
)
_THANKS = (
    r"(?:muchas |mil |ok |vale )?gracias|muchisimas gracias|adios|hasta luego"
    r"|(?:ok |many )?(?:thanks|thank you)(?: very much| so much| a lot)?|bye|goodbye"
)


class Courtesy(StrEnum):
    """What is said out of politeness and asks for nothing."""

    GREETING = "greeting"
    THANKS = "thanks"


@dataclass(frozen=True, slots=True)
class Question:
    """``text`` is as asked, tidied; ``search`` what is looked for: the text, for a follow-up together with
    the words of the turn it leans on. ``courtesy``: it asks nothing."""

    text: str
    language: Language
    search: str
    courtesy: Courtesy | None = None

    @property
    def is_follow_up(self) -> bool:
        return self.search != self.text

    @property
    def focus(self) -> str:
        """What was asked now, where it is only a part of what is looked for."""
        return self.text if self.is_follow_up else ""


def understand(text: str, history: Sequence[Message] = ()) -> Question:
    """Tidy a question, tell its language, and complete a follow-up from ``history`` (oldest first).

    BadRequest when there is nothing to ask, or far too much.
    """
    tidy = " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", text)).split())
    if not any(character.isalnum() for character in tidy):
        raise BadRequest("The question is empty", "Ask something in words")
    if len(tidy) > MAX_CHARACTERS:
        raise BadRequest(
            f"The question has {len(tidy):,} characters, over the {MAX_CHARACTERS:,} allowed",
            "Shorten it, or add the long text as a document",
        )
    said = [message.text for message in history[-_TURNS:] if message.role == "user" and message.text.strip()]
    before = [text[:MAX_CHARACTERS] for text in said]
    language = detect_language(tidy, default=detect_language(before[-1]) if before else "en")
    asked = [text for text in before if not _courtesy(text)]
    return Question(tidy, language, _completed(tidy, asked), _courtesy(tidy))


def _courtesy(text: str) -> Courtesy | None:
    """A greeting or thanks and nothing else, however it is punctuated; with Perito's name or without."""
    words = " ".join(word for word in tokens(text) if word != "perito")
    if re.fullmatch(rf"(?:{_GREETINGS})(?: (?:{_GREETINGS}))*", words):
        return Courtesy.GREETING
    return Courtesy.THANKS if re.fullmatch(_THANKS, words) else None


def _completed(text: str, before: Sequence[str]) -> str:
    """A follow-up ("and for March?") finds nothing alone: it borrows the words of the turns before, back to
    the last that could stand alone."""
    if not before or not _leans(text):
        return text
    have = {root(word) for word in content_words(text)}
    borrowed: list[str] = []
    for earlier in reversed(before):
        for word in content_words(earlier):
            if root(word) not in have and len(borrowed) < _CARRIED_WORDS:
                have.add(root(word))
                borrowed.append(word)
        if not _leans(earlier):
            break
    return " ".join([text, *borrowed]) if borrowed else text


def _leans(text: str) -> bool:
    """Whether a question refers to something said before: few words of its own, and either a sign of it
    ("and …", "it") or next to nothing else."""
    own = content_words(text)
    if len(own) > _FOLLOW_UP_WORDS:
        return False
    return len(own) <= 1 or len(tokens(text)) <= 2 or bool(_LEANING.search(fold(text)))
