"""A small HTTP client: calls as a key's holder, and raw bytes for requests that no client would send.

Every byte of every answer is searched for tokens.
"""

import base64
import http.client
import json
import socket
import urllib.parse
from dataclasses import dataclass, field

from harness.tokens import Tokens

CALL_PATIENCE = 120.0
"""Seconds until a call counts as hanging."""

ANSWER_BYTES_MAX = 256 << 20


@dataclass
class Answer:
    """What a call came to; status 0 for a server that closed without a word."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self):
        return json.loads(self.body) if self.body else None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def code(self) -> str:
        """The code of a problem, or nothing."""
        try:
            return self.json.get("code", "")
        except (ValueError, AttributeError):
            return ""


class Refused(Exception):
    """An answer that was not the one wanted."""


class Api:
    """Calls with one key; `tokens` may be None for a holder who owns the tokens."""

    def __init__(self, address: tuple[str, int], key: str | None, tokens: Tokens | None) -> None:
        self.address, self.key, self.tokens = address, key, tokens

    def call(self, method: str, path: str, body=None, headers=None, patience: float = CALL_PATIENCE) -> Answer:
        """One request on a connection of its own."""
        sent = {"X-API-Key": self.key} if self.key else {}
        sent |= headers or {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(*self.address, timeout=patience)
        try:
            try:
                connection.request(method, path, body, sent)
            except (BrokenPipeError, ConnectionResetError):
                pass  # The server has answered before it had everything; the answer may still be there.
            try:
                response = connection.getresponse()
            except (ConnectionResetError, http.client.RemoteDisconnected, BrokenPipeError):
                return Answer(0, {}, b"")
            data = response.read(ANSWER_BYTES_MAX)
            answer = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, data)
        finally:
            connection.close()
        if self.tokens:
            self.tokens.look(data, f"answer to {method} {path[:80]}")
            self.tokens.look(str(response.headers).encode(), f"head of the answer to {method} {path[:80]}")
        return answer

    def want(self, status: int, method: str, path: str, body=None, **options):
        """A call that must have this status; its JSON."""
        answer = self.call(method, path, body, **options)
        if answer.status != status:
            raise Refused(f"{method} {path[:100]}: {answer.status} {answer.text[:300]}")
        return answer.json

    def raw(self, data: bytes, patience: float = 20.0, end: bool = False) -> bytes:
        """Sends bytes as they are and returns what comes back, until the server closes or falls silent."""
        received = b""
        with socket.create_connection(self.address, timeout=patience) as stream:
            try:
                stream.sendall(data)
                if end:
                    stream.shutdown(socket.SHUT_WR)
                while len(received) < ANSWER_BYTES_MAX and (part := stream.recv(65536)):
                    received += part
            except OSError:
                pass  # The server may refuse before it has read everything.
        if self.tokens:
            self.tokens.look(received, "answer to raw bytes")
        return received

    # What cases do most.

    def create(self, **fields) -> dict:
        return self.want(201, "POST", "/v1/sandboxes", fields)

    def cell(self, sandbox: str, code: str, **fields) -> dict:
        cell = self.want(200, "POST", f"/v1/sandboxes/{sandbox}/cells", {"code": code, **fields})
        for result in cell["results"]:
            for data in result["data"].values():
                self.look_into(data)
        return cell

    def look_into(self, data) -> None:
        """Searches a representation also in its decoded form."""
        if self.tokens and isinstance(data, str):
            try:
                self.tokens.look(base64.b64decode(data), "a result")
            except ValueError:
                pass

    def command(self, sandbox: str, command: str, **fields) -> dict:
        body = {"command": command, **fields}
        return self.want(200, "POST", f"/v1/sandboxes/{sandbox}/commands", body)

    def delete(self, sandbox: str) -> Answer:
        return self.call("DELETE", f"/v1/sandboxes/{sandbox}")

    def files(self, sandbox: str, what: str = "", **query) -> str:
        """The path of a request about files."""
        query_text = urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        return f"/v1/sandboxes/{sandbox}/files{what}?{query_text}"

    def put(self, sandbox: str, path: str, data: bytes) -> Answer:
        return self.call("PUT", self.files(sandbox, "/content", path=path), data)

    def get(self, sandbox: str, path: str, **options) -> Answer:
        return self.call("GET", self.files(sandbox, "/content", path=path), **options)
