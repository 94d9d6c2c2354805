"""Real Chromium against real servers, each a process of its own over a home of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Playwright, Request, expect, sync_playwright

from tests.documents import ROOT

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 90  # seconds, on a busy machine
expect.set_options(timeout=PATIENCE * 1000)


@dataclass
class Server:
    """A running server; ``restart`` ends its process and starts another over the same home."""

    command: list[str]
    home: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PERITO_", "CHAINLIT_"))
        }
        log = (self.home.parent / f"{self.home.name}.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env={**environment, "PERITO_HOME": str(self.home)}, stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.2)
        self.stop()
        raise AssertionError((self.home.parent / f"{self.home.name}.log").read_text()[-3000:])

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def running(home: Path, *command: str) -> Iterator[Server]:
    port = free_port()
    server = Server([sys.executable, *(part.format(home=home, port=port) for part in command)], home, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def perito(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`perito serve`, the real thing."""
    home = tmp_path_factory.mktemp("perito") / "home"
    with running(home, "-m", "compose.cli", "serve", "--port", "{port}") as server:
        yield server


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The web over fakes, with people who sign in."""
    home = tmp_path_factory.mktemp("team") / "home"
    with running(home, "-m", "tests.web.fakeserver", "{home}", "{port}", "users") as server:
        yield server


@pytest.fixture(scope="module")  # its loop runs as long as it lives, and other modules' tests have their own
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running_playwright:
        yield running_playwright


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield browser
    browser.close()


@dataclass
class Seen:
    """What a page asked for and complained about."""

    outside: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])


OpenPage = Callable[..., tuple[Page, Seen]]


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens a page of a server in a fresh profile: ``open_page(server, width=390, scheme="dark", locale="es-ES")``."""
    contexts: list[Any] = []

    def opened(
        server: Server, path: str = "/", width: int = 1300, scheme: Any = "light", locale: str = "en-US"
    ) -> tuple[Page, Seen]:
        size: Any = {"width": width, "height": 844 if width < 768 else 860}
        context = chromium.new_context(viewport=size, color_scheme=scheme, locale=locale, accept_downloads=False)
        context.set_default_timeout(PATIENCE * 1000)
        contexts.append(context)
        page, seen = context.new_page(), Seen()

        def note(request: Request) -> None:
            if not request.url.startswith((server.url, "data:", "blob:", server.url.replace("http", "ws", 1))):
                seen.outside.append(request.url)

        page.on("request", note)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.goto(server.url + path)
        return page, seen

    yield opened
    for context in contexts:
        context.close()
