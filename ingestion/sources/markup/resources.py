"""What an HTML text may show besides its letters: pictures that lie beside it, never from elsewhere."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

Load = Callable[[], bytes]
Resources = Callable[[str], Load | None]
"""From an address as it stands in the text to what loads it; None where it does not lie in the file itself."""

_LONGEST = 64_000_000  # letters of a picture written into the text
_DATA = re.compile(r"data:image/[\w.+-]+((?:;[\w=.+-]+)*),", re.IGNORECASE)


def NO_RESOURCES(address: str) -> Load | None:  # noqa: N802, ARG001 - reads as the constant it is
    """Nothing lies beside the text."""
    return None


def find_picture(address: str, beside: Resources) -> Load | None:
    """What loads a picture: one written into the address itself, or one that lies beside the text."""
    address = address.strip()
    if not address:
        return None
    written = _DATA.match(address[:200])
    if written is None:
        return None if address[:5].lower() == "data:" else beside(address)
    if len(address) > _LONGEST:
        return None
    return lambda: _written_bytes(address[written.end() :], ";base64" in written[1].lower())


def _written_bytes(text: str, is_base64: bool) -> bytes:
    raw = unquote_to_bytes(text)
    if not is_base64:
        return raw
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4))
    except (binascii.Error, ValueError):
        return b""
