"""Parses server-sent events as defined by the HTML standard (§ 9.2.6).

Bytes arrive in pieces of any size; an event is returned as soon as its last byte arrives. Lines end
with CR, LF or CR LF, also if a piece ends between the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from silica.errors import BadAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

# Several times the size of one event with all results of a cell in base64.
EVENT_BYTES_MAX = 256 << 20

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Message:
    """One event: its name, its data with lines joined, and the last id that was received."""

    event: str
    data: str
    id: str


class Parser:
    """Parses a stream; holds the bytes and fields of an incomplete event."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._scanned = 0
        self._at_start = True
        self._after_return = False
        self._event = ""
        self._data: list[str] = []
        self._size = 0
        self._id = ""

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Takes more bytes and yields the events they complete."""
        self._rest += piece
        for line in self._lines():
            message = self._take(line)
            if message is not None:
                yield message
        if self._size + len(self._rest) > EVENT_BYTES_MAX:
            raise BadAnswer(f"an event is longer than {EVENT_BYTES_MAX} bytes")

    def _lines(self) -> Iterator[bytes]:
        start = self._opening()
        if start is None:
            return
        while (end := _LINE_END.search(self._rest, max(start, self._scanned))) is not None:
            line = bytes(self._rest[start : end.start()])
            start = end.end()
            # The LF of a CR LF may arrive with the next piece; the line is complete without it.
            self._after_return = end[0] == b"\r" and start == len(self._rest)
            self._scanned = start
            yield line
        del self._rest[:start]
        self._scanned = len(self._rest)

    def _opening(self) -> int | None:
        """Returns where the next line starts, or None if more bytes are needed to decide."""
        if self._at_start:
            if len(self._rest) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._rest):
                return None
            self._at_start = False
            return len(_BYTE_ORDER_MARK) if self._rest.startswith(_BYTE_ORDER_MARK) else 0
        if self._after_return and self._rest:
            self._after_return = False
            return 1 if self._rest.startswith(b"\n") else 0
        return 0

    def _take(self, line: bytes) -> Message | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
            self._size += len(line)
        elif name == b"event":
            self._event = text
        elif name == b"id" and "\0" not in text:
            self._id = text
        # Comments have no name. `retry` and unknown fields are ignored, as the standard requires.
        return None

    def _complete(self) -> Message | None:
        event, data = self._event or "message", self._data
        self._event, self._data, self._size = "", [], 0
        return Message(event, "\n".join(data), self._id) if data else None
