"""Local files: sources that are read while they are sent, and targets that appear when complete."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, Union

CHUNK_BYTES = 256 << 10

LocalPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True, slots=True)
class FileSource:
    """A local file that is opened when it is sent."""

    path: Path
    size: int
    replayable: bool = True

    @classmethod
    def of(cls, path: LocalPath) -> FileSource:
        """Checks the file; raises OSError if it is not a regular file."""
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory; send it with upload_dir")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(
                f"{os.fspath(path)} is not a regular file; open it and pass the open file"
            )
        return cls(Path(path), status.st_size)

    def chunks(self) -> Iterator[bytes]:
        """Yields the content from the start."""
        with self.path.open("rb") as file:
            yield from _exactly(file, self.size, str(self.path))


class ObjectSource:
    """An object open for reading, from its current position."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start: int | None = None
        self.size: int | None = None
        if file.seekable():
            self._start = file.tell()
            self.size = file.seek(0, os.SEEK_END) - self._start
            file.seek(self._start)

    @property
    def replayable(self) -> bool:
        """Whether the object can seek back to its start position."""
        return self._start is not None

    def chunks(self) -> Iterator[bytes]:
        """Yields the content from the start position."""
        if self._start is None or self.size is None:
            yield from _all(self._file)
        else:
            self._file.seek(self._start)
            yield from _exactly(self._file, self.size, "the file")


class Sink(Protocol):
    """The target of a download."""

    def write(self, data: bytes, /) -> object:
        """Appends bytes."""


class PartFile:
    """A file that appears under its name only when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._file = self._part.open("xb")

    def write(self, data: bytes, /) -> None:
        """Appends bytes."""
        self._file.write(data)

    def commit(self) -> None:
        """Moves the file to its name; replaces an existing file."""
        self._file.close()
        self._part.replace(self.path)

    def discard(self) -> None:
        """Removes the incomplete file; does nothing after `commit`."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def target_of(local: LocalPath | None, remote: str) -> Path:
    """Returns the path of a download: in a directory, at a path, or here under the remote name."""
    name = remote.rstrip("/").rsplit("/", 1)[-1]
    if local is None:
        return Path(name)
    return Path(local) / name if Path(local).is_dir() else Path(local)


def _all(file: BinaryIO) -> Iterator[bytes]:
    while chunk := _read(file, CHUNK_BYTES):
        yield chunk


def _exactly(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """Yields `size` bytes, the announced length; raises OSError if the file became shorter."""
    left = size
    while left:
        chunk = _read(file, min(left, CHUNK_BYTES))
        if not chunk:
            raise OSError(f"{name} became shorter while it was being sent")
        left -= len(chunk)
        yield chunk


def _read(file: BinaryIO, size: int) -> bytes:
    chunk = file.read(size)
    if not isinstance(chunk, bytes):
        raise TypeError("the file must be open in binary mode")
    return chunk
