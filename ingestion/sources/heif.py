"""HEIC and HEIF pictures, as telephones make them, for Pillow to open. The library decodes only, and is loaded late."""

from __future__ import annotations

from functools import cache


@cache
def teach_pillow() -> None:
    """Let Pillow open the format "HEIF" from now on."""
    from pi_heif import register_heif_opener

    register_heif_opener()
