"""Chunks, vectors and an embedded index for tests; light, since child processes import it too."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from assistant.core.domain import Access, Anchor, BlockKind, Box, Chunk, Reader
from assistant.core.index import HybridIndex, chunk_id
from assistant.core.indexedge import EdgeStore
from assistant.core.points import IndexSpec

ALL = Access("anna", None)
SPEC = IndexSpec("a model", 8)


def opened(folder: Path, spec: IndexSpec = SPEC) -> HybridIndex:
    return HybridIndex(EdgeStore.open(folder, spec), spec)


def vectors(count: int, dimension: int = 8, seed: int = 1) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def chunk(text: str, ordinal: int = 0, *, document: str = "lease", page: int = 1, collection: str = "legal") -> Chunk:
    return Chunk(
        id=chunk_id(document, page, ordinal),
        document_id=document,
        document=f"{document}.pdf",
        collection=collection,
        page=page,
        ordinal=ordinal,
        text=text,
        anchors=(Anchor(document, page, (Box(0.1, 0.2, 0.9, 0.25),), ("Contrato", "Cláusulas")),),
        reader=Reader.OCR,
        confidence=0.93,
        kind=BlockKind.PARAGRAPH,
    )
