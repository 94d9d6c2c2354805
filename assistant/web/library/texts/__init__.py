"""What the library says, one module a language, chosen by the browser. ``{name}`` is filled in; ``_one`` is for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.web.library.texts import en, es
from assistant.web.sentences import Sentences
from assistant.web.texts import Texts, texts_for

_SAID: dict[str, Mapping[str, str]] = {"en": en.TEXTS, "es": es.TEXTS}
_KEPT = {code: Sentences(texts_for(code).labels["sentences"]) for code in _SAID}


@dataclass(frozen=True, slots=True)
class Language:
    """One language: ``language("pages", n=3)`` gives "3 pages". KeyError for what it does not say."""

    code: str

    def __call__(self, key: str, **values: object) -> str:
        said = _SAID[self.code]
        if values.get("n") in (1, "1") and f"{key}_one" in said:
            key = f"{key}_one"
        return said[key].format(**values)

    @property
    def chat(self) -> Texts:
        """The texts shared with the chat, errors among them."""
        return texts_for(self.code)

    def told(self, kept: str) -> str:
        """What was kept in English (reasons, errors), sentence by sentence in this language where it is known."""
        return _KEPT[self.code].told(kept)

    def tongue(self, kept: str) -> str:
        """The language that most of what ``told`` gives is in, for whoever reads it aloud."""
        return self.code if _KEPT[self.code].knows_most(kept) else "en"

    def script(self) -> dict[str, str]:
        """What the page's scripts say, by key without its beginning."""
        return {key.removeprefix("js_"): text for key, text in _SAID[self.code].items() if key.startswith("js_")}


LANGUAGES = {code: Language(code) for code in _SAID}


def preferred(accept_language: str) -> Language:
    """The first of a browser's languages that we speak, by its weights; English where there is none."""
    wishes: list[tuple[float, str]] = []
    for part in accept_language.split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            wishes.append((float(weight or 1), tag.lower().split("-")[0]))
        except ValueError:
            continue
    spoken = [(weight, tag) for weight, tag in wishes if tag in LANGUAGES and weight > 0]
    return LANGUAGES[max(spoken, key=lambda wish: wish[0])[1]] if spoken else LANGUAGES["en"]
