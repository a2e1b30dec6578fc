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

    Paths are absolute or relative to `/workspace`. Files are changed in `/workspace`, `/home/user`
    and `/tmp`, where no link is followed. Any other path can be listed and read: a process in the
    sandbox does it, with its rights. Methods raise `NotFound` if a path does not exist, `Refused`
    for links, FIFOs, sockets and devices, and `DiskFull` if the sandbox has no space left.
    """

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def read(self, path: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Returns the content of a file as text; raises `NotAFile` for a directory."""
        return self.read_bytes(path).decode(encoding, errors)

    def read_bytes(
        self, path: str, *, start: int | None = None, length: int | None = None
    ) -> bytes:
        """Returns the content of a file, or at most `length` bytes of it from offset `start`."""
        return self._client.ask(requests.read_file(self._sandbox, path, start, length))

    def write(self, path: str, data: str | bytes, *, mode: int | None = None) -> Entry:
        """Writes a file atomically; replaces an existing file and creates missing parents.

        Text is encoded as UTF-8. `mode` is the permission bits, as in `0o644`.
        """
        data = data.encode() if isinstance(data, str) else data
        return self._client.ask(requests.write_file(self._sandbox, path, data, mode))

    def list(self, path: str = "/workspace", *, depth: int = 1) -> Listing:
        """Returns the entries of a directory, and those below it down to `depth` levels."""
        return self._client.ask(requests.list_files(self._sandbox, path, depth))

    def stat(self, path: str) -> Entry:
        """Returns the entry at a path."""
        return self._client.ask(requests.stat_file(self._sandbox, path))

    def exists(self, path: str) -> bool:
        """Returns whether a path exists."""
        return self._client.carry_out(flows.exists(self._sandbox, path))

    def mkdir(self, path: str) -> None:
        """Creates a directory and its parents; does nothing if it exists."""
        self._client.ask(requests.make_directory(self._sandbox, path))

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Moves or renames; raises `Conflict` if `target` exists, unless `overwrite` is true."""
        self._client.ask(requests.move_file(self._sandbox, source, target, overwrite=overwrite))

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with its content."""
        self._client.ask(requests.remove_file(self._sandbox, path))

    def upload(
        self, local: LocalPath | BinaryIO, path: str | None = None, *, mode: int | None = None
    ) -> Entry:
        """Uploads a local file, by path or open in binary mode, without loading it into memory.

        `path` defaults to the name of the local file. Raises `TypeError` if an open file has no
        name and `path` is not given.
        """
        return self._client.carry_out(flows.upload(self._sandbox, local, path, mode))

    @overload
    def download(self, path: str, local: LocalPath | None = None) -> Path: ...

    @overload
    def download(self, path: str, local: Sink) -> None: ...

    def download(self, path: str, local: LocalPath | Sink | None = None) -> Path | None:
        """Downloads a file without loading it into memory.

        `local` is a path, a directory, or an object open for writing bytes; without it the file is
        written to the current directory under its own name. Returns the path of the local file,
        which appears only when it is complete; None for an open object.
        """
        if local is None or isinstance(local, (str, os.PathLike)):
            return self._client.carry_out(flows.download(self._sandbox, path, local))
        return self._client.carry_out(flows.download_into(self._sandbox, path, local))

    def upload_dir(self, local: LocalPath, path: str = "/workspace") -> None:
        """Uploads the content of a local directory, without links and special files."""
        self._client.carry_out(flows.upload_directory(self._sandbox, local, path))

    def download_dir(self, path: str, local: LocalPath) -> Path:
        """Downloads the content of a directory, without links and special files.

        Returns the local directory. Nothing is written before the whole archive has arrived.
        """
        return self._client.carry_out(flows.download_directory(self._sandbox, path, local))

    def link(self, path: str, *, method: str = "GET", expires_seconds: float | None = None) -> Link:
        """Returns a URL that reads (`GET`) or writes (`PUT`) a file without a key.

        The URL is valid for `expires_seconds`.
        """
        return self._client.ask(requests.link_file(self._sandbox, path, method, expires_seconds))
