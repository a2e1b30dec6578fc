"""The httpx settings of both clients, and the translation of its exceptions; no I/O."""

from __future__ import annotations

import os
import socket
import ssl
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
# Shorter than servers keep idle connections, so that no request meets one that is being closed.
IDLE_CONNECTION_SECONDS = 10.0

# A peer that has disappeared is detected after 15 + 5 * 5 seconds, however long an answer may take.
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 5))


@dataclass(frozen=True, slots=True)
class Settings:
    """The address of the server and how to connect to it. The repr omits the key."""

    url: str
    key: str | None = field(repr=False)
    timeout: float
    retries: int

    @classmethod
    def of(cls, url: str | None, key: str | None, timeout: float, retries: int) -> Settings:
        """Builds settings from arguments, or from the environment where they are missing."""
        url = url or os.environ.get("SILICA_URL") or DEFAULT_URL
        scheme, _, rest = url.partition("://")
        if scheme not in {"http", "https"} or not rest:
            raise ValueError(f"{url!r} is not the URL of a server; it must look like {DEFAULT_URL}")
        return cls(url.rstrip("/"), key or os.environ.get("SILICA_KEY"), timeout, retries)

    def client_arguments(self) -> dict[str, Any]:
        """Returns the arguments for either httpx client."""
        headers = {"user-agent": f"silica-python/{__version__}", "accept-encoding": "identity"}
        if self.key:
            headers["x-api-key"] = self.key
        return {"headers": headers, "follow_redirects": False, "trust_env": False}

    def transport_arguments(self) -> dict[str, Any]:
        """Returns the arguments for either httpx transport."""
        return {
            # Loading the certificates takes longer than many cells, and only TLS needs them.
            "verify": self._trust() if self.url.startswith("https://") else False,
            "limits": httpx.Limits(
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=CONNECTIONS_MAX,
                keepalive_expiry=IDLE_CONNECTION_SECONDS,
            ),
            "socket_options": socket_options(),
        }

    def _trust(self) -> ssl.SSLContext | bool:
        """Returns the certificates to trust: those of the system and of `SILICA_CA`."""
        path = os.environ.get("SILICA_CA")
        if not path:
            return True
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(cafile=path)
        except OSError as error:  # A file without certificates is an `ssl.SSLError`, which is one.
            raise ValueError(
                f"SILICA_CA names {path!r}, which cannot be read as PEM certificates: {error}"
            ) from error
        return context

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
        """Returns the exception of this package for one of httpx."""
        words = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in words:
            return CannotConnect(
                f"the certificate of {self.url} is not trusted ({words}); if the server signs its "
                "own certificate, set SILICA_CA to the file of it"
            )
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return CannotConnect(
                f"cannot connect to {self.url} ({words}); start the server with `silica serve`, or "
                "set its address with url=… or SILICA_URL"
            )
        if isinstance(error, httpx.TimeoutException):
            return TimedOut(f"the server at {self.url} did not answer in time")
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
            return BadRequest(f"the request is invalid and was not sent: {words}")
        if isinstance(error, httpx.TransportError):
            return ConnectionLost(f"the connection to {self.url} broke: {words}")
        return BadAnswer(f"the answer of {self.url} is invalid: {words}")


def socket_options() -> list[tuple[int, int, int]]:
    """Returns options that send small requests at once and detect a peer that has disappeared."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, seconds in _KEEPALIVE:
        if (option := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, option, seconds))
    return options


def _query(fields: Mapping[str, str]) -> str:
    # Every server decodes %20 as a space, but not every server decodes +.
    return "?" + urlencode(fields, quote_via=quote, safe="") if fields else ""
