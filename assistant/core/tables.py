"""The tables of the catalogue and of the chat history, as SQLAlchemy metadata.

The migrations in ``migrations/versions`` make them; a test holds the two together. The chat's tables carry the
names that Chainlit's SQLAlchemy data layer writes into its SQL. Its JSON stands in text columns: that data layer
dumps and loads it by itself, and searches it with LIKE.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import BigInteger

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Tags = Text().with_variant(ARRAY(Text()), "postgresql")
Serial = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up only a plain INTEGER key

documents = Table(
    "documents",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("collection", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("search_name", Text, nullable=False),  # folded: no case, no accents
    Column("version", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),  # of the file as it was given
    Column("blob", String(64), nullable=False),  # key of the file as it is kept
    Column("status", String(16), nullable=False),
    Column("pages", Integer, nullable=False),
    Column("pages_done", Integer, nullable=False),
    Column("pages_failed", Integer, nullable=False),
    Column("readers", JSON, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("chunks_embedded", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("error", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created", DateTime(timezone=True), nullable=False),
    Column("parent", String(64)),  # the document it was found in; another where that one goes
    UniqueConstraint("collection", "sha256"),
    UniqueConstraint("collection", "name", "version"),
    Index(None, "blob"),
    Index(None, "status"),
    Index(None, "created"),
    Index(None, "parent"),
)

# What was found in what: the same file may hang on several mails.
enclosures = Table(
    "enclosures",
    metadata,
    Column("parent_id", ForeignKey("documents.id", name="fk_enclosures_parent", ondelete="CASCADE"), primary_key=True),
    Column(
        "document_id", ForeignKey("documents.id", name="fk_enclosures_document", ondelete="CASCADE"), primary_key=True
    ),
    Index(None, "document_id"),
)

pages = Table(
    "pages",
    metadata,
    Column("document_id", ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("reader", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("stale", Boolean, nullable=False),  # still shown, to be read again
    Column("confidence", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("error", Text, nullable=False),
    Column("turned", Integer, nullable=False),
    Column("width", Float, nullable=False),
    Column("height", Float, nullable=False),
    Column("blocks", JSON, nullable=False),
    Column("receipt", JSON, nullable=False),
    Index(None, "document_id", "status", "confidence"),  # how sure a document is, without reading its pages
)

readings = Table(
    "readings",
    metadata,
    Column("document_id", String(64), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("reader", String(16), nullable=False),
    Column("published", Boolean, nullable=False),  # the page shows this very reading; its blocks stand there
    Column("confidence", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("turned", Integer, nullable=False),
    Column("text_tokens", Integer, nullable=False),
    Column("visual_tokens", Integer, nullable=False),
    Column("features", JSON, nullable=False),
    Column("note", Text, nullable=False),
    Column("blocks", JSON, nullable=False),
    ForeignKeyConstraint(["document_id", "number"], ["pages.document_id", "pages.number"], ondelete="CASCADE"),
)

corrections = Table(
    "corrections",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("document_id", ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("page", Integer, nullable=False),
    Column("bbox", JSON, nullable=False),
    Column("text", Text),  # NULL: only marked as misread
    Column("original", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Index(None, "document_id", "page"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("document_id", ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("urgency", Integer, nullable=False),
    Column("turn", Float, nullable=False),  # since when it stands in line, by the database's clock
    Column("not_before", Float, nullable=False),  # when a job that was put off is tried again
    Column("worker", String(64), nullable=False),  # "" unless running
    Column("epoch", Integer, nullable=False),  # counts hand-overs: with another number, nothing may be written
    Column("generation", Integer, nullable=False),  # counts readings that were asked for
    Column("attempts", Integer, nullable=False),
    Column("deaths", Integer, nullable=False),  # of workers that read it and got no page, nor part, further
    Column("pages_before", Integer, nullable=False),  # done when it was last taken, with the parts found by then
    Column("doubts", Integer, nullable=False),  # writes to the index by a worker that had lost it
    Column("reason", Text, nullable=False),
    Index(None, "state", "urgency", "turn"),
    Index(None, "worker"),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started", Float, nullable=False),  # of the process: a pid alone may be given away again
    Column("beat", Float, nullable=False),  # when it last showed itself, by the database's clock
)

switches = Table(
    "switches",
    metadata,
    Column("name", String(32), primary_key=True),  # "paused": nobody reads
    Column("who", Text, nullable=False),
)

usage = Table(
    "usage",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("visual_tokens", Integer, nullable=False),
    Column("estimated", Boolean, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("price", Float, nullable=False),
    Column("user", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("document_id", String(64), nullable=False),  # "" when there is none, or none any more
    Index(None, "at"),
    Index(None, "document_id"),
)

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("identifier", Text, nullable=False, unique=True),
    Column("metadata", Text, nullable=False),
    Column("createdAt", Text),
)

threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("createdAt", Text),
    Column("name", Text),
    Column("userId", ForeignKey("users.id", ondelete="CASCADE")),
    Column("userIdentifier", Text),
    Column("tags", Tags),
    Column("metadata", Text),
    Index(None, "userId"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("threadId", ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("parentId", Text),
    Column("streaming", Boolean, nullable=False),
    Column("waitForAnswer", Boolean),
    Column("isError", Boolean),
    Column("metadata", Text),
    Column("tags", Tags),
    Column("input", Text),
    Column("output", Text),
    Column("createdAt", Text),
    Column("start", Text),
    Column("end", Text),
    Column("generation", Text),
    Column("showInput", Text),
    Column("language", Text),
    Column("indent", Integer),
    Column("command", Text),
    Column("icon", Text),
    Column("defaultOpen", Boolean),
    Column("autoCollapse", Boolean),
    Index(None, "threadId"),
)

elements = Table(
    "elements",
    metadata,
    Column("id", Text, primary_key=True),
    Column("threadId", ForeignKey("threads.id", ondelete="CASCADE")),
    Column("type", Text),
    Column("url", Text),
    Column("chainlitKey", Text),
    Column("name", Text, nullable=False),
    Column("display", Text),
    Column("objectKey", Text),
    Column("size", Text),
    Column("page", Integer),
    Column("language", Text),
    Column("forId", Text),
    Column("mime", Text),
    Column("props", Text),
    Column("autoPlay", Boolean),
    Column("playerConfig", Text),
    Index(None, "threadId"),
    Index(None, "forId"),
)

feedbacks = Table(
    "feedbacks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("forId", Text, nullable=False),
    Column("threadId", Text),
    Column("value", Integer, nullable=False),
    Column("comment", Text),
    Index(None, "forId"),
)
