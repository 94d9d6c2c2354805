"""Where Chainlit's page and defaults do not fit Perito, and cannot be set: changed here, in one place.

- Its page loads fonts and a style sheet from the network: they are cut out, Perito works without one.
- Attached PDF files would open in a viewer inside the message: they become plain files.
- Its stop button sends an English message: the stopped answer says so itself, in the person's language.
- It ships 23 languages; ours are two, and a third would be half translated.
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from pathlib import Path
from typing import Any

import chainlit.config as chainlit_config
import chainlit.server as chainlit_server
from chainlit.config import config
from chainlit.element import Element
from chainlit.session import WebsocketSession

from assistant.core.settings import Settings

LANGUAGES = ("en-US", "es")
SHOWN_IN_PLACE = ("image/png", "image/jpeg", "image/webp")
_FOREIGN_LINK = re.compile(r"<link\b[^>]*\bhref=\"https?://[^>]*>", re.IGNORECASE)
_plain_template = chainlit_server.get_html_template
_plain_markdown = chainlit_server.get_markdown_str  # pyright: ignore[reportPrivateImportUsage]


def adapt(settings: Settings) -> None:
    """Bend Chainlit's modules to Perito; doing it twice is harmless."""
    upload = config.features.spontaneous_file_upload
    if upload is not None:
        upload.max_size_mb = settings.limits.upload_mb
    config.ui.default_theme = "system"  # pyright: ignore[reportAttributeAccessIssue] - the page knows it, the type not
    chainlit_server.get_html_template = _own_template
    chainlit_server.get_markdown_str = _own_markdown  # pyright: ignore[reportPrivateImportUsage]
    _own_template("")
    Element.infer_type_from_mime = classmethod(_kind_of)  # pyright: ignore[reportAttributeAccessIssue]
    for file in Path(chainlit_config.config_translation_dir).glob("*.json"):
        if file.stem not in LANGUAGES:
            file.unlink()
    logging.getLogger("chainlit").addFilter(_is_news)


@functools.cache
def _own_template(root_path: str) -> str:
    """The page, read once: Chainlit reads it from the disk at every request."""
    return _FOREIGN_LINK.sub("", _plain_template(root_path))


@functools.cache
def _own_markdown(root: str, language: str) -> str | None:
    """The page about Perito: Chainlit knows "es", but not that "es-MX" is Spanish too."""
    return _plain_markdown(root, language.split("-")[0].lower())


def _kind_of(cls: type[Element], mime_type: str) -> str:  # noqa: ARG001 - stands in for a class method
    return "image" if mime_type in SHOWN_IN_PLACE else "file"


def _is_news(record: logging.LogRecord) -> bool:
    """Chainlit warns at every page load that en-GB is read as en-US."""
    message = record.getMessage()
    return not (message.startswith("Translat") and "not found" in message)


def replace_stop() -> None:
    """Let the stop button cancel the running task and say nothing."""
    importlib.import_module("chainlit.socket")  # registers its own handler, which ours replaces
    chainlit_server.sio.on("stop", _stop)


async def _stop(sid: str) -> None:
    session: Any = WebsocketSession.get(sid)
    if session is not None and session.current_task:
        session.current_task.cancel()
