"""HTML as parts, for every format that is made of it: web pages, mail, books.

``tree`` parses and tells what is seen, ``blocks`` walks what is seen, ``cells`` reads tables. Scripts are never
run, and nothing is fetched: a picture is shown only where ``Resources`` has it.
"""

from __future__ import annotations

from ingestion.sources.markup.blocks import markup_parts
from ingestion.sources.markup.decoding import decode_markup
from ingestion.sources.markup.resources import NO_RESOURCES, Resources

__all__ = ["NO_RESOURCES", "Resources", "decode_markup", "markup_parts"]
