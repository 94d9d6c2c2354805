"""A small real HTTP server that speaks the OpenAI wire from a script, to hold the real client against.

Each request takes the next reply of the script; the last one is repeated. It serves one request a
connection and sees when the client hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Reply = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """A request and the way back."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_event(self, value: object) -> None:
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        block = f"data: {data}\n\n".encode()
        await self.send(f"{len(block):x}\r\n".encode() + block + b"\r\n")

    async def hung_up(self) -> None:
        """Returns when the client closed its side."""
        while await self.reader.read(1024):
            pass


@dataclass
class Endpoint:
    """The running server; ``exchanges`` holds what was asked, ``most`` the most requests at a time. Without
    ``models`` it has a web page where their list should be."""

    script: list[Reply]
    port: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    models: Sequence[str] = ("tiny",)
    hangups: int = 0
    now: int = 0
    most: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                exchange = await _read(reader, writer)
                if exchange.path.endswith("/models") and not self.models:
                    await answer_raw(200, b"<html>Welcome</html>", "text/html")(exchange)
                    return
                if exchange.path.endswith("/models"):
                    await answer_json(200, {"object": "list", "data": [{"id": name} for name in self.models]})(exchange)
                    return
                self.exchanges.append(exchange)
                await self.script[min(len(self.exchanges), len(self.script)) - 1](exchange)
        finally:
            self.now -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def endpoint(*script: Reply, port: int = 0, models: Sequence[str] = ("tiny",)) -> AsyncIterator[Endpoint]:
    """A server with this script on a free port (or ``port``), until the block ends."""
    served = Endpoint(list(script), models=models)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await served.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def answer_json(status: int, body: object, **headers: str) -> Reply:
    return answer_raw(status, json.dumps(body).encode(), "application/json", **headers)


def answer_raw(status: int, body: bytes, kind: str, **headers: str) -> Reply:
    async def reply(exchange: Exchange) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await exchange.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return reply


def failing(status: int, message: str = "out of order", **headers: str) -> Reply:
    """An error in vLLM's form."""
    body = {"error": {"message": message, "type": "Error", "param": None, "code": status}}
    return answer_json(status, body, **headers)


def saying(
    *pieces: str,
    usage: dict[str, Any] | None = None,
    finish: str | None = "stop",
    logprobs: Sequence[float] = (),
    before_end: Callable[[Exchange], Awaitable[None]] | None = None,
    extra: Sequence[object] = (),
    done: bool = True,
) -> Reply:
    """A streamed reply, piece by piece. ``before_end`` runs between the pieces and the end; ``extra``
    events come after the pieces; without ``done`` the connection just closes after them."""

    async def reply(exchange: Exchange) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        await exchange.send(f"{head}connection: close\r\n\r\n".encode())
        for number, piece in enumerate(pieces):
            told = {"content": [{"token": piece, "logprob": logprobs[number]}]} if logprobs else None
            await exchange.send_event(chunk({"content": piece}, logprobs=told))
        for event in extra:
            await exchange.send_event(event)
        if before_end:
            await before_end(exchange)
        if not done:
            return
        if finish:
            await exchange.send_event(chunk({}, finish=finish))
        if usage is not None:
            await exchange.send_event({**chunk({}), "choices": [], "usage": usage})
        await exchange.send_event("[DONE]")
        await exchange.send(b"0\r\n\r\n")

    return reply


async def hang(exchange: Exchange) -> None:
    """Takes the request and says nothing until the client gives up."""
    await exchange.hung_up()


def chunk(delta: dict[str, Any], finish: str | None = None, logprobs: object = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, json.loads(body) if body else {}, reader, writer)
