"""The HTTP API over the real parts, with every blocking call in the event loop an error."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import httpx
import pytest
from blockbuster import blockbuster_ctx
from PIL import Image

from assistant.core.settings import load_settings
from assistant.web.app import Services, create_api
from compose.standalone import open_perito
from tests.documents import shared

REPORT = "digital_text/es_aeat_modelo190_instrucciones.pdf"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERITO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


async def test_a_report_goes_in_is_asked_about_in_two_languages_and_leaves_nothing(home: Path) -> None:
    report = shared(REPORT)
    content = await asyncio.to_thread(report.read_bytes)
    async with open_perito(load_settings()) as perito:
        app = create_api(
            Services(
                perito.settings,
                perito.assistant,
                perito.worker,
                perito.catalogue,
                perito.page_images,
                perito.blobs,
                perito.index,
                perito.worker,
            )
        )
        transport = httpx.ASGITransport(app)
        with blockbuster_ctx(["assistant", "ingestion", "compose"]):
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=240) as client:
                reply = await client.post(
                    "/api/documents?wait=true", files={"files": (report.name, io.BytesIO(content))}
                )
                (document,) = reply.json()["documents"]
                assert (document["status"], document["pages"], document["readers"]["text"]) == ("complete", 7, 7)

                # Truth: datasets/doc_qa.open.jsonl, docqa-010 and docqa-009
                spanish = await ask(client, "¿Cuánto tiempo de validez tiene el PIN de Cl@ve desde que se solicita?")
                assert "10 minutos" in spanish["answer"]
                english = await ask(
                    client, "If technical reasons prevent filing Modelo 190 on time, how long is the extension?"
                )
                assert english["language"] == "en"
                cited = next(one for one in spanish["citations"] if "10 minutos" in one["text"])
                assert (cited["document_id"], cited["page"], cited["reader"]) == (document["id"], 4, "text")

                boxes = ";".join(",".join(map(str, box)) for box in cited["boxes"])
                image = await client.get(f"/api/documents/{document['id']}/pages/4/image", params={"boxes": boxes})
                assert image.status_code == 200, image.text
                assert Image.open(io.BytesIO(image.content)).format == "JPEG"
                kept = await client.get(f"/api/documents/{document['id']}/file")
                assert kept.content == content

                assert (await client.delete(f"/api/documents/{document['id']}")).status_code == 204
                gone = await ask(client, "¿Cuánto tiempo de validez tiene el PIN de Cl@ve?")
                assert gone["refused"] and gone["citations"] == []
                assert (await client.get(f"/api/documents/{document['id']}/pages/4/image")).status_code == 404


async def ask(client: httpx.AsyncClient, question: str) -> dict[str, object]:
    reply = await client.post("/api/ask", json={"question": question})
    assert reply.status_code == 200, reply.text
    return reply.json()
