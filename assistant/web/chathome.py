"""The folder Chainlit works in, and the environment it reads when it is first imported.

Chainlit writes into its application root (uploads, translations), so it gets a copy in Perito's home and
leaves the working directory and the installed package alone. Call ``prepare`` before importing chainlit.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from importlib.resources import as_file, files
from pathlib import Path

from assistant.core.settings import Settings
from assistant.web.auth import Door
from assistant.web.texts import ENGLISH, SPANISH


def prepare(settings: Settings, door: Door) -> Path:
    """Lay out ``<home>/ui`` afresh and point Chainlit at it."""
    logging.getLogger("chainlit").setLevel(logging.WARNING)  # it announces every file it lays out
    root = settings.home / "ui"
    shutil.rmtree(root, ignore_errors=True)
    with as_file(files("assistant.web") / "ui") as ours:
        shutil.copytree(ours, root)
    for path in (root, *root.rglob("*")):  # the package may be installed for reading only
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    _add_labels(root / "public" / "perito.js")
    os.environ.update(
        CHAINLIT_APP_ROOT=str(root),
        CHAINLIT_AUTH_SECRET=door.secret,
        CHAINLIT_AUTH_COOKIE_NAME=door.cookie,
        TRACELOOP_TELEMETRY="false",  # Chainlit imports it; nothing may leave this machine
        CHAINLIT_ENV_FILE=os.devnull,  # or it loads a .env of whatever folder Perito was started in
    )
    return root


def _add_labels(script: Path) -> None:
    """Give the page our labels in both languages: what it shows follows the browser, not the message's past."""
    labels = {texts.language: texts.labels for texts in (ENGLISH, SPANISH)}
    line = f"window.peritoLabels = {json.dumps(labels, ensure_ascii=False)};\n"
    script.write_text(line + script.read_text("utf-8"), "utf-8")
