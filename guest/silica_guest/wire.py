"""Frames between guest and host on one stream socket, version 1.

Owns the byte layout, the caps and the JSON of the heads, not the meaning of
frames. `json` takes about as long to import as the rest of the guest together
(it imports `re`), so its C functions are used directly.
"""

from __future__ import annotations

import os
import sys
from _json import encode_basestring, make_encoder, make_scanner

VERSION = 1
HEAD_BYTES_MAX = 1 << 20
BODY_BYTES_MAX = 64 << 20
SMALL_BODY_BYTES = 64 << 10
READ_BYTES = 64 << 10
SOON_MILLIS = 100


class WireError(Exception):
    """The bytes from the host are not a valid frame."""


class FrameTooLarge(ValueError):
    """A frame to be sent exceeds the caps; nothing of it was written."""


class _ScannerOptions:
    """The attributes of `json.JSONDecoder` that the C scanner reads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_ScannerOptions)


def encode_json(value: object, default=None) -> bytes:
    """Returns `value` as compact UTF-8 JSON; raises on NaN, cycles and types that JSON lacks.

    Lone surrogates become `?`: strict JSON readers reject them in any form.
    """
    encode = make_encoder({}, default or _refuse, encode_basestring, None, ":", ",", False, False, False)
    return "".join(encode(value, 0)).encode("utf-8", "replace")


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_json_object(data: bytes) -> dict:
    """Returns the JSON object in `data`, which must hold nothing else."""
    try:
        text = data.decode("utf-8")
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError) as error:
        raise WireError("the head is not JSON") from error
    if type(value) is not dict or text[end:].strip():
        raise WireError("the head is not one JSON object")
    return value


def front_of(head: dict, body: bytes) -> bytes:
    """Returns the lengths and the head of a frame, which precede the body; raises `FrameTooLarge`."""
    raw = encode_json(head)
    if len(raw) > HEAD_BYTES_MAX or len(body) > BODY_BYTES_MAX:
        raise FrameTooLarge
    return len(raw).to_bytes(4, "little") + len(body).to_bytes(4, "little") + raw


def _poller(select, fd: int):
    """Returns a poll object that waits for input on `fd`, from the module `select`."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return poller


class Channel:
    """One end of the control socket. Not thread safe: the kernel holds a lock."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray()
        select = sys.modules.get("select")
        self._poller = select and _poller(select, fd)

    def send(self, head: dict, body: bytes = b"") -> None:
        """Writes one frame. The caller prevents signal handlers from raising during the call."""
        front = front_of(head, body)
        if len(body) < SMALL_BODY_BYTES:
            self._write(front + body)
        else:
            self._write(front)
            self._write(body)

    def receive(self) -> tuple[dict, bytes] | None:
        """Returns the next frame, or None when the host has closed its end."""
        if not self._fill(8):
            return None
        head_len = int.from_bytes(self._buffer[0:4], "little")
        body_len = int.from_bytes(self._buffer[4:8], "little")
        if head_len > HEAD_BYTES_MAX or body_len > BODY_BYTES_MAX:
            raise WireError("a frame over the caps")
        end = 8 + head_len + body_len
        if not self._fill(end):
            raise WireError("the stream ended within a frame")
        head = decode_json_object(bytes(self._buffer[8 : 8 + head_len]))
        body = bytes(memoryview(self._buffer)[8 + head_len : end])
        del self._buffer[:end]
        return head, body

    def wait(self) -> None:
        """Waits until there is input; a signal handler may raise meanwhile."""
        while not self.has_input():
            self._poller.poll()

    def pretend(self, frame: bytes) -> None:
        """Puts a frame before those from the host, for `receive` to return next."""
        self._buffer[:0] = frame

    def has_input(self) -> bool:
        """Returns whether input from the host is available, without waiting."""
        if self._poller is None:
            import select

            self._poller = _poller(select, self.fd)
        return bool(self._buffer or self._poller.poll(0))

    def _fill(self, size: int) -> bool:
        """Reads until `size` bytes are buffered; returns False if the stream ended between frames."""
        buffer = self._buffer
        while len(buffer) < size:
            if self._poller is not None:
                # A process that sleeps in `read` on a socket is also woken when its peer reads what the
                # process has written, which the host does soon; one that sleeps in `poll` is not.
                # `select` is used only if it is loaded: importing it costs more than the wakeup. The
                # wait is bounded, since `poll` can wait for ever on a descriptor that user code has put
                # in the socket's place, where `read` returns at once.
                self._poller.poll(SOON_MILLIS)
            chunk = os.read(self.fd, max(READ_BYTES, size - len(buffer)))
            if not chunk:
                if buffer:
                    raise WireError("the stream ended within a frame")
                return False
            buffer += chunk
        return True

    def _write(self, data: bytes) -> None:
        written = os.write(self.fd, data)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(data):
            written += os.write(self.fd, view[written:])
