"""From a page's characters to its lines: words, runs of words, and which of them a person sees.

PDFium gives characters in the order in which the file draws them. Words follow that order; lines chain
words that continue each other on one baseline, and join pieces that a file draws out of order.
"""

from __future__ import annotations

import itertools
import unicodedata
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assistant.core.domain import Box, Word
from ingestion.pages import LayerSigns, Line, Unseen
from ingestion.sources.pdfium.document import RawPage
from ingestion.sources.pdfium.geometry import Floats
from ingestion.sources.pdfium.glyphs import Glyphs, Run
from ingestion.sources.visibility import Sight

ASCENT, DESCENT = 0.78, 0.22  # of the type size: how far a line reaches above and below its baseline
SOFT_HYPHENS = "\x02\xad"
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\x02": "-", "\xad": "-"}
)
_ACCENTS = {
    "´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "^": "\u0302", "˜": "\u0303", "¨": "\u0308", "ˇ": "\u030c",
    "˘": "\u0306", "¸": "\u0327", "˛": "\u0328", "˚": "\u030a", "¯": "\u0304", "˝": "\u030b", "˙": "\u0307",
}  # fmt: skip
_MOST_ACCENTS = 500
_ACCENT_CODES = np.array([ord(accent) for accent in _ACCENTS])
_SPACES = np.array([0, 9, 10, 11, 12, 13, 32, 0x85, 0xA0, *range(0x2000, 0x200C), 0x202F, 0x205F, 0x3000, 0xFEFF])


@dataclass(slots=True)
class _Piece:
    """A word on its way to a line, in the frame where its text runs to the right and y grows downwards."""

    text: str
    x0: float
    x1: float
    base: float
    size: float
    run: int
    first: int  # index of its first character
    spaced: bool  # a space stands before it in the file
    rtl: bool
    unseen: Unseen | None
    box: Floats  # as shown, of its ink


def read_lines(raw: RawPage) -> tuple[list[Line], list[Line], LayerSigns]:
    """The lines a person sees, those in the file that nobody sees, and what else the characters tell."""
    glyphs = _ligatures_in_order(raw.glyphs)
    solid = np.flatnonzero(~np.isin(glyphs.codes, _SPACES) & (glyphs.run >= 0) & ~_controls(glyphs.codes))
    if not len(solid):
        return [], [], LayerSigns()
    kept = solid[~_doubled(glyphs, solid)]
    glyphs, kept, bridged = _composed(glyphs, kept)
    angles = np.array([run.angle for run in glyphs.runs])
    sight = Sight(raw)
    lines: list[Line] = []
    doubled = len(solid) - len(kept)
    for angle in dict.fromkeys(angles[glyphs.run[kept]].tolist()):
        pieces = _pieces(glyphs, kept[angles[glyphs.run[kept]] == angle], angle, sight, bridged)
        unique = _without_copies(pieces)
        doubled += sum(len(piece.text) for piece in pieces) - sum(len(piece.text) for piece in unique)
        lines += [_seen_line(chain, angle, raw, sight) for chain in _join(_chains(unique))]
    signs = LayerSigns(len(solid), int(glyphs.unmapped[solid].sum()) + _private(glyphs.codes[solid]), doubled)
    return [line for line in lines if line.unseen is None], [line for line in lines if line.unseen], signs


