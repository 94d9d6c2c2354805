"""The history of the tables, one revision a file in ``versions``, run by ``assistant.core.database`` at opening.

A new revision: add its file, append its name here, change ``tables.py`` to match; a test compares the three.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
REVISIONS = ("0001", "0002", "0003", "0004")  # oldest first; known here so that a start need not load Alembic
HEAD = REVISIONS[-1]
