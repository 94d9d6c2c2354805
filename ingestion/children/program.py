"""What the programs of child processes have in common, seen from the child (``process`` is the other side)."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import socket
import threading
from pathlib import Path
from typing import NoReturn

from ingestion.children.process import OUT_OF_MEMORY
from ingestion.children.wire import Channel

NICENESS = 10  # somebody waits for the answer to a question; reading pages takes what is left (at least a tenth)


def begin(descriptor: int) -> Channel:
    """Settle in, with the server's own work going first: the socket to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to answer; it then closes the socket
    os.nice(NICENESS)
    logging.disable(logging.INFO)  # the libraries' chatter; what is left is kept for the log should we crash
    with contextlib.suppress(OSError):  # where memory runs out all the same, Linux ends us and not the server
        Path("/proc/self/oom_score_adj").write_text("500", "ascii")
    return Channel(socket.socket(fileno=descriptor))


def orders(channel: Channel, parts: int) -> queue.SimpleQueue[list[bytearray]]:
    """What the server sends, ``parts`` messages an order. Ends the process at once when the server is gone,
    whatever it is at."""
    waiting: queue.SimpleQueue[list[bytearray]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, parts, waiting), daemon=True).start()
    return waiting


def answer(channel: Channel, *messages: bytes | memoryview) -> None:
    try:
        for message in messages:
            channel.send(message)
    except EOFError:
        os._exit(0)


def end_without_memory() -> NoReturn:
    """What is left of a process that got no more memory is not worth keeping."""
    os._exit(OUT_OF_MEMORY)


def _listen(channel: Channel, parts: int, waiting: queue.SimpleQueue[list[bytearray]]) -> None:
    try:
        while True:
            waiting.put([channel.receive() for _ in range(parts)])
    except EOFError:
        os._exit(0)
