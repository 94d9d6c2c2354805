"""Alembic's entry: runs revisions on the connection, and in the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from assistant.core.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
