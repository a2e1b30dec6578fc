"""The secrets of a key, for blocking callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from silica.client import Client
    from silica.networks import SecretInfo

    Infos = list[SecretInfo]


class Secrets:
    """Secrets that the sandboxes of this key use and never see. Values never come back."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(
        self,
        name: str,
        value: str,
        *,
        hosts: Sequence[str],
        env: str | None = None,
        places: Sequence[str] | None = None,
        prefix: str | None = None,
        inject: Mapping[str, str] | None = None,
    ) -> SecretInfo:
        """Stores a secret, or replaces the one of this name.

        The value goes to `hosts` alone, each with `:PORT` if it is not 443. In sandboxes that use
        it, the variable `env` holds a placeholder, which begins with `prefix`. `places` are the
        parts of a request in which the placeholder is replaced: `header` (the default), `basic`,
        `query`, `path`, `body`. `inject`, a `header` and a `value` with `{}` in it, sets a header
        without a placeholder.
        """
        return self._client.ask(
            requests.put_secret(
                name, value=value, hosts=hosts, env=env, places=places, prefix=prefix, inject=inject
            )
        )

    def list(self) -> Infos:
        """Returns the secrets of this key, and those that the operator offers."""
        return self._client.ask(requests.list_secrets())

    def get(self, name: str) -> SecretInfo:
        """Returns a secret without its value; raises `NotFound` if there is none of that name."""
        return self._client.ask(requests.get_secret(name))

    def delete(self, name: str) -> None:
        """Deletes a secret; sandboxes that use it keep it until they end. Raises `NotFound`."""
        self._client.ask(requests.delete_secret(name))
