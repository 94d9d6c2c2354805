"""The web over the kernel's fakes and the real assistant: what the tests of the API and of access stand on."""

from __future__ import annotations

import asyncio
import hashlib
import io
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from PIL import Image

from assistant.core.domain import Access, Box, Document, collection_name
from assistant.core.errors import AccessDenied, EmptyFile, EncryptedFile, NotFound, UnsupportedFile
from assistant.core.ports import DocumentQuery, Progress, Submission, Upload
from assistant.core.settings import Settings, load_settings
from assistant.web.app import Services, create_api
from assistant.web.auth import hash_password
from assistant.wiring import build_assistant
from ingestion.pageimages import encode, with_boxes
from tests.fakes import FakeBlobStore, FakeCatalogue, FakeEmbedder, FakeIndex, FakeIngestion, FakeQueue

HERE = "http://127.0.0.1:8000"
PASSWORDS = {"ana": "una clave larga", "bea": "correct horse", "carl": "hr only please"}
COLLECTIONS = {"ana": ["contracts"], "bea": ["*"], "carl": ["hr"]}
CONTRACT = """Arrendamiento de la calle Mayor 14.

La renta mensual es de 1.250 euros y se paga el día cinco.

El contrato vence el 31 de diciembre de 2027."""


class Reading(FakeIngestion):
    """FakeIngestion that refuses what real reading refuses, by the same kinds of error, and never blocks."""

    blobs: FakeBlobStore

    async def submit(self, upload: Upload, access: Access) -> Submission:
        return await asyncio.to_thread(self._accept, upload, access)

    async def progress(self, document_id: str, access: Access) -> AsyncIterator[Progress]:
        yield Progress(await asyncio.to_thread(self.catalogue.document, document_id, access))

    async def reread(self, document_id: str, access: Access) -> Document:
        return await asyncio.to_thread(self.catalogue.document, document_id, access)

    async def delete(self, document_id: str, access: Access) -> None:
        await asyncio.to_thread(self.catalogue.delete_document, document_id, access)
        self.index.delete(document_id)

    def _accept(self, upload: Upload, access: Access) -> Submission:
        content = upload.path.read_bytes()
        collection = collection_name(upload.collection)
        if not access.allows(collection):
            raise AccessDenied(f"{access.user} may not add to {collection}")
        if not content:
            raise EmptyFile(f"{upload.name} is empty")
        if content.startswith(b"LOCKED") and upload.password != "sesame":
            raise EncryptedFile(f"{upload.name} is locked")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise UnsupportedFile(f"{upload.name} is of no kind that is read here")
        same = DocumentQuery(sha256=hashlib.sha256(content).hexdigest())
        for document in self.catalogue.documents(access.narrowed(collection), same):
            return Submission(document, duplicate=True)
        self.blobs.put(content)
        return Submission(self.add(text, upload.name, collection, access.user))


@dataclass(frozen=True)
class PaperImages:
    """A white page for every page there is, with its boxes."""

    catalogue: FakeCatalogue

    def page_image(self, document_id: str, number: int, access: Access, boxes: Sequence[Box] = ()) -> bytes:
        if number > self.catalogue.document(document_id, access).pages:
            raise NotFound("There is no such page")
        plain = encode(Image.new("RGB", (600, 800), "white"))
        return with_boxes(plain, boxes) if boxes else plain


@dataclass(frozen=True)
class Web:
    """A running API and what lies behind it."""

    app: FastAPI
    services: Services
    ingestion: Reading

    def client(self, user: str = "", **options: Any) -> httpx.AsyncClient:
        """A client; as ``user`` when one is named, else without credentials."""
        auth = httpx.BasicAuth(user.encode(), PASSWORDS[user].encode()) if user else None
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=HERE, auth=auth, **options)


def settings_for(home: Path, *, users: bool = False, **overrides: Any) -> Settings:
    home.mkdir(parents=True, exist_ok=True)
    people = [
        {"name": name, "password_hash": hash_password(PASSWORDS[name]), "collections": seen}
        for name, seen in COLLECTIONS.items()
    ]
    settings = load_settings(**({"auth": {"users": people}} if users else {}), **overrides)
    return settings.model_copy(update={"home": home})  # the environment names another


def build_web(settings: Settings, tmp_path: Path, clock: Callable[[], float] = time.monotonic) -> Web:
    folder = tmp_path / "blobs"
    folder.mkdir(exist_ok=True)
    catalogue, index, blobs = FakeCatalogue(), FakeIndex(), FakeBlobStore(folder)
    ingestion = Reading(catalogue, index, FakeEmbedder(), picture_text="TOTAL 42,50 EUR")
    ingestion.blobs = blobs
    assistant = build_assistant(
        settings, index=index, embedder=FakeEmbedder(), catalogue=catalogue, ingestion=ingestion
    )
    services = Services(
        settings,
        assistant,
        ingestion,
        catalogue,
        PaperImages(catalogue),
        blobs,
        index,
        FakeQueue(catalogue),
        local_token="local-token",
    )
    return Web(create_api(services, clock), services, ingestion)


def files(*named: tuple[str, bytes]) -> list[tuple[str, tuple[str, io.BytesIO]]]:
    """A multipart body."""
    return [("files", (name, io.BytesIO(content))) for name, content in named]
