"""`perito doctor`: is everything there that Perito needs, and how is it set?"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel, SecretStr

from assistant.core.endpoints import section
from assistant.core.errors import EndpointDown, PeritoError
from assistant.core.machine import usable_cores
from assistant.core.settings import MEGABYTE, EndpointSettings, Settings, load_settings
from compose.server import find_server
from compose.standalone import catalogue_url, make_home


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. "note" is worth knowing and no fault."""

    name: str
    state: Literal["ok", "note", "bad"]
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """All checks and all settings as (name, value, meaning)."""

    checks: tuple[Check, ...]
    settings: tuple[tuple[str, str, str], ...]

    @property
    def healthy(self) -> bool:
        return all(check.state != "bad" for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        settings = [{"name": name, "value": value, "meaning": meaning} for name, value, meaning in self.settings]
        return {"healthy": self.healthy, "checks": [asdict(check) for check in self.checks], "settings": settings}


async def examine() -> Examination:
    """Run every check; one that fails says so and the others go on. Misconfigured as ``load_settings``."""
    settings = load_settings()
    looks: tuple[Callable[[Settings], Awaitable[Check]], ...] = (
        _python,
        _home,
        _server,
        _worker,
        _embedder,
        _ocr,
        lambda settings: _endpoint("language model", settings.llm, "answers are quotes"),
        lambda settings: _endpoint("vision model", settings.vlm, "hard pages keep their OCR reading"),
        lambda settings: _endpoint("transcription", settings.transcription, "recordings are refused"),
        _index,
    )
    checks = [await _guarded(look, settings) for look in looks]
    return Examination(tuple(checks), tuple(_listed(settings)))


async def _guarded(look: Callable[[Settings], Awaitable[Check]], settings: Settings) -> Check:
    try:
        return await look(settings)
    except PeritoError as error:
        return Check(look.__name__.strip("_").replace("<lambda>", "endpoint"), "bad", error.message, error.advice)


async def _python(_: Settings) -> Check:
    return Check("python", "ok", f"{sys.version.split()[0]}, {usable_cores()} usable cores")


async def _home(settings: Settings) -> Check:
    await asyncio.to_thread(make_home, settings.home)
    free = shutil.disk_usage(settings.home).free // MEGABYTE
    if free < settings.limits.free_disk_mb:
        return Check(
            "home", "bad", f"{settings.home}: only {free} MB free", "Free some space; until then nothing is accepted"
        )
    return Check("home", "ok", f"{settings.home}, {free // 1000} GB free")


async def _server(settings: Settings) -> Check:
    server = await asyncio.to_thread(find_server, settings.home)
    return (
        Check("server", "ok", f"running on {server.url}")
        if server
        else Check("server", "note", "not running", "perito serve")
    )


async def _worker(settings: Settings) -> Check:
    """Whether somebody lives who reads what is accepted."""
    if settings.index.kind == "edge":
        return Check("worker", "ok", "documents are read by the server itself")

    def look() -> Check:
        from assistant.core.catalogue import SqlCatalogue

        with contextlib.closing(SqlCatalogue.open(catalogue_url(settings))) as catalogue:
            signs, paused = catalogue.queue.workers(), catalogue.queue.is_paused()
        alive = [f"{sign.host} ({sign.pid})" for sign in signs if sign.silent <= settings.worker.lease_seconds]
        if not alive:
            state = "bad" if find_server(settings.home) else "note"
            return Check("worker", state, "no worker lives: what is accepted waits", "Start `perito worker`")
        who = f"documents are read by {', '.join(alive)}"
        if paused:
            return Check("worker", "note", f"{who}, once reading is no longer paused", "perito jobs resume")
        return Check("worker", "ok", who)

    return await asyncio.to_thread(look)


async def _embedder(settings: Settings) -> Check:
    def measure() -> Check:
        from assistant.core.embedder import open_embedder

        embedder = open_embedder(settings.embedding)
        started = time.perf_counter()
        size = len(embedder.embed_query("¿Cuál es el plazo?"))
        return Check(
            "embedder",
            "ok",
            f"{embedder.model}, {size} dimensions, {1000 * (time.perf_counter() - started):.0f} ms a question",
        )

    return await asyncio.to_thread(measure)


async def _ocr(settings: Settings) -> Check:
    from PIL import Image, ImageDraw, ImageFont

    from ingestion.readers.ocr import OcrReader

    picture = Image.new("RGB", (640, 120), "white")
    ImageDraw.Draw(picture).text((20, 30), "Perito 2026", fill="black", font=ImageFont.load_default(48))
    ocr = OcrReader(settings.ocr.model_copy(update={"processes": 1}))
    started = time.perf_counter()
    try:
        text = " ".join(block.text for block in (await ocr.read(picture)).blocks)
    finally:
        await ocr.aclose()
    seconds = time.perf_counter() - started
    if "2026" not in text:
        return Check("ocr", "bad", f'read "{text}" where "Perito 2026" stands', "Reinstall Perito, or mend ocr.models")
    return Check("ocr", "ok", f"PaddleOCR reads, {seconds:.1f} s with its start")


async def _endpoint(name: str, endpoint: EndpointSettings, without: str) -> Check:
    if not endpoint.configured:
        return Check(
            name,
            "note",
            f"none, so {without}",
            f"Set {section(endpoint)}.base_url and .model",
        )
    models = await _served_models(endpoint)
    if endpoint.model not in models:
        served = f"{endpoint.base_url} serves {', '.join(models) or 'nothing'}"
        return Check(name, "bad", served, f"It does not serve {endpoint.model}: mend the model's name")
    return Check(name, "ok", f"{endpoint.model} on {endpoint.base_url}")


async def _served_models(endpoint: EndpointSettings) -> list[str]:
    """What the endpoint lists under /models. EndpointDown."""
    import httpx

    key = endpoint.api_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx.AsyncClient(timeout=10, headers=headers) as http:
            reply = await http.get(endpoint.base_url.rstrip("/") + "/models")
            reply.raise_for_status()
            return [str(model["id"]) for model in reply.json()["data"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise EndpointDown(f"{endpoint.base_url} does not answer: {error or type(error).__name__}") from None


async def _index(settings: Settings) -> Check:
    if settings.index.kind == "edge":
        return Check("index", "ok", "Qdrant Edge in this process")

    def reach() -> Check:
        from assistant.core.embedder import open_embedder
        from assistant.core.index import open_index

        open_index(settings.index, settings.home / "index", open_embedder(settings.embedding)).close()
        return Check("index", "ok", f"Qdrant server on {settings.index.url}")

    return await asyncio.to_thread(reach)


def _listed(tree: BaseModel, path: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in type(tree).model_fields.items():
        value = getattr(tree, name)
        if isinstance(value, BaseModel):
            yield from _listed(value, f"{path}{name}.")
        else:
            shown = "(set)" if isinstance(value, SecretStr) and value.get_secret_value() else str(value) or "-"
            yield f"{path}{name}", "-" if shown == "[]" else shown, field.description or ""
