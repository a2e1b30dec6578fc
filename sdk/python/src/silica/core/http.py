"""What both clients tell httpx, and what they make of its exceptions. Opens nothing itself."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx

from silica.errors import (
    BadAnswer,
    BadRequest,
    CannotConnect,
    ConnectionLost,
    SilicaError,
    TimedOut,
)
from silica.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silica.core.call import Call

DEFAULT_URL = "http://127.0.0.1:8585"
CONNECT_PATIENCE = 5.0
DEFAULT_TIMEOUT = 60.0
DEFAULT_RETRIES = 3
CONNECTIONS_MAX = 1000
# Shorter than servers keep an idle connection, so that none is used just as it is closed.
IDLE_CONNECTION_SECONDS = 10.0

# A peer that has vanished is noticed after 15 + 5 * 5 seconds, however long an answer may take.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 5))


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the server is and how to talk to it. The key is never shown."""

    url: str
    key: str | None = field(repr=False)
    timeout: float
    retries: int

    @classmethod
    def of(cls, url: str | None, key: str | None, timeout: float, retries: int) -> Settings:
        """Takes what is given, and from the environment what is not."""
        url = url or os.environ.get("SILICA_URL") or DEFAULT_URL
        scheme, _, rest = url.partition("://")
        if scheme not in {"http", "https"} or not rest:
            raise ValueError(f"{url!r} is no address of a server; it looks like {DEFAULT_URL}")
        return cls(url.rstrip("/"), key or os.environ.get("SILICA_KEY"), timeout, retries)

    def client_arguments(self) -> dict[str, Any]:
        """Returns the arguments that both of httpx's clients take."""
        headers = {"user-agent": f"silica-python/{__version__}", "accept-encoding": "identity"}
        if self.key:
            headers["x-api-key"] = self.key
        return {"headers": headers, "follow_redirects": False, "trust_env": False}

    def transport_arguments(self) -> dict[str, Any]:
        """Returns the arguments that both of httpx's transports take."""
        return {
            # Reading the certificates takes longer than many a cell; without TLS nobody needs them.
            "verify": self.url.startswith("https://"),
            "limits": httpx.Limits(
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=CONNECTIONS_MAX,
                keepalive_expiry=IDLE_CONNECTION_SECONDS,
            ),
            "socket_options": socket_options(),
        }

    def request_arguments(self, call: Call[object]) -> dict[str, Any]:
        """Returns the arguments of `build_request`, except a body that is a `Source`."""
        timeout = httpx.Timeout(
            connect=CONNECT_PATIENCE,
            read=call.patience or self.timeout,
            write=self.timeout,
            pool=self.timeout,
        )
        arguments: dict[str, Any] = {
            "method": call.method,
            "url": self.url + call.path + _query(call.query),
            "headers": dict(call.headers),
            "timeout": timeout,
        }
        if call.json is not None:
            arguments["json"] = call.json
        elif isinstance(call.body, bytes):
            arguments["content"] = call.body
        elif call.body is not None and call.body.size is not None:
            arguments["headers"]["content-length"] = str(call.body.size)
        return arguments

    def translated(self, error: httpx.HTTPError) -> SilicaError:
        """Returns our name for what httpx met."""
        words = str(error) or type(error).__name__
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return CannotConnect(
                f"cannot reach a Silica server at {self.url} ({words}); is `silica serve` running? "
                "Another address can be given as url=… or in SILICA_URL"
            )
        if isinstance(error, httpx.TimeoutException):
            return TimedOut(f"the server at {self.url} did not answer in time")
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
            return BadRequest(f"the request cannot be sent: {words}")
        if isinstance(error, httpx.TransportError):
            return ConnectionLost(f"the connection to {self.url} broke: {words}")
        return BadAnswer(f"the answer of {self.url} cannot be read: {words}")


def socket_options() -> list[tuple[int, int, int]]:
    """Sends small requests at once, and notices a peer that has vanished."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, seconds in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, option, seconds))
    return options


def _query(fields: Mapping[str, str]) -> str:
    # A space is %20 everywhere, and a + only to some.
    return "?" + urlencode(fields, quote_via=quote, safe="") if fields else ""
