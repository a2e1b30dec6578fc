"""Calls back once after a named module has been imported by anyone.

This is how the guest adapts to IPython, matplotlib and linecache without
importing them, and without environment variables that would leak into the
user's child processes.
"""

from __future__ import annotations

import sys

from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False  # Known to type checkers; `typing` itself is too dear here.
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class ImportWatch:
    """A meta path finder that finds nothing itself and only wraps the found loader."""

    def __init__(self, callbacks: dict[str, Callable[[], None]]) -> None:
        self._callbacks = {}
        for name, callback in callbacks.items():
            if name in sys.modules:
                callback()
            else:
                self._callbacks[name] = callback

    def find_spec(self, name: str, path=None, target=None):
        """Returns the ordinary spec of a watched module, with our callback behind its loader."""
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
