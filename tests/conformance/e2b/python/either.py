"""The blocking and the asynchronous SDK behind one blocking face, so that one test serves both."""

from __future__ import annotations

import asyncio
import inspect
import threading

PATIENCE_S = 120


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, function, *arguments, **options):
        """Calls a function in the loop, awaits its result if needed, and returns it."""

        async def act():
            found = function(*arguments, **options)
            return await found if inspect.isawaitable(found) else found

        return asyncio.run_coroutine_threadsafe(act(), self.loop).result(PATIENCE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE_S)


def is_asynchronous(value: object) -> bool:
    """Whether there is something to be awaited in an object."""
    names = [name for name in dir(type(value)) if not name.startswith("__")]
    return any(inspect.iscoroutinefunction(inspect.unwrap(getattr(type(value), name, None))) for name in names)


class Blocking:
    """An object whose every call is done in a loop."""

    def __init__(self, value: object, loop: Loop) -> None:
        self._value, self._loop = value, loop

    def _shown(self, value: object) -> object:
        if isinstance(value, list):
            return [self._shown(one) for one in value]
        return Blocking(value, self._loop) if is_asynchronous(value) else value

    def __getattr__(self, name: str) -> object:
        found = getattr(self._value, name)
        if not callable(found):
            return self._shown(found)

        def call(*arguments, **options):
            return self._shown(self._loop.call(found, *arguments, **options))

        return call

    def __enter__(self):
        return self._shown(self._loop.call(self._value.__aenter__))

    def __exit__(self, *reason) -> None:
        self._loop.call(self._value.__aexit__, *reason)