def _controls(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return ((codes < 32) & (codes != 2)) | ((codes >= 0x7F) & (codes < 0xA0)) | (codes >= 0xFFFE)


def _private(codes: NDArray[np.uint32]) -> int:
    """How many characters mean nothing outside their font: private use, or the replacement character."""
    return int((((codes >= 0xE000) & (codes <= 0xF8FF)) | (codes == 0xFFFD)).sum())


def _doubled(glyphs: Glyphs, solid: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Characters drawn again at (nearly) the same place, which is how some files make bold type."""
    again = np.zeros(len(solid), np.bool_)
    sizes = np.array([run.size for run in glyphs.runs])[glyphs.run[solid]]
    for step in (1, 2):
        same = glyphs.codes[solid[step:]] == glyphs.codes[solid[:-step]]
        shift = np.abs(glyphs.origins[solid[step:]] - glyphs.origins[solid[:-step]]).max(axis=1)
        again[step:] |= same & (shift < 0.12 * sizes[step:])
    return again


def _ligatures_in_order(glyphs: Glyphs) -> Glyphs:
    """Letters that share one glyph (lam-alef), which PDFium gives in reverse in text that runs to the left."""
    rtl = _is_rtl(glyphs.codes)
    if not rtl.any():
        return glyphs
    same = (glyphs.boxes[1:] == glyphs.boxes[:-1]).all(axis=1) & rtl[1:] & rtl[:-1] & (glyphs.run[1:] >= 0)
    codes = glyphs.codes.copy()
    starts = np.flatnonzero(same & ~np.concatenate([[False], same[:-1]]))
    for start in starts.tolist():
        end = start + 2
        while end - 1 < len(same) and same[end - 1]:
            end += 1
        codes[start:end] = codes[start:end][::-1]
    return replace(glyphs, codes=codes)


def _composed(glyphs: Glyphs, kept: NDArray[np.int64]) -> tuple[Glyphs, NDArray[np.int64], frozenset[int]]:
    """Accents that the file sets as characters of their own over a letter (as TeX does), put on the letter.

    Also gives the characters that follow such an accent, before which PDFium put a space that is none.
    """
    places = np.flatnonzero(np.isin(glyphs.codes[kept], _ACCENT_CODES))
    if not len(places):
        return glyphs, kept, frozenset()
    codes = glyphs.codes.copy()
    gone: list[int] = []
    for place in places[:_MOST_ACCENTS].tolist():
        letter = _letter_under(glyphs, codes, int(kept[place]), kept)
        if letter is not None:
            codes[letter[0]] = letter[1]
            gone.append(place)
    after = {int(kept[place + step]) for place in gone for step in (-1, 0, 1, 2) if 0 <= place + step < len(kept)}
    return replace(glyphs, codes=codes), np.delete(kept, gone), frozenset(after)


def _letter_under(
    glyphs: Glyphs, codes: NDArray[np.uint32], accent: int, near: NDArray[np.int64]
) -> tuple[int, int] | None:
    """The letter that an accent stands over, with the code of both together."""
    middle = (glyphs.boxes[accent, 0] + glyphs.boxes[accent, 2]) / 2
    boxes = glyphs.boxes[near]
    level = np.abs(glyphs.origins[near, 1] - glyphs.origins[accent, 1]) < 0.6 * glyphs.runs[glyphs.run[accent]].size
    under = near[level & (boxes[:, 0] - 0.1 <= middle) & (boxes[:, 2] + 0.1 >= middle) & (near != accent)]
    for index in under.tolist():
        base = {"ı": "i", "ȷ": "j"}.get(chr(int(codes[index])), chr(int(codes[index])))
        whole = unicodedata.normalize("NFC", base + _ACCENTS[chr(int(codes[accent]))])
        if base.isalpha() and len(whole) == 1:
            return index, ord(whole)
    return None


def _frame(points: Floats, angle: int) -> Floats:
    """Points as shown, turned so that text at ``angle`` runs to the right."""
    if angle == 0:
        return points
    turn = np.radians(angle)
    cosine, sine = np.cos(turn), np.sin(turn)
    return points @ np.array([[cosine, -sine], [sine, cosine]])


def _extents(glyphs: Glyphs, chosen: NDArray[np.int64], angle: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Left, right, height and baseline of each character in the frame of its text."""
    boxes = glyphs.boxes[chosen]
    corners = [_frame(boxes[:, pick], angle) for pick in ([0, 1], [2, 1], [2, 3], [0, 3])]
    xs = np.stack([corner[:, 0] for corner in corners])
    ys = np.stack([corner[:, 1] for corner in corners])
    return xs.min(axis=0), xs.max(axis=0), np.ptp(ys, axis=0), _frame(glyphs.origins[chosen], angle)[:, 1]


def _pieces(
    glyphs: Glyphs, chosen: NDArray[np.int64], angle: int, sight: Sight, bridged: frozenset[int]
) -> list[_Piece]:
    left, right, height, base = _extents(glyphs, chosen, angle)
    runs = glyphs.run[chosen]
    sizes = _sizes(glyphs.runs, runs, height)
    codes = glyphs.codes[chosen]
    rtl = _is_rtl(codes)
    spaced = np.concatenate([[True], np.diff(chosen) > 1])
    if bridged:
        close = np.concatenate([[False], left[1:] - right[:-1] < 0.14 * sizes[1:]])
        spaced &= ~(close & np.array([index in bridged for index in chosen.tolist()]))
    starts = np.flatnonzero(_breaks(left, right, base, sizes, rtl, spaced))
    ends = np.append(starts[1:], len(chosen))
    text = _text(codes)
    boxes = glyphs.boxes[chosen]
    lows = np.minimum.reduceat(boxes[:, :2], starts)
    highs = np.maximum.reduceat(boxes[:, 2:], starts)
    lefts, rights = np.minimum.reduceat(left, starts), np.maximum.reduceat(right, starts)
    right_to_left = np.logical_or.reduceat(rtl, starts)
    unseen = [sight.of_run(run) for run in range(len(glyphs.runs))]
    columns = zip(
        starts.tolist(), ends.tolist(), lefts.tolist(), rights.tolist(), base[starts].tolist(),
        sizes[starts].tolist(), runs[starts].tolist(), chosen[starts].tolist(), spaced[starts].tolist(),
        right_to_left.tolist(), np.hstack([lows, highs]), strict=True,
    )  # fmt: skip
    return [
        _Piece("".join(text[a:b]), x0, x1, y, size, run, first, space, back, unseen[run], box)
        for a, b, x0, x1, y, size, run, first, space, back, box in columns
    ]


def _text(codes: NDArray[np.uint32]) -> list[str]:
    """One string a character; halves of a surrogate pair are put together in the first of the two."""
    text = [chr(code) for code in codes.tolist()]
    for high in np.flatnonzero((codes >= 0xD800) & (codes < 0xDC00)).tolist():
        pair = "".join(text[high : high + 2]).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text[high : high + 2] = [pair, ""][: len(text) - high]
    if np.any((codes >= 0xD800) & (codes < 0xE000)):
        text = [piece.encode("utf-8", "replace").decode("utf-8") for piece in text]
    return text


def _is_rtl(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Hebrew, Arabic and their presentation forms."""
    return (
        ((codes >= 0x590) & (codes < 0x900))
        | ((codes >= 0xFB1D) & (codes < 0xFE00))
        | ((codes >= 0xFE70) & (codes < 0xFEFF))
    )


def _sizes(runs: tuple[Run, ...], index: NDArray[np.int32], height: Floats) -> Floats:
    """Type sizes; where a font's own scale is odd, taken from the height of its letters instead."""
    sizes = np.array([run.size for run in runs])[index]
    tallest = np.zeros(len(runs))
    np.maximum.at(tallest, index, height)
    tallest = tallest[index]
    odd = (tallest > 0) & ((tallest > 1.6 * sizes) | (tallest < 0.2 * sizes))
    fitting = np.where(odd & (tallest > 1.6 * sizes), tallest / 0.75, sizes)
    return np.maximum(fitting, 0.01)


def _breaks(
    left: Floats, right: Floats, base: Floats, size: Floats, rtl: NDArray[np.bool_], spaced: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Where a new word begins."""
    begins = spaced.copy()
    em = np.maximum(size[1:], size[:-1])
    forward = left[1:] - right[:-1]
    backward = left[:-1] - right[1:]
    gap = np.where(rtl[1:] & rtl[:-1], backward, forward)
    begins[1:] |= (gap > 0.5 * em) | (gap < -1.0 * em) | (np.abs(np.diff(base)) > 0.3 * em)
    return begins


def _without_copies(pieces: list[_Piece]) -> list[_Piece]:
    """Words without those drawn a second time over themselves."""
    seen: dict[str, list[_Piece]] = {}
    kept: list[_Piece] = []
    for piece in pieces:
        twins = seen.setdefault(piece.text, [])
        near = 0.2 * piece.size
        if any(abs(twin.x0 - piece.x0) < near and abs(twin.base - piece.base) < near for twin in twins[-30:]):
            continue
        twins.append(piece)
        kept.append(piece)
    return kept if len(kept) == len(pieces) else _without_fragments(kept)


def _without_fragments(pieces: list[_Piece]) -> list[_Piece]:
    """Where words are drawn twice: without pieces of a word that lie on the whole word."""
    levels: dict[int, list[_Piece]] = {}
    for piece in pieces:
        levels.setdefault(round(piece.base), []).append(piece)

    def lies_on_whole(piece: _Piece) -> bool:
        near = 0.25 * piece.size
        return any(
            whole is not piece
            and len(whole.text) > len(piece.text)
            and piece.text in whole.text
            and whole.x0 - near <= piece.x0
            and piece.x1 <= whole.x1 + near
            for level in (-1, 0, 1)
            for whole in levels.get(round(piece.base) + level, [])
        )

    return [piece for piece in pieces if not lies_on_whole(piece)]


def _chains(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Words that continue each other in the file's order."""
    chains: list[list[_Piece]] = []
    reach = _reach(pieces)
    for piece in pieces:
        if chains and _continues(chains[-1][-1], piece, reach):
            chains[-1].append(piece)
        else:
            chains.append([piece])
    return chains


def _reach(pieces: list[_Piece]) -> float:
    """The widest white inside a line, in type sizes: wider where the usual space is (typewriter faces)."""
    gaps = [
        _gap(before, after) / max(before.size, after.size)
        for before, after in itertools.pairwise(pieces)
        if abs(before.base - after.base) < 0.1 * after.size
    ]
    usual = sorted(gap for gap in gaps if 0.05 < gap < 1.2)
    return max(0.75, 1.9 * usual[len(usual) // 2]) if len(usual) >= 20 else 0.75


def _gap(before: _Piece, after: _Piece) -> float:
    return before.x0 - after.x1 if before.rtl and after.rtl else after.x0 - before.x1


def _continues(before: _Piece, after: _Piece, reach: float) -> bool:
    em = max(before.size, after.size)
    if before.unseen is not after.unseen or not -0.35 * em <= _gap(before, after) <= reach * em:
        return False
    top = max(before.base - ASCENT * before.size, after.base - ASCENT * after.size)
    bottom = min(before.base + DESCENT * before.size, after.base + DESCENT * after.size)
    return bottom - top >= 0.5 * min(before.size, after.size)


def _join(chains: list[list[_Piece]]) -> list[list[_Piece]]:
    """Chains on one baseline whose ends nearly touch, put together."""
    rows: list[list[list[_Piece]]] = []
    for chain in sorted(chains, key=lambda chain: (chain[0].base, chain[0].x0)):
        near = rows and chain[0].base - rows[-1][0][0].base <= 0.2 * min(chain[0].size, rows[-1][0][0].size)
        if near:
            rows[-1].append(chain)
        else:
            rows.append([chain])
    joined: list[list[_Piece]] = []
    for row in rows:
        joined += _join_row(row)
    return joined


def _join_row(row: list[list[_Piece]]) -> list[list[_Piece]]:
    back = sum(chain[0].rtl for chain in row) * 2 > len(row)
    row = sorted(row, key=lambda chain: -chain[0].x1 if back else chain[0].x0)
    joined = [list(row[0])]
    for chain in row[1:]:
        if _continues(joined[-1][-1], chain[0], 0.55):
            joined[-1] += chain
        else:
            joined.append(list(chain))
    return joined


def _seen_line(chain: list[_Piece], angle: int, raw: RawPage, sight: Sight) -> Line:
    main = max(chain, key=lambda piece: len(piece.text) * (1 + piece.size / 1000))
    line = _line(chain, main, angle, raw.glyphs.runs, raw.geometry.size)
    return sight.checked(line, raw.glyphs.runs[main.run].luma)


def _line(chain: list[_Piece], main: _Piece, angle: int, runs: tuple[Run, ...], page: tuple[float, float]) -> Line:
    boxes = _fractions(np.array([piece.box for piece in chain]), page)
    low, high = _shown_band(chain, main, angle)
    whole = _fractions(np.array([[*low, *high]]), page)[0]
    text = _line_text(chain).translate(_LIGATURES)
    words = tuple(
        Word(piece.text.translate(_LIGATURES), box) for piece, box in zip(chain, boxes, strict=True) if piece.text
    )
    letters = sum(len(piece.text) for piece in chain)
    return Line(
        text=text,
        bbox=whole,
        words=words,
        size=main.size,
        bold=2 * sum(len(piece.text) for piece in chain if runs[piece.run].bold) > letters,
        italic=2 * sum(len(piece.text) for piece in chain if runs[piece.run].italic) > letters,
        angle=angle,
        hyphen=chain[-1].text[-1:] in SOFT_HYPHENS and chain[-1].text != "",
        unseen=main.unseen,
    )


def _line_text(chain: list[_Piece]) -> str:
    parts = [chain[0].text]
    for before, after in itertools.pairwise(chain):
        em = max(before.size, after.size)
        follows = after.first == before.first + len(before.text)
        touching = _gap(before, after) < (0.35 if follows else 0.12) * em
        parts.append(after.text if touching and not (after.spaced and not _raised(before, after)) else " " + after.text)
    return "".join(parts)


def _raised(before: _Piece, after: _Piece) -> bool:
    """Whether one of two touching words is a super- or subscript, after which PDFium puts a space."""
    return (
        abs(before.base - after.base) > 0.12 * max(before.size, after.size) and _gap(before, after) < 0.08 * after.size
    )


def _shown_band(chain: list[_Piece], main: _Piece, angle: int) -> tuple[Floats, Floats]:
    """Low and high corner, as shown, of the line's band around its baseline."""
    x0, x1 = min(piece.x0 for piece in chain), max(piece.x1 for piece in chain)
    band = np.array([[x0, main.base - ASCENT * main.size], [x1, main.base + DESCENT * main.size]])
    corners = np.array([[band[i, 0], band[j, 1]] for i in (0, 1) for j in (0, 1)])
    shown = _frame(corners, -angle % 360)
    return shown.min(axis=0), shown.max(axis=0)


def _fractions(boxes: Floats, page: tuple[float, float]) -> list[Box]:
    """Boxes in points as fractions of the page; what hangs over its edge is cut."""
    scaled = boxes / np.array([page[0] or 1, page[1] or 1] * 2)
    return [Box(*row) for row in np.nan_to_num(np.clip(scaled, 0, 1)).round(5).tolist()]
