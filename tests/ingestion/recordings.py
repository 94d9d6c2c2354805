"""Recordings for tests, and a stand-in for a transcription endpoint.

No speech model can be had where the tests run, so ``Transcriptions`` is a fake on the wire: a real HTTP server that
speaks the documented request and reply of ``POST /v1/audio/transcriptions`` and "hears" what its script says.
"""

from __future__ import annotations

import io
import json
import math
import struct
import threading
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def tone(seconds: float, rate: int = 8000) -> bytes:
    """A WAV file of a quiet tone, by the standard library."""
    held = io.BytesIO()
    with wave.open(held, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(rate)
        sound.writeframes(bytes(128 + round(20 * math.sin(n / 5)) for n in range(rate)) * int(seconds))
        sound.writeframes(bytes([128]) * int(rate * (seconds - int(seconds))))
    return held.getvalue()


def reply(*said: tuple[float, float, str], sure: float = 0.95, duration: float = 0.0) -> dict[str, Any]:
    """A ``verbose_json`` reply, as OpenAI documents it."""
    segments = [
        {
            "id": number, "seek": 0, "start": start, "end": end, "text": f" {text}", "tokens": [], "temperature": 0.0,
            "avg_logprob": math.log(sure), "compression_ratio": 1.2, "no_speech_prob": 0.01,
        }
        for number, (start, end, text) in enumerate(said)
    ]  # fmt: skip
    length = duration or max((end for _, end, _ in said), default=0.0)
    text = " ".join(text for *_, text in said)
    return {"task": "transcribe", "language": "spanish", "duration": length, "text": text, "segments": segments}


@dataclass
class Heard:
    """What was asked: the form's fields, and the file's name, type and bytes."""

    path: str
    authorization: str
    fields: dict[str, str]
    name: str
    media_type: str
    data: bytes


@dataclass
class Transcriptions:
    """The fake endpoint: its script's replies, in order, the last one again and again; (status, body, headers)."""

    script: Sequence[tuple[int, Any, dict[str, str]]]
    heard: list[Heard] = field(default_factory=list[Heard])
    port: int = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.heard.append(_heard(request))
        status, body, headers = self.script[min(len(self.heard), len(self.script)) - 1]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)


def _heard(request: BaseHTTPRequestHandler) -> Heard:
    length = request.headers.get("Content-Length")
    data = request.rfile.read(int(length)) if length else b"".join(_chunks(request))
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    form = BytesParser(policy=HTTP).parsebytes(head + data)
    fields: dict[str, str] = {}
    file: tuple[str, str, bytes] = ("", "", b"")
    for part in form.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True) or b""
        assert isinstance(content, bytes)
        if name == "file":
            file = (part.get_filename() or "", part.get_content_type(), content)
        else:
            fields[name] = content.decode()
    return Heard(request.path, request.headers.get("Authorization", ""), fields, *file)


def _chunks(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    while size := int(request.rfile.readline(), 16):
        yield request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()


@contextmanager
def transcribing(*script: tuple[int, Any, dict[str, str]], port: int = 0) -> Iterator[Transcriptions]:
    endpoint = Transcriptions(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            endpoint.answer(self)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        endpoint.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()


# -- recordings of other kinds: headers by hand, as the formats' specifications say -----------------


def mp3(seconds: float, *, tagged: bool = True, counted: bool = False) -> bytes:
    """Silent frames of MPEG 1 layer III at 128 kbit/s and 44.1 kHz (417 bytes, 1152 samples each)."""
    frames = round(seconds * 44_100 / 1152)
    frame = b"\xff\xfb\x90\x00" + bytes(413)
    first = frame
    if counted:
        first = frame[:36] + b"Xing" + struct.pack(">II", 1, frames) + frame[48:]
        frames = 3  # of a variable rate: the bytes tell nothing
    tag = b"ID3\x04\x00\x00\x00\x00\x02\x01" + bytes(257) if tagged else b""
    return tag + first + frame * (frames - 1)


def flac(seconds: float, rate: int = 16_000) -> bytes:
    packed = rate << 44 | 15 << 36 | int(seconds * rate)
    return b"fLaC\x80\x00\x00\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def opus(seconds: float) -> bytes:
    head = b"OpusHead\x01\x01" + struct.pack("<HIhB", 312, 48_000, 0, 0)
    first = b"OggS\x00\x02" + struct.pack("<qIII", 0, 1, 0, 0) + bytes([1, len(head)]) + head
    last = b"OggS\x00\x04" + struct.pack("<qIII", int(seconds * 48_000) + 312, 1, 1, 0) + bytes([1, 4]) + b"data"
    return first + bytes(500) + last


def mp4(seconds: float, brand: bytes = b"M4A ") -> bytes:
    def box(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content) + 8) + name + content

    header = bytes(4) + struct.pack(">IIII", 0, 0, 1000, int(seconds * 1000)) + bytes(80)
    return box(b"ftyp", brand + bytes(4) + brand) + box(b"mdat", bytes(3000)) + box(b"moov", box(b"mvhd", header))


def webm(seconds: float, kind: bytes = b"webm") -> bytes:
    def element(name: bytes, content: bytes) -> bytes:
        return name + (0x10000000 | len(content)).to_bytes(4, "big") + content

    info = element(b"\x2a\xd7\xb1", (1_000_000).to_bytes(3, "big"))
    info += element(b"\x44\x89", struct.pack(">d", seconds * 1000))
    segment = element(b"\x15\x49\xa9\x66", info) + bytes(200)
    return element(b"\x1a\x45\xdf\xa3", element(b"\x42\x82", kind)) + element(b"\x18\x53\x80\x67", segment)
