"""How the server and a child process of it talk: messages of bytes over a socket, each after its length.

Neither sending nor receiving ever waits blindly: between ticks ``still_worth_it`` is asked, which raises when
the other end is stuck, out of time, or no longer needed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

LENGTH = struct.Struct("!Q")
PIECE = 1 << 20


def _always() -> None:
    """There is nothing else to do."""


class Channel:
    """One end. EOFError when the other end is gone."""

    def __init__(self, end: socket.socket, tick: float | None = None) -> None:
        """``tick``: seconds between questions; None waits for ever."""
        self._socket = end
        self._socket.settimeout(tick)

    def send(self, message: bytes | memoryview, still_worth_it: Callable[[], None] = _always) -> None:
        self._send(memoryview(LENGTH.pack(len(message))), still_worth_it)
        self._send(memoryview(message), still_worth_it)

    def receive(self, still_worth_it: Callable[[], None] = _always) -> bytearray:
        (length,) = LENGTH.unpack(self._receive(LENGTH.size, still_worth_it))
        return self._receive(length, still_worth_it)

    def close(self) -> None:
        self._socket.close()

    def _send(self, view: memoryview, still_worth_it: Callable[[], None]) -> None:
        while view:
            try:
                view = view[self._socket.send(view[:PIECE]) :]
            except TimeoutError:
                still_worth_it()
            except OSError:
                raise EOFError from None

    def _receive(self, length: int, still_worth_it: Callable[[], None]) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                still_worth_it()
                continue
            except OSError:
                raise EOFError from None
            if not count:
                raise EOFError
            view = view[count:]
        return data
