"""The network of a sandbox, and its ports, for asynchronous callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silica.aio.client import AsyncClient
    from silica.models import Link
    from silica.networks import Connection, Exposure, NetworkCheck, NetworkInfo, NetworkOptions


class AsyncNetwork:
    """What one sandbox may reach."""

    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def get(self) -> NetworkInfo:
        """Returns the rules in force, each with its origin, the limits and what was used."""
        return await self._client.ask(requests.get_network(self._sandbox))

    async def set(self, network: NetworkOptions | Mapping[str, object]) -> None:
        """Replaces the network. Connections that it does not allow are closed.

        Raises `Forbidden` for what the operator does not offer, and `BadRequest` for rules that
        are not valid. Processes that run keep their environment variables.
        """
        await self._client.ask(requests.set_network(self._sandbox, network))

    async def check(
        self,
        url: str | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        method: str | None = None,
    ) -> NetworkCheck:
        """Returns what the rules say about a URL, or a host and port; nothing is opened."""
        return await self._client.ask(
            requests.check_network(self._sandbox, url, host, port, method)
        )

    async def connections(self) -> list[Connection]:
        """Returns the open connections, and the last 1000 that ended."""
        return await self._client.ask(requests.list_connections(self._sandbox))


class AsyncPorts:
    """The ports of one sandbox that can be reached from outside: `expose` of its network."""

    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def list(self) -> Exposure:
        """Returns the exposed ports."""
        return (await self._client.ask(requests.list_ports(self._sandbox))).at(self._client.url)

    async def url(self, port: int) -> str:
        """Returns the URL of a port; requests to it need the key. Raises `ValueError` if none."""
        exposure = await self.list()
        return exposure.url(port, self._client.url + requests.port_path(self._sandbox, port))

    async def link(
        self, port: int, *, path: str | None = None, expires_seconds: float | None = None
    ) -> Link:
        """Returns a URL of a port that works without a key, also in a browser."""
        return await self._client.ask(
            requests.link_port(self._sandbox, port, path, expires_seconds)
        )
