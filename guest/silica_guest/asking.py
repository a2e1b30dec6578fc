"""`input` and `getpass` for cells whose client answers questions.

Loaded by the first such cell. Other cells have Python's own functions, which
find the end of standard input.
"""

from __future__ import annotations

import builtins
import sys

_own_input = builtins.input


def install(ask) -> None:
    """Has `input` and `getpass.getpass` ask the client."""

    def ask_line(prompt: object = "", /) -> str:
        """Asks the client for a line, without its end."""
        return ask(str(prompt), False)

    def ask_secret(prompt: str = "Password: ", stream: object = None, **options: object) -> str:
        """Asks the client for a line that it does not show."""
        return ask(str(prompt), True)

    builtins.input = ask_line
    import getpass

    getpass.getpass = ask_secret


def remove() -> None:
    """Restores Python's own functions."""
    builtins.input = _own_input
    module = sys.modules.get("getpass")
    if module is not None and hasattr(module, "unix_getpass"):
        module.getpass = module.unix_getpass
