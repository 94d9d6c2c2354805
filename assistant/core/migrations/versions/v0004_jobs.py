"""The queue: a job for each document, the workers that live, and the switch that pauses them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("document_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("urgency", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Float(), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("worker", sa.String(length=64), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.Integer(), nullable=False),
        sa.Column("pages_before", sa.Integer(), nullable=False),
        sa.Column("doubts", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], name=op.f("fk_jobs_documents"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_state_urgency_turn"), "jobs", ["state", "urgency", "turn"])
    op.create_index(op.f("ix_jobs_worker"), "jobs", ["worker"])
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("beat", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "switches",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_switches")),
    )
    op.execute(
        """
        INSERT INTO jobs (document_id, state, urgency, turn, not_before, worker, epoch, generation, attempts, deaths,
                          pages_before, doubts, reason)
        SELECT id, CASE WHEN status IN ('queued', 'reading') THEN 'waiting'
                        WHEN status = 'failed' THEN 'failed' ELSE 'done' END,
               1, 0, 0, '', 0, 0, 0, 0, pages_done, 0, CASE WHEN status = 'failed' THEN error ELSE '' END
        FROM documents
        """
    )
