"""Names that can follow the code before a cursor: variables, attributes, keywords, magics.

Loaded on the first request only. Knows nothing of the host; `kernel` bounds the time.
"""

from __future__ import annotations

import builtins
import keyword
import re

from silica_guest.shell import Shell

MATCHES_MAX = 200
MATCH_CHARS_MAX = 200
# A dotted name at the end of the code; calls and subscripts are not evaluated.
DOTTED = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?\Z")
MAGIC = re.compile(r"(?:^|\n)[ \t]*(%{1,2})(\w*)\Z")


def complete(shell: Shell, code: str) -> tuple[int, list[str]]:
    """Returns where the completed word starts, in characters, and what it may be, sorted."""
    magic = MAGIC.search(code)
    if magic:
        sign, word = magic.groups()
        return len(code) - len(word), _chosen(_magics(shell, sign), word)
    text = DOTTED.search(code).group()
    before, dot, word = text.rpartition(".")
    names = _attributes(shell, before) if dot else _names(shell)
    return len(code) - len(word), _chosen(names, word)


def _chosen(names: object, word: str) -> list[str]:
    """Returns the names that begin with a word; private ones only if the word is private itself."""
    matches = set()
    for name in names:
        if type(name) is str and name.startswith(word) and len(name) <= MATCH_CHARS_MAX and name.isidentifier():
            if word or not name.startswith("_"):
                matches.add(name)
    return sorted(matches)[:MATCHES_MAX]


def _names(shell: Shell) -> list[str]:
    return [*shell.namespace, *dir(builtins), *keyword.kwlist]


def _attributes(shell: Shell, dotted: str) -> list[str]:
    first, *rest = dotted.split(".")
    missing = object()
    value = shell.namespace.get(first, getattr(builtins, first, missing))
    for name in rest:
        value = getattr(value, name, missing)
    return [] if value is missing else dir(value)


def _magics(shell: Shell, sign: str) -> list[str]:
    if not shell.load_notebook():
        return []
    kind = "line" if sign == "%" else "cell"
    return list(shell.notebook.magics_manager.lsmagic()[kind])
