"""Sets up a bare `python -I -S` as the interpreter that users expect.

Owns sys.path, sys.prefix, `exit`, `quit`, `help`, the standard streams and the
SILICA_* variables. `site` is not used because it takes several milliseconds.
"""

from __future__ import annotations

import builtins
import os
import sys

USER_SITE = "/.local/lib/python%d.%d/site-packages" % sys.version_info[:2]
GUEST_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Quitter:
    """The builtins `exit` and `quit`. Unlike those of `site` they leave stdin open: the kernel goes on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() to end the cell"

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)


class Help:
    """The builtin `help`, which imports pydoc only when it is called."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object."

    def __call__(self, *arguments: object) -> None:
        import pydoc

        # There is no terminal for a pager, and no stdin.
        pydoc.pager = pydoc.plainpager
        pydoc.help(*arguments or ("help",))


def prepare() -> None:
    """Applies and removes SILICA_SITE and SILICA_PREFIX, and sets the builtins that `site` would set."""
    site = os.environ.pop("SILICA_SITE", "")
    prefix = os.environ.pop("SILICA_PREFIX", "")
    # The empty entry is the working directory, as in an interactive session.
    sys.path.insert(0, "")
    for folder in (*site.split(os.pathsep), GUEST_DIR):
        if folder and folder not in sys.path:
            sys.path.append(folder)
    sys.argv = [""]
    if prefix:
        sys.prefix = sys.exec_prefix = prefix
    builtins.exit = Quitter("exit")
    builtins.quit = Quitter("quit")
    builtins.help = Help()


class UserSite:
    """Adds the user's site-packages to sys.path once it exists, as after `pip install --user`.

    It is a meta path finder that never finds a module: it checks for the folder whenever a module is
    imported for the first time, which happens less often than once a cell.
    """

    def find_spec(self, name: str, path=None, target=None) -> None:
        """Adds the folder if it exists; always returns None."""
        home = os.environ.get("HOME")
        if path is not None or not home:
            return
        folder = home + USER_SITE
        if folder in sys.path or not os.path.isdir(folder):
            return
        position = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
        sys.path.insert(position, folder)


def restore_streams() -> None:
    """Replaces missing or closed standard streams; keeps open ones that user code has set.

    Streams are line buffered, as on a terminal: one write call for each printed
    line (half as many as with `-u`), and `\\n` and `\\r` both flush, so progress
    bars and lines before a sleep reach the host at once. A flushing thread
    would cost memory and make fork unsafe.
    """
    for name, fd in (("stdout", 1), ("stderr", 2)):
        if not getattr(getattr(sys, name), "closed", True):
            continue
        stream = getattr(sys, "__%s__" % name)
        if getattr(stream, "closed", True):
            try:
                stream = open(fd, "w", encoding="utf-8", closefd=False)
            except OSError:
                # User code closed the descriptor itself; with a null stream print() does not raise.
                stream = open(os.devnull, "w", encoding="utf-8")
            setattr(sys, "__%s__" % name, stream)
        _configure(stream, name)
        setattr(sys, name, stream)


def configure_streams() -> None:
    """Configures the streams that Python made at startup."""
    restore_streams()
    _configure(sys.stdout, "stdout")
    _configure(sys.stderr, "stderr")


def flush_streams() -> None:
    """Flushes sys.stdout and sys.stderr and ignores failures, since user code may have replaced them."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # A replaced or closed stream must not end the kernel.
            pass


def _configure(stream, name: str) -> None:
    # Unpaired surrogates must not raise, so they become escapes. stderr is not buffered at
    # all: its output is small and urgent.
    stream.reconfigure(
        encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=name == "stderr"
    )
