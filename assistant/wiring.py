"""Builds the assistant: the one place of the read path that reads settings and constructs its parts."""

from __future__ import annotations

from assistant.answering import Assistant
from assistant.core.ports import Catalogue, ChatModel, ChunkIndex, Embedder, Ingestion
from assistant.core.settings import EndpointSettings, Settings
from assistant.evidence import Weigher
from assistant.grounding import Placer
from assistant.ledger import Ledger
from assistant.pictures import Pictures
from assistant.replies import Replies
from assistant.retrieval import Retriever


def build_assistant(
    settings: Settings, *, index: ChunkIndex, embedder: Embedder, catalogue: Catalogue, ingestion: Ingestion
) -> Assistant:
    """The assistant over the given stores, with the models that ``settings`` name."""
    ledger = Ledger(catalogue)
    model = chat_model(settings.llm, ledger)
    weigher = Weigher(embedder)
    replies = Replies(Placer(catalogue), weigher)
    pictures = Pictures(
        ingestion,
        embedder,
        weigher,
        replies,
        vlm=chat_model(settings.vlm, ledger),
        model=model,
        megapixels=settings.limits.image_megapixels,
    )
    return Assistant(
        Retriever(index, embedder, settings.retrieval),
        weigher,
        replies,
        pictures,
        model=model,
        sources=settings.retrieval.sources,
    )


def chat_model(settings: EndpointSettings, ledger: Ledger) -> ChatModel | None:
    """The client for an endpoint, or None where none is configured."""
    if not settings.configured:
        return None
    from assistant.core.llm import OpenAIChatModel  # late: it is needed only with an endpoint

    return OpenAIChatModel(settings, ledger.record)
