"""Drives the asynchronous classes as if they blocked, so that one test covers both clients."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import silica


class Blocking:
    """Wraps an object whose methods are asynchronous."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._blocking(getattr(self._target, name))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the method, and awaits its result."""
        given = [_bare(argument) for argument in arguments]
        options = {name: _bare(value) for name, value in named.items()}
        return self._blocking(self._target(*given, **options))

    def __iter__(self) -> Iterator[Any]:
        events = self._target.__aiter__()
        try:
            while True:
                yield self._loop.run_until_complete(events.__anext__())
        except StopAsyncIteration:
            return
        finally:
            if hasattr(events, "aclose"):
                self._loop.run_until_complete(events.aclose())

    def __enter__(self) -> Any:
        return self._blocking(self._loop.run_until_complete(self._target.__aenter__()))

    def __exit__(self, *details: Any) -> None:
        self._loop.run_until_complete(self._target.__aexit__(*details))

    def __repr__(self) -> str:
        return repr(self._target)

    def _blocking(self, value: Any) -> Any:
        # An `Opening` can be awaited or entered; tests do both.
        if inspect.isawaitable(value) and not hasattr(value, "__aenter__"):
            return self._blocking(self._loop.run_until_complete(_awaited(value)))
        if isinstance(value, list):
            return [self._blocking(item) for item in value]
        ours = type(value).__module__.startswith("silica.aio")
        if (
            ours
            or inspect.isasyncgen(value)
            or inspect.ismethod(value)
            or inspect.isfunction(value)
        ):
            return Blocking(value, self._loop)
        return value

    def opened(self) -> Any:
        """Awaits the `Opening` instead of entering it."""
        return self._blocking(self._loop.run_until_complete(_awaited(self._target)))


@dataclass(frozen=True)
class Either:
    """The classes of one client, under common names."""

    name: str
    Sandbox: Any
    Client: Any
    run: Any

    def create(self, **options: Any) -> Any:
        """Creates a sandbox outside of a `with` block."""
        return self._opened(self.Sandbox.create(**options))

    def connect(self, id: str, **options: Any) -> Any:
        """Connects to a sandbox outside of a `with` block."""
        return self._opened(self.Sandbox.connect(id, **options))

    def _opened(self, sandbox: Any) -> Any:
        return sandbox.opened() if isinstance(sandbox, Blocking) else sandbox


def sync_kind() -> Either:
    """The blocking classes."""
    return Either("sync", silica.Sandbox, silica.Client, silica.run)


def async_kind(loop: asyncio.AbstractEventLoop) -> Either:
    """The asynchronous classes."""
    kinds = (silica.AsyncSandbox, silica.AsyncClient, silica.run_async)
    return Either("async", *(Blocking(kind, loop) for kind in kinds))


async def _awaited(value: Any) -> Any:
    return await value


def _bare(value: Any) -> Any:
    return value._target if isinstance(value, Blocking) else value
