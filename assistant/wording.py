"""What Perito itself says in an answer, in the two languages of its interface."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assistant.core.domain import Chunk
from assistant.language import Language, fold
from assistant.question import Courtesy
from assistant.quotes import readable

QUOTES: dict[Language, str] = {
    "en": "No language model is configured, so these are quotes from the documents.",
    "es": "No hay ningún modelo de lenguaje configurado, así que estas son citas textuales de los documentos.",
}
MODEL_DOWN: dict[Language, str] = {
    "en": "The language model cannot be reached at the moment, so these are quotes from the documents.",
    "es": "El modelo de lenguaje no responde en este momento, así que estas son citas textuales de los documentos.",
}
MODEL_UNREACHABLE: dict[Language, str] = {
    "en": "The language model cannot be reached at the moment.",
    "es": "El modelo de lenguaje no responde en este momento.",
}
NOTHING_FOUND: dict[Language, str] = {
    "en": "I found nothing in the documents that answers this.",
    "es": "No he encontrado nada en los documentos que responda a esto.",
}
NEAREST: dict[Language, str] = {
    "en": "The nearest passages, which do not answer it:",
    "es": "Los pasajes más cercanos, que no la responden:",
}
NO_DOCUMENTS: dict[Language, str] = {
    "en": "I found nothing: there are no documents here to search, or none that you may see.",
    "es": "No he encontrado nada: aquí no hay documentos en los que buscar, o ninguno que puedas ver.",
}
COURTESIES: dict[Courtesy, dict[Language, str]] = {
    Courtesy.GREETING: {
        "en": "Hello. Ask me about your documents: I answer with what they say, and show on which page.",
        "es": "Hola. Pregúntame por tus documentos: respondo con lo que dicen y enseño en qué página.",
    },
    Courtesy.THANKS: {"en": "You are welcome.", "es": "De nada."},
}
READ_BY_OCR: dict[Language, str] = {
    "en": "No model that sees pictures is configured, so the text in the picture was read by OCR.",
    "es": "No hay ningún modelo que vea imágenes configurado, así que el texto de la imagen se leyó por OCR.",
}
VLM_DOWN: dict[Language, str] = {
    "en": "The model that sees pictures cannot be reached at the moment, so the text in the picture was read by OCR.",
    "es": "El modelo que ve imágenes no responde en este momento, así que el texto de la imagen se leyó por OCR.",
}
NO_TEXT_IN_PICTURE: dict[Language, str] = {
    "en": "No text was found in the picture.",
    "es": "No se encontró texto en la imagen.",
}
PICTURE_TEXT: dict[Language, str] = {
    "en": "This does not seem to answer the question. The text read in the picture:",
    "es": "Esto no parece responder a la pregunta. El texto leído en la imagen:",
}
CUT_OFF: dict[Language, str] = {
    "en": "(The answer was cut off at the length limit.)",
    "es": "(La respuesta se cortó en el límite de longitud.)",
}
PICTURE: dict[Language, str] = {"en": "attached picture", "es": "imagen adjunta"}
_PAGE: dict[Language, str] = {"en": "page", "es": "página"}

_HOLDERS = r"(?:documents?|sources?|passages?|context|information|documentos?|fuentes?|pasajes?|contexto|informacion)"
_DECLINES = re.compile(
    # "it is not in the documents", "nothing … from the given sources"
    r"\b(?:not|no|nothing|isn't|doesn't|don't|cannot|can't|unable)\b.{0,60}"
    rf"\b(?:in|from|by|on|within) (?:the|these|those|any|any of the|your) (?:\w+ )?{_HOLDERS}\b"
    # "the sources do not say"
    rf"|\b(?:the|these) (?:\w+ )?{_HOLDERS}\b.{{0,20}}"
    r"\b(?:do(?:es)? not|don't|doesn't|did not|cannot|contain no|hold no|say nothing|give no|provide no|make no)\b"
    # "no figura en los documentos", "no hay información … en las fuentes"
    r"|\b(?:no|nada|ningun[oa]?)\b.{0,80}\b(?:en|de) (?:los|las|el|la|estos|estas|ningun[oa]?)(?: de (?:los|las))? "
    rf"{_HOLDERS}\b"
    # "los documentos no lo mencionan"
    rf"|\b(?:los|las|estos|estas|el|la) {_HOLDERS}\b.{{0,40}}\bno\b"
)
_SHORT_DECLINE = 400  # characters; a longer text says more than that it found nothing


def declines(text: str) -> bool:
    """Whether a model's answer only says that the documents do not hold the answer. One with citations does not."""
    return len(text) <= _SHORT_DECLINE and bool(_DECLINES.search(fold(text)))


def nearest_passages(language: Language, chunks: Sequence[Chunk]) -> str:
    """The list of passages under a refusal, numbered as its citations are; nothing for none."""
    if not chunks:
        return ""
    places = [str(chunk.time or f"{_PAGE[language]} {chunk.page}") for chunk in chunks]
    lines = [f"- {c.document}, {place} [{n}]" for n, (c, place) in enumerate(zip(chunks, places, strict=True), start=1)]
    return "\n".join([NEAREST[language], "", *lines])


def quoted_passage(text: str, number: int) -> str:
    """A quote as it is shown: readable, in quotation marks, its citation behind it."""
    return f"“{readable(text)}” [{number}]"
