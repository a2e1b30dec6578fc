"""Calls a function once, after the first import of a named module.

In this way the guest adapts to IPython, matplotlib and linecache without
importing them, and without environment variables that the user's child
processes would inherit.
"""

from __future__ import annotations

import sys

from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` is too slow here.
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class ImportWatch:
    """A meta path finder that wraps the loader of a watched module and handles no other module."""

    def __init__(self, callbacks: dict[str, Callable[[], None]]) -> None:
        self._callbacks = {}
        for name, callback in callbacks.items():
            if name in sys.modules:
                callback()
            else:
                self._callbacks[name] = callback

    def find_spec(self, name: str, path=None, target=None):
        """Returns the usual spec of a watched module, with a loader that runs the callback afterwards."""
        callback = self._callbacks.get(name)
        if callback is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self._callbacks.pop(name, None) is not None:
                callback()

        spec.loader.exec_module = exec_module
        return spec
