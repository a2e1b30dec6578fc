"""Makes a bare `python -I -S` look like the interpreter users expect.

Owns sys.path, sys.prefix, the `exit` family, the standard streams and the
SILICA_* variables. `site` is not used because it costs several milliseconds.
"""

from __future__ import annotations

import builtins
import os
import sys

USER_SITE = "/.local/lib/python%d.%d/site-packages" % sys.version_info[:2]
GUEST_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Quitter:
    """`exit` and `quit`. Unlike site's, it leaves stdin open: the kernel lives on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() to end the cell"

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)


class Help:
    """`help`, which loads pydoc only when it is called."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object."

    def __call__(self, *arguments: object) -> None:
        import pydoc

        # There is no terminal to page on and no stdin to ask on.
        pydoc.pager = pydoc.plainpager
        pydoc.help(*arguments or ("help",))


def prepare() -> None:
    """Applies and removes SILICA_SITE and SILICA_PREFIX, and fills in what `site` would."""
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
    """Puts the user's site-packages on sys.path once it exists, as after `pip install --user`.

    A meta path finder that finds nothing: it looks for the folder whenever something new is imported,
    wherever that was installed from, which is less often than once for every cell.
    """

    def find_spec(self, name: str, path=None, target=None) -> None:
        """Called before sys.path is searched."""
        home = os.environ.get("HOME")
        if path is not None or not home:
            return
        folder = home + USER_SITE
        if folder in sys.path or not os.path.isdir(folder):
            return
        position = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
        sys.path.insert(position, folder)


def restore_streams() -> None:
    """Replaces missing or closed standard streams; others are the user's choice and stay.

    Streams are line buffered, as on a terminal: one write call per printed
    line (half of what `-u` makes), and `\\n` and `\\r` both reach the host at
    once, so progress bars and "one line, then sleep" stream live without a
    flushing thread, which would cost memory and make fork unsafe.
    """
    for name, fd in (("stdout", 1), ("stderr", 2)):
        if not getattr(getattr(sys, name), "closed", True):
            continue
        stream = getattr(sys, "__%s__" % name)
        if getattr(stream, "closed", True):
            try:
                stream = open(fd, "w", encoding="utf-8", closefd=False)
            except OSError:
                # The user closed the descriptor itself; a sink keeps print() harmless.
                stream = open(os.devnull, "w", encoding="utf-8")
            setattr(sys, "__%s__" % name, stream)
        _configure(stream, name)
        setattr(sys, name, stream)


def configure_streams() -> None:
    """Sets up the streams Python made at start."""
    restore_streams()
    _configure(sys.stdout, "stdout")
    _configure(sys.stderr, "stderr")


def flush_streams() -> None:
    """Flushes whatever stands as stdout and stderr; failures are the user's own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # A replaced or closed stream must not end the kernel.
            pass


def _configure(stream, name: str) -> None:
    # Unpaired surrogates must not raise, so they are shown as escapes. stderr is
    # small and urgent, so it does not even wait for the end of the line.
    stream.reconfigure(
        encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=name == "stderr"
    )
