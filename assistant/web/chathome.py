"""The folder Chainlit works in, and the environment it reads when it is first imported.

Chainlit writes into its application root (uploads, translations), so it gets a copy in Perito's home and
leaves the working directory and the installed package alone. Call ``prepare`` before importing chainlit.
"""

from __future__ import annotations

import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from assistant.core.settings import Settings
from assistant.web.auth import Door


def prepare(settings: Settings, door: Door) -> Path:
    """Lay out ``<home>/ui`` afresh and point Chainlit at it."""
    root = settings.home / "ui"
    shutil.rmtree(root, ignore_errors=True)
    with as_file(files("assistant.web") / "ui") as ours:
        shutil.copytree(ours, root)
    os.environ.update(
        CHAINLIT_APP_ROOT=str(root),
        CHAINLIT_AUTH_SECRET=door.secret,
        CHAINLIT_AUTH_COOKIE_NAME=door.cookie,
        CHAINLIT_ENV_FILE=os.devnull,  # or it loads a .env of whatever folder Perito was started in
    )
    return root
