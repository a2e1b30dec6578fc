"""Files in a sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, overload

from silica.core import flows, requests

if TYPE_CHECKING:
    from pathlib import Path

    from silica.client import Client
    from silica.core.local import LocalPath, Sink
    from silica.models import Entry, Link, Listing


class Files:
    """The files of one sandbox.

    Paths are absolute or relative to `/workspace`, and lie in `/workspace`, `/home/user` or `/tmp`.
    Links are never followed.
    """

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def read(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Returns a file as text."""
        return self.read_bytes(path).decode(encoding, errors)

    def read_bytes(
        self, path: str, *, start: int | None = None, length: int | None = None
    ) -> bytes:
        """Returns a file, or `length` bytes of it from `start`."""
        return self._client.ask(requests.read_file(self._sandbox, path, start, length))

    def write(self, path: str, data: str | bytes, *, mode: int | None = None) -> Entry:
        """Makes a file, at once and whole, over what was there; parents are made."""
        data = data.encode() if isinstance(data, str) else data
        return self._client.ask(requests.write_file(self._sandbox, path, data, mode))

    def list(self, path: str = "/workspace", *, depth: int = 1) -> Listing:
        """Returns what is in a directory, and below it to a depth."""
        return self._client.ask(requests.list_files(self._sandbox, path, depth))

    def stat(self, path: str) -> Entry:
        """Returns one entry."""
        return self._client.ask(requests.stat_file(self._sandbox, path))

    def exists(self, path: str) -> bool:
        """Says whether there is something at a path."""
        return self._client.carry_out(flows.exists(self._sandbox, path))

    def mkdir(self, path: str) -> None:
        """Makes a directory and its parents; one that is there is fine."""
        self._client.ask(requests.make_directory(self._sandbox, path))

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Moves or renames."""
        self._client.ask(requests.move_file(self._sandbox, source, target, overwrite=overwrite))

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it."""
        self._client.ask(requests.remove_file(self._sandbox, path))

    def upload(
        self, local: LocalPath | BinaryIO, path: str | None = None, *, mode: int | None = None
    ) -> Entry:
        """Sends a local file, by path or open for reading, without holding it in memory."""
        return self._client.carry_out(flows.upload(self._sandbox, local, path, mode))

    @overload
    def download(self, path: str, local: LocalPath | None = None) -> Path: ...

    @overload
    def download(self, path: str, local: Sink) -> None: ...

    def download(self, path: str, local: LocalPath | Sink | None = None) -> Path | None:
        """Fetches a file without holding it in memory.

        It goes to a path, into a directory, into something open for writing, or here under its
        own name. Returns the path, if there is one.
        """
        if local is None or isinstance(local, (str, os.PathLike)):
            return self._client.carry_out(flows.download(self._sandbox, path, local))
        return self._client.carry_out(flows.download_into(self._sandbox, path, local))

    def upload_dir(self, local: LocalPath, path: str = "/workspace") -> None:
        """Sends what is in a local directory; links and special files are left out."""
        self._client.carry_out(flows.upload_directory(self._sandbox, local, path))

    def download_dir(self, path: str, local: LocalPath) -> Path:
        """Fetches what is in a directory; links and special files are left out."""
        return self._client.carry_out(flows.download_directory(self._sandbox, path, local))

    def link(self, path: str, *, method: str = "GET", expires_seconds: float | None = None) -> Link:
        """Makes an address that reads (`GET`) or writes (`PUT`) a file without a key."""
        return self._client.ask(requests.link_file(self._sandbox, path, method, expires_seconds))
