"""Words and languages: which language a question is in, which of its words carry its meaning.

No model: stop words and letters decide. English is the default where nothing speaks for Spanish.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Language = Literal["en", "es"]

SPANISH_STOP_WORDS = frozenset(
    """
    a al algo alguna algunas alguno algunos ante antes aquel aquella aquellas aquellos aqui asi aun aunque bajo
    bien cada casi como con contra cual cuales cualquier cuando cuanta cuantas cuanto cuantos cuyo cuya cuyos
    cuyas da dado dan de debe deben debido del desde dice dicen donde dos el ella ellas ello ellos en entonces
    entre era eran eres es esa esas ese eso esos esta estaba estaban estado estan estar estas este esto estos
    estoy etc fue fueron ha haber habia hace hacen hacer hacia han hasta hay haya he hemos hizo hubo incluso ir
    la las le les lo los mas me mi mis misma mismas mismo mismos mucho muchos muy nada ni ningun ninguna no nos
    nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque puede pueden pues que quien
    quienes se sea sean segun ser si sido siempre sin sino sobre son soy su sus suya suyo tal tales tambien
    tampoco tan tanto te tener tenia tengo ti tiene tienen toda todas todo todos tras tu tus un una unas uno
    unos usted ustedes va van vez y ya yo
    """.split()  # noqa: SIM905
)
ENGLISH_STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each either else ever few for from further get
    gets give given gives got had has have having he her here hers him his how however i if in into is it its
    itself just let many may me might more most much must my no nor not now of off on once one only or other our
    ours out over own per same shall she should since so some such than that the their theirs them then there
    these they this those though through thus to too under until up upon us very was we were what when where
    whether which while who whom whose why will with within without would you your yours
    """.split()  # noqa: SIM905
)
STOP_WORDS = SPANISH_STOP_WORDS | ENGLISH_STOP_WORDS
# Words of one language only, which decide; those in both ("a", "me", "no") say nothing.
_SPANISH_SIGNS = (SPANISH_STOP_WORDS - ENGLISH_STOP_WORDS) | frozenset(
    """
    dime dame explica explicame resume resumen cuenta busca buscame cita muestra hola gracias buenos buenas dias
    """.split()  # noqa: SIM905
)
_ENGLISH_SIGNS = (ENGLISH_STOP_WORDS - SPANISH_STOP_WORDS) | frozenset(
    ["tell", "show", "find", "list", "explain", "summarize", "summarise", "hello", "hi", "thanks", "please"]
)
_SPANISH_LETTERS = re.compile(r"[¿¡ñáéíóúü]", re.IGNORECASE)
_SPANISH_ENDINGS = re.compile(r"(?:cion|ciones|miento|mientos|dad|dades|ando|iendo|aron|ieron)$")
_WORD = re.compile(r"[^\W_]+(?:['’·][^\W_]+)*")
# "33.007,20", "1,249", "14/05/2026", "ES1000", "12-B": kept whole as one word each
_TOKEN = re.compile(r"\d+(?:[.,/:-]\d+)+|[^\W_]+(?:['’·-][^\W_]+)*")


def detect_language(text: str, default: Language = "en") -> Language:
    """The language of a question or message; ``default`` where the signs are even or absent."""
    found = [fold(word) for word in _WORD.findall(text)]
    spanish = sum(word in _SPANISH_SIGNS for word in found) + sum(bool(_SPANISH_ENDINGS.search(w)) for w in found) / 2
    spanish += min(2, len(_SPANISH_LETTERS.findall(text))) + 2 * ("¿" in text or "¡" in text)
    english = sum(word in _ENGLISH_SIGNS for word in found)
    if spanish == english:
        return default
    return "es" if spanish > english else "en"


def fold(text: str) -> str:
    """Case and accents taken away: "Árbol" and "arbol" become equal."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def tokens(text: str) -> list[str]:
    """The words and numbers of ``text``, folded, in order."""
    return [fold(token) for token in _TOKEN.findall(text)]


def content_words(text: str) -> list[str]:
    """The words that carry meaning: no stop words, no single letters (single digits stay)."""
    return [word for word in tokens(text) if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]


def root(word: str) -> str:
    """A word without its ending, for comparing: "presentarse" and "presentación" share "present".

    A rough cut made for Spanish and English; numbers and short words stay whole.
    """
    if any(character.isdigit() for character in word) or len(word) <= 4:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


_ENDINGS = tuple(
    sorted(
        """
    aciones iciones acion icion ciones cion siones sion amientos imientos amiento imiento amente mente idades
    idad adores adoras ador adora edores edor aciones ancia encia ables able ibles ible ando iendo aron ieron
    arse erse irse aban aba ado ada ados adas ido ida idos idas ar er ir an en as os es a o e ations ation
    itions ition ings ing edly ed ers ies ly ments ment ness s y
    """.split(),  # noqa: SIM905
        key=len,
        reverse=True,
    )
)


def roots(text: str) -> frozenset[str]:
    """The roots of the content words of ``text``."""
    return frozenset(root(word) for word in content_words(text))
