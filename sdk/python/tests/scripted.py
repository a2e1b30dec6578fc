"""A server on a real socket that sends scripted answers, and closes connections as scripted."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO


@dataclass(frozen=True)
class Request:
    """A request of a client, and the number of its connection."""

    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A scripted answer. With `hang_up` the connection is closed after it, complete or not."""

    raw: bytes
    hang_up: bool = False
    afterwards: Callable[[], object] | None = None


@dataclass
class Scripted:
    """Answers one request after the other, in the order of the script."""

    replies: list[Reply]
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Scripted:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._turn = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        self._listener.close()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def said(self) -> list[str]:
        """The method and path of each request."""
        return [f"{request.method} {request.target}" for request in self.requests]

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as incoming:
            while (request := _read(incoming, number)) is not None:
                with self._turn:
                    self.requests.append(request)
                    reply = self.replies.pop(0) if self.replies else answer({}, status=500)
                connection.sendall(reply.raw)
                if reply.afterwards is not None:
                    reply.afterwards()
                if reply.hang_up:
                    return


def answer(body: object, status: int = 200, **headers: str) -> Reply:
    """A complete answer in JSON."""
    content = json.dumps(body).encode()
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", *lines])
    return Reply(head.encode() + b"\r\n\r\n" + content)


def events(
    *messages: tuple[int, str, object], cut: int = 0, ended: bool = True, location: str = ""
) -> Reply:
    """A stream of events, without its last `cut` bytes, broken off unless it is `ended`."""
    lines = [
        f"id: {id}\nevent: {event}\ndata: {json.dumps(data)}\n\n" for id, event, data in messages
    ]
    content = b": hello\n\n" + "".join(lines).encode()
    content = content[: len(content) - cut]
    place = f"Location: {location}\r\n" if location else ""
    head = f"HTTP/1.1 200 OK\r\n{place}Transfer-Encoding: chunked\r\n\r\n".encode()
    raw = head + b"%x\r\n%b\r\n" % (len(content), content)
    return Reply(raw + (b"0\r\n\r\n" if ended else b""), hang_up=not ended)


def _read(incoming: BinaryIO, number: int) -> Request | None:
    try:
        first = incoming.readline().decode()
    except OSError:
        return None
    if not first.strip():
        return None
    method, target, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    while line := incoming.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(number, method, target, headers, _body(incoming, headers))


def _body(incoming: BinaryIO, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return incoming.read(int(headers.get("content-length", 0)))
    body = b""
    while size := int(incoming.readline(), 16):
        body += incoming.read(size)
        incoming.readline()
    incoming.readline()
    return body
