"""What a name in code is, and whether code is complete: for editors and consoles.

Loaded on the first request only. Knows nothing of the host; `kernel` bounds the time.
"""

from __future__ import annotations

import codeop
import re

from silica_guest.shell import Shell

TEXT_CHARS_MAX = 50_000
NAME = re.compile(r"(?:[^\W\d]\w*\.)*[^\W\d]\w*")


def inspect(shell: Shell, code: str, cursor: int, detail: int) -> str | None:
    """Returns a text about the name at the cursor, or None if there is none or it is not known."""
    name = _name_at(shell, code, cursor)
    if not name:
        return None
    if shell.load_notebook():
        try:
            found = shell.notebook.object_inspect_mime(name, detail_level=1 if detail else 0)
        except KeyError:
            return None
        text = found.get("text/plain")
        return text[:TEXT_CHARS_MAX] if isinstance(text, str) else None
    return _describe(shell, name)


def _name_at(shell: Shell, code: str, cursor: int) -> str:
    """Returns the dotted name at the cursor, or the one that is called there."""
    if shell.load_notebook():
        from IPython.utils.tokenutil import token_at_cursor

        return token_at_cursor(code, min(cursor, len(code)))
    for found in NAME.finditer(code):
        if found.start() <= cursor <= found.end():
            return found.group()
    return ""


def _describe(shell: Shell, dotted: str) -> str | None:
    """Describes a name without IPython."""
    import builtins
    import pydoc

    missing = object()
    first, *rest = dotted.split(".")
    value = shell.namespace.get(first, getattr(builtins, first, missing))
    for name in rest:
        value = getattr(value, name, missing)
    if value is missing:
        return None
    return pydoc.plain(pydoc.render_doc(value, "%s"))[:TEXT_CHARS_MAX]


def is_complete(shell: Shell, code: str) -> tuple[str, str]:
    """Returns `complete`, `incomplete` or `invalid`, and the white space that the next line begins with."""
    if shell.notebook is not None:
        status, indent = shell.notebook.input_transformer_manager.check_complete(code)
        return status, " " * (indent or 0)
    if code.lstrip().startswith(("%", "!", "?")):
        return "complete", ""
    try:
        compiled = codeop.compile_command(code, "<input>", "exec")
    except (SyntaxError, OverflowError, ValueError):
        return "invalid", ""
    if compiled is not None:
        return "complete", ""
    last = code.rstrip("\n").rpartition("\n")[2]
    indent = len(last) - len(last.lstrip())
    return "incomplete", " " * (indent + 4 if last.rstrip().endswith(":") else indent)
