"""What everything that unpacks zips goes by: how a damaged one fails, and when one is a bomb."""

from __future__ import annotations

import zipfile
import zlib

# What the standard library raises for zips that are cut off, damaged, locked, or packed in ways it does not know.
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError)

_MOST_RATIO = 300  # what grows more than this holds no document: deflate's own limit is about 1,000
_RATIO_FROM = 20_000_000  # bytes; below, growth harms nobody


def is_bomb(size: int, packed: int) -> bool:
    """Whether ``packed`` bytes that unpack to ``size`` grow more than a document does."""
    return size > _RATIO_FROM and size > _MOST_RATIO * max(1, packed)
