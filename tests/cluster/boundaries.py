"""Where a process can be struck: at every call of every part the worker is made of, found by looking at the worker.

``Boundaries.find`` walks from the built worker along its attributes and wraps the public methods of whatever class of
ours it meets, so that a new part or method is a boundary by itself. Each call is passed twice (before, after), a
context a third time (within: the work is done and not yet committed). The product knows nothing of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel

OURS = ("assistant.core.", "ingestion.")
HEART = "heartbeat"  # its thread goes by the clock, not by the pipeline's steps


class Boundary(NamedTuple):
    """The ``turn``-th time (from 1) that a process comes to this side of a step."""

    step: str  # "SqlCatalogue.put_page"
    side: str  # before, within, after
    turn: int

    def __str__(self) -> str:
        return f"{self.side} {self.step} #{self.turn}"


class Boundaries:
    """Those of one process. ``reached`` is called at each, in the thread that comes there."""

    def __init__(self, reached: Callable[[Boundary], None]) -> None:
        self._reached = reached
        self._turns: Counter[tuple[str, str]] = Counter()
        self._known: set[type] = set()
        self._lock = threading.Lock()

    def find(self, root: object) -> None:
        """Wrap the classes of ``root`` and of all it holds. Objects that are made later count from when a wrapped
        method first returns one."""
        seen = set[int]()
        todo = [root]
        while todo:
            part = todo.pop()
            if id(part) in seen or not _is_part(part):
                continue
            seen.add(id(part))
            self._wrap_class(type(part))
            todo += _attributes(part)

    def _pass(self, step: str, side: str) -> None:
        if threading.current_thread().name == HEART:
            return
        with self._lock:
            self._turns[step, side] += 1
            boundary = Boundary(step, side, self._turns[step, side])
        self._reached(boundary)

    def _wrap_class(self, kind: type) -> None:
        for one in kind.__mro__:
            if one in self._known or not one.__module__.startswith(OURS):
                continue
            self._known.add(one)
            for name, member in list(vars(one).items()):
                if inspect.isfunction(member) and not name.startswith("_"):
                    setattr(one, name, self._wrapped(f"{one.__name__}.{name}", member))

    def _wrapped(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        inner = inspect.unwrap(function)
        if inspect.isasyncgenfunction(inner):
            wrap = self._async_context if function is not inner else self._stream
        elif inspect.isgeneratorfunction(inner) and function is not inner:
            wrap = self._context
        elif inspect.iscoroutinefunction(function):
            wrap = self._coroutine
        else:
            wrap = self._call
        return functools.wraps(function)(wrap(step, function))

    def _call(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._pass(step, "before")
            result = function(*arguments, **named)
            if isinstance(result, Future):
                result.add_done_callback(lambda _: self._pass(step, "after"))
                return result
            if _is_part(result):
                self.find(result)
            self._pass(step, "after")
            return result

        return call

    def _coroutine(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self._pass(step, "before")
            result = await function(*arguments, **named)
            self._pass(step, "after")
            return result

        return call

    def _stream(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        async def stream(*arguments: Any, **named: Any) -> Any:
            self._pass(step, "before")
            async with contextlib.aclosing(function(*arguments, **named)) as items:
                async for item in items:
                    self._pass(step, "within")
                    yield item
            self._pass(step, "after")

        return stream

    def _context(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def context(*arguments: Any, **named: Any) -> Iterator[Any]:
            self._pass(step, "before")
            with function(*arguments, **named) as value:
                yield value
                self._pass(step, "within")
            self._pass(step, "after")

        return context

    def _async_context(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.asynccontextmanager
        async def context(*arguments: Any, **named: Any) -> Any:
            self._pass(step, "before")
            async with function(*arguments, **named) as value:
                yield value
                self._pass(step, "within")
            self._pass(step, "after")

        return context


def _is_part(thing: object) -> bool:
    """Whether it is one of our objects that do something, not one that only says something."""
    kind = type(thing)
    if not kind.__module__.startswith(OURS) or isinstance(thing, type | Enum | BaseModel | BaseException):
        return False
    return not (dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _attributes(part: object) -> list[object]:
    names = [name for one in type(part).__mro__ for name in getattr(one, "__slots__", ())]
    held = [getattr(part, name) for name in names if hasattr(part, name)]
    return [*getattr(part, "__dict__", {}).values(), *held]
