"""Describes an exception for the error frame: name, value and traceback lines.

Owns the format and its bounds. Loaded on the first error only, because
`traceback` is slow to import. No exception raised by a user's exception class
leaves this module.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

from silica_guest import shell

VALUE_BYTES_MAX = 64 << 10
NAME_CHARS_MAX = 200
LINES_EACH_END_MAX = 200
LINE_CHARS_MAX = 1000
CELL_PREFIX = "Cell In["
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def describe(error: BaseException) -> dict:
    """Returns the fields of an error frame; never raises."""
    name = type(error).__name__
    return {
        "name": name[:NAME_CHARS_MAX] if isinstance(name, str) else "Exception",
        "value": _bounded_value(error),
        "traceback": _bounded_lines(format_lines(error)),
    }


def format_lines(error: BaseException) -> list[str]:
    """Returns the lines of a standard traceback without the guest's own frames."""
    try:
        with_trace = traceback.TracebackException(
            type(error), error, _user_part(error.__traceback__), limit=None, compact=True
        )
        _drop_own_frames(with_trace)
        text = "".join(with_trace.format())
    except Exception:  # A broken __str__, __cause__ or source must not prevent the report.
        text = "".join(_fallback(error))
    return [_cell_line(line) for line in text.splitlines()]


def _drop_own_frames(described: traceback.TracebackException) -> None:
    """Removes the guest's frames below the cell, such as the signal handler that raises an interrupt."""
    pending, seen = [described], set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(PACKAGE)]
        pending += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def _fallback(error: BaseException) -> list[str]:
    lines = ["Traceback (most recent call last):\n"]
    try:
        lines += traceback.format_tb(_user_part(error.__traceback__))
    except Exception:
        pass
    return [*lines, f"{type(error).__name__}: {_text_of(error)}\n"]


def _user_part(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback from the first cell frame on; None if there is no cell frame."""
    while trace is not None and not _is_cell(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_cell(filename: str) -> bool:
    """Returns whether code is that of a cell; one that comes from a file has the name of the file."""
    return filename.startswith(CELL_PREFIX) or (shell.current is not None and filename in shell.current.sources)


def _cell_line(line: str) -> str:
    """Rewrites `File "Cell In[3]", line 2, in <module>` the way notebooks name cells."""
    stripped = line.lstrip(" |")
    if not stripped.startswith('File "' + CELL_PREFIX):
        return line
    indent = line[: len(line) - len(stripped)]
    return indent + stripped[6:].replace(']", line', "], line", 1).removesuffix(", in <module>")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - user code runs in __str__.
        return f"<{type(broken).__name__} in __str__>"


def _bounded_value(error: BaseException) -> str:
    value = _text_of(error)[:VALUE_BYTES_MAX].encode("utf-8", "backslashreplace")
    return value[:VALUE_BYTES_MAX].decode("utf-8", "ignore")


def _bounded_lines(lines: list[str]) -> list[str]:
    if len(lines) > 2 * LINES_EACH_END_MAX:
        left_out = len(lines) - 2 * LINES_EACH_END_MAX
        lines = [*lines[:LINES_EACH_END_MAX], f"  ... {left_out} lines left out ...", *lines[-LINES_EACH_END_MAX:]]
    return [_bounded_line(line) for line in lines]


def _bounded_line(line: str) -> str:
    if len(line) > LINE_CHARS_MAX:
        line = line[:LINE_CHARS_MAX] + " ..."
    return line.encode("utf-8", "backslashreplace").decode("utf-8")


def remember_last(error: BaseException) -> None:
    """Sets `sys.last_exc` and its older forms, which post-mortem debuggers read."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.last_exc = error
