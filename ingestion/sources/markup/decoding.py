"""The bytes of HTML to text: by their mark, by what they or their envelope declare, else by trial."""

from __future__ import annotations

import codecs
import re

from ingestion.sources.decoding import decode

_HEAD = 4096  # bytes in which a declaration counts
_DECLARED = re.compile(
    rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{2,40})",
    re.IGNORECASE,
)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Who declares one of these means Windows-1252 (https://encoding.spec.whatwg.org/#names-and-labels).
_WESTERN = ("ascii", "iso8859-1", "latin-1", "cp1252")


def decode_markup(data: bytes, charset: str = "") -> str | None:
    """The text of HTML; ``charset`` is what its envelope says. None when it is no text."""
    if not data.startswith(_MARKS):
        for name in (charset, _declared(data)):
            text = _decoded(data, name)
            if text is not None:
                return decode(text.encode("utf-8", "replace"))
    return decode(data)


def _declared(data: bytes) -> str:
    found = _DECLARED.search(data[:_HEAD])
    return (found[1] or found[2]).decode("ascii", "replace") if found else ""


def _decoded(data: bytes, charset: str) -> str | None:
    """The text, where the declaration is a known one and holds."""
    try:
        name = codecs.lookup(charset.strip()).name if charset.strip() else ""
    except (LookupError, ValueError):
        return None
    if not name or name.startswith("utf-16") or (name not in _TEXT_CODECS and not _is_text_codec(name)):
        return None  # a declaration that can be read at all is not in UTF-16
    if name in _WESTERN:
        return _western(data)
    try:
        return data.decode(name)
    except (UnicodeError, ValueError):
        return None


_TEXT_CODECS = ("utf-8", *_WESTERN)


def _is_text_codec(name: str) -> bool:
    """Python also knows codecs that decode no text (zlib, hex) or run over escapes."""
    return name not in ("unicode_escape", "raw_unicode_escape", "idna", "punycode", "undefined") and (
        getattr(codecs.lookup(name), "_is_text_encoding", True)
    )


def _western(data: bytes) -> str:
    """Windows-1252, unless it is UTF-8 under a false label, as templates often leave it."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace").replace("\ufffd", "")
