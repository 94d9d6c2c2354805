"""Commands over the HTTP API of the server that runs over the same home."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from assistant.core.domain import JobState
from assistant.core.errors import PeritoError, TransientError
from assistant.core.ports import DocumentQuery
from assistant.core.shapes import (
    AnswerShape,
    DocumentDetailShape,
    DocumentShape,
    IngestShape,
    JobShape,
    ProgressShape,
    QueueShape,
    RejectedShape,
    UsageTotalsShape,
)
from compose.server import RunningServer


class RemoteBackend:
    """Implements ``Backend``; use as an async context manager."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        headers = {"Authorization": f"Bearer {server.token}"}
        self._http = httpx.AsyncClient(
            base_url=server.url, headers=headers, timeout=httpx.Timeout(60, read=600), trust_env=False
        )

    async def __aenter__(self) -> RemoteBackend:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._http.aclose()

    async def ingest(
        self, file: Path, collection: str, password: str, on_progress: Callable[[ProgressShape], None]
    ) -> DocumentShape | RejectedShape:
        outcome = await self._send(file, file.name, {"collection": collection, "password": password})
        if isinstance(outcome, RejectedShape):
            return outcome
        document = await self.follow(outcome.id, on_progress)
        return document.model_copy(update={"duplicate": outcome.duplicate})

    async def submit(self, file: Path, name: str, collection: str) -> DocumentShape | RejectedShape:
        return await self._send(file, name, {"collection": collection})

    async def rename(self, document_id: str, name: str) -> DocumentShape:
        reply = await self._call("POST", f"/api/documents/{document_id}/rename", json={"name": name})
        return DocumentShape.model_validate(reply)

    async def finish(self) -> None:
        """Nothing to wait for: the server goes on embedding."""

    async def ask(self, question: str, collection: str | None, on_piece: Callable[[str], None]) -> AnswerShape:
        body = {"question": question} | ({"collection": collection} if collection else {})
        async for event, data in self._events("POST", "/api/ask", json=body):
            if event == "piece":
                on_piece(data["text"])
            elif event == "answer":
                return AnswerShape.model_validate(data)
            elif event == "error":
                raise as_error(data)
        raise TransientError("The server ended before its answer did", "Ask again")

    async def documents(self, collection: str | None, query: DocumentQuery) -> list[DocumentShape]:
        if query.ids is not None and not query.ids:
            return []  # of no document; a request without ids would be for all
        given = {
            "collection": collection,
            "status": next(iter(query.statuses), None),  # the command line asks for one at most
            "name": query.name,
            "id_begins": query.id_begins,
            "ids": ",".join(sorted(query.ids or ())),
            "with_parts": query.with_parts,
            "limit": query.limit,
            "offset": query.offset,
        }
        params = {key: value for key, value in given.items() if value}
        reply = await self._call("GET", "/api/documents", params=params)
        return [DocumentShape.model_validate(document) for document in reply["documents"]]

    async def document(self, document_id: str) -> DocumentDetailShape:
        return DocumentDetailShape.model_validate(await self._call("GET", f"/api/documents/{document_id}"))

    async def reread(self, document_id: str, on_progress: Callable[[ProgressShape], None]) -> DocumentShape:
        await self._call("POST", f"/api/documents/{document_id}/reread")
        return await self.follow(document_id, on_progress)

    async def delete(self, document_id: str) -> None:
        await self._call("DELETE", f"/api/documents/{document_id}")

    async def usage(self, days: int | None) -> UsageTotalsShape:
        reply = await self._call("GET", "/api/usage", params={} if days is None else {"days": days})
        return UsageTotalsShape.model_validate(reply)

    async def jobs(self, state: JobState | None, limit: int) -> QueueShape:
        params: dict[str, Any] = {"limit": limit} | ({"state": state.value} if state else {})
        return QueueShape.model_validate(await self._call("GET", "/api/jobs", params=params))

    async def job(self, document_id: str) -> JobShape:
        return JobShape.model_validate(await self._call("GET", f"/api/jobs/{document_id}"))

    async def retry(self, document_id: str) -> JobShape:
        return JobShape.model_validate(await self._call("POST", f"/api/jobs/{document_id}/retry"))

    async def cancel(self, document_id: str) -> JobShape:
        return JobShape.model_validate(await self._call("POST", f"/api/jobs/{document_id}/cancel"))

    async def pause(self) -> None:
        await self._call("POST", "/api/pause")

    async def resume(self) -> None:
        await self._call("POST", "/api/resume")

    async def follow(self, document_id: str, on_progress: Callable[[ProgressShape], None]) -> DocumentShape:
        document: DocumentShape | None = None
        async for event, data in self._events("GET", f"/api/documents/{document_id}/progress"):
            if event == "error":
                raise as_error(data)
            progress = ProgressShape.model_validate(data)
            document = progress.document
            on_progress(progress)
        if document is None:
            raise TransientError("The server ended before the document was read", "See `perito documents list`")
        return document

    async def _send(self, file: Path, name: str, form: dict[str, str]) -> DocumentShape | RejectedShape:
        with file.open("rb") as content:
            files, params = {"files": (name, content)}, {"bulk": True}
            reply = await self._call("POST", "/api/documents", params=params, data=form, files=files)
        return IngestShape.model_validate(reply).documents[0]

    async def _call(self, method: str, path: str, **request: Any) -> Any:
        try:
            response = await self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise self._gone(error) from None
        if response.is_error:
            raise as_error(_json(response.text))
        return response.json() if response.content else None

    async def _events(self, method: str, path: str, **request: Any) -> AsyncIterator[tuple[str, Any]]:
        """The events of a server-sent stream as (name, data)."""
        headers = {"Accept": "text/event-stream"}
        try:
            async with self._http.stream(method, path, headers=headers, **request) as response:
                if response.is_error:
                    raise as_error(_json((await response.aread()).decode("utf-8", "replace")))
                event = "message"
                async for line in response.aiter_lines():
                    if line.startswith("event:"):
                        event = line[6:].strip()
                    elif line.startswith("data:"):
                        yield event, json.loads(line[5:])
                    elif not line:
                        event = "message"
        except httpx.HTTPError as error:
            raise self._gone(error) from None

    def _gone(self, error: httpx.HTTPError) -> PeritoError:
        advice = "Look at its log, or start it again with `perito serve`"
        return TransientError(
            f"The server on {self._server.url} did not answer: {error or type(error).__name__}", advice
        )


def as_error(body: Any) -> PeritoError:
    """The error that the server's ErrorShape stands for, of the same class."""
    detail: dict[str, str] = body.get("error", {}) if isinstance(body, dict) else {}
    kinds = {kind("").code: kind for kind in _kinds(PeritoError)}
    kind = kinds.get(detail.get("code", ""), PeritoError)
    return kind(detail.get("message") or f"The server answered: {body}", detail.get("advice", ""))


def _kinds(root: type[PeritoError]) -> list[type[PeritoError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in _kinds(child))]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text[:300]
