"""Bytes to text, whatever their encoding; bytes that are no text are refused."""

from __future__ import annotations

import codecs
import re
import unicodedata

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 100_000  # bytes an unknown encoding is guessed from
_SHORT = 400  # bytes under which statistics guess badly: Western European is likelier
_MOST_CONTROLS = 0.01  # share of control characters in a text, at most
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_LINE_ENDS = re.compile(r"\r\n?|[\x0c\x85\u2028\u2029]")


def decode(data: bytes) -> str | None:
    """The text, with plain line ends and without control characters; None when it is no text."""
    text = _by_mark(data)
    if text is None:
        text = _by_trial(data)
    if text is None or _is_noise(text):
        return None
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))


def _by_mark(data: bytes) -> str | None:
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, errors="replace")
    return None


def _by_trial(data: bytes) -> str | None:
    wide = _wide(data) if b"\0" in data[:_SAMPLE] else None
    if wide:
        return data.decode(wide, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3 and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8")  # cut in the middle of its last letter
    if b"\0" in data:
        return None
    return data.decode(_guess(data), errors="replace")


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark shows as zeros in every other byte."""
    sample = data[: _SAMPLE // 2 * 2]
    if len(sample) < 4:
        return None
    half = len(sample) // 2
    even, odd = sample[::2].count(0) / half, sample[1::2].count(0) / half
    if odd > 0.3 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.3 and odd < 0.05 else None


def _guess(data: bytes) -> str:
    if len(data) < _SHORT:
        return _western(data)
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    if best is None:
        return _western(data)
    # Windows-1252 and its look-alikes differ in a few letters; of two that both fit, the common one.
    return _western(data) if best.encoding in ("cp1250", "cp1257", "latin_1", "iso8859_15") else best.encoding


def _western(data: bytes) -> str:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _is_noise(text: str) -> bool:
    """Whether there are too many characters that no text holds."""
    sample = text[:_SAMPLE]
    if not sample:
        return False
    odd = len(_CONTROLS.findall(sample)) + sample.count("\ufffd")
    odd += sum(1 for character in sample if unicodedata.category(character) in ("Co", "Cn"))
    return odd > _MOST_CONTROLS * len(sample) + 1
