"""Whether letters make words: what tells a text layer from a cipher, in any language of the Latin script.

``_PAIRS`` holds, for each first letter, the letters that follow it in 97.5 % of the letter pairs of the 320
Spanish and English paragraphs of XQuAD (accents left out), plus some pairs common in German, French and
Italian. Of such pairs running text has .95 and more (German .89), shifted alphabets .27 to .57.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_PAIRS = (
    "abcdfgijlmnpqrstuvwxyz baeilorsuy cacehiklorstuy dadeiorsuy eabcdefgijlmnopqrstuvwxyz faefilortu gaehilnorsu "
    "haeilnortuw iabcdefglmnoprstuvz jaeou kaeilnorstu ladegilmostuyz mabeimopsu nacdefgiklmnostuvyz "
    "oabcdfgilmnoprstuvwxyz paefhiloprstu qu rabcdegiklmnorstuvyz sabcehiklmopqstuyz taehilorstuwyz "
    "uabcdefghijlmnprstyz vaeiou waehinor xaipt yaeosnt zaeiotuz"
)
_COMMON = frozenset(row[0] + second for row in _PAIRS.split() for second in row[1:])
_ENOUGH = 100  # pairs; on fewer the share means little
_CIPHER, _PROSE = 0.60, 0.80  # shares at which the score is 0 and 1
_ARABIC = re.compile("[\u0621-\u064a]+")
_ARABIC_TWINS, _ARABIC_SINGLES = 0.015, 0.06  # most pairs of one letter twice, and words of one letter, if sound


def plausibility(text: str) -> float:
    """How much the letters look like words, in [0, 1]; 1 where there are too few letters to tell or the
    script is not one that is known here."""
    return min(_latin(text), _arabic(text))


def _latin(text: str) -> float:
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))
    pairs = [a + b for word in re.findall(r"[a-z]+", plain) for a, b in pairwise(word)]
    if len(pairs) < _ENOUGH:
        return 1.0
    share = sum(pair in _COMMON for pair in pairs) / len(pairs)
    return min(1.0, max(0.0, (share - _CIPHER) / (_PROSE - _CIPHER)))


def _arabic(text: str) -> float:
    """Broken Arabic fonts repeat letters where a line was stretched, and break words; Arabic words seldom
    hold a letter twice in a row (lam apart) and are nearly never of one letter."""
    words: list[str] = _ARABIC.findall(text)
    pairs = [(a, b) for word in words for a, b in pairwise(word)]
    if len(pairs) < _ENOUGH:
        return 1.0
    twins = sum(a == b and a != "\u0644" for a, b in pairs) / len(pairs)
    singles = sum(len(word) == 1 for word in words) / len(words)
    doubt = 12 * max(0.0, twins - _ARABIC_TWINS) + 3 * max(0.0, singles - _ARABIC_SINGLES)
    return max(0.0, 1.0 - doubt)
