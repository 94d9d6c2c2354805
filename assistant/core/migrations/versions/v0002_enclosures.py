"""Files found in mails and archives are documents that know where they were found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("documents", sa.Column("parent", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_documents_parent"), "documents", ["parent"])
    op.create_table(
        "enclosures",
        sa.Column("parent_id", sa.String(length=64), nullable=False),
        sa.Column("document_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["documents.id"], name=op.f("fk_enclosures_parent"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_enclosures_document"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("parent_id", "document_id", name=op.f("pk_enclosures")),
    )
    op.create_index(op.f("ix_enclosures_document_id"), "enclosures", ["document_id"])
