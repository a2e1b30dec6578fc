"""The caller's own files: bodies that are read while they are sent, and files that arrive whole."""

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
    """A file that is opened when it is sent."""

    path: Path
    size: int
    replayable: bool = True

    @classmethod
    def of(cls, path: LocalPath) -> FileSource:
        """Looks at the file; only a regular one can be sent by name."""
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory; send it with upload_dir")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(
                f"{os.fspath(path)} is not a regular file; open it and send what you opened"
            )
        return cls(Path(path), status.st_size)

    def chunks(self) -> Iterator[bytes]:
        """Reads it from the start."""
        with self.path.open("rb") as file:
            yield from _exactly(file, self.size, str(self.path))


class ObjectSource:
    """Something open for reading, from where it stands."""

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
        """Whether it can be wound back."""
        return self._start is not None

    def chunks(self) -> Iterator[bytes]:
        """Reads it from where it stood."""
        if self._start is None or self.size is None:
            yield from _all(self._file)
        else:
            self._file.seek(self._start)
            yield from _exactly(self._file, self.size, "the file")


class Sink(Protocol):
    """Where a download goes."""

    def write(self, data: bytes, /) -> object:
        """Takes the next bytes."""


class PartFile:
    """A file that appears under its name only when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._file = self._part.open("xb")

    def write(self, data: bytes, /) -> None:
        """Takes the next bytes."""
        self._file.write(data)

    def commit(self) -> None:
        """Puts it in place, over what was there."""
        self._file.close()
        self._part.replace(self.path)

    def discard(self) -> None:
        """Leaves nothing of it; after `commit`, does nothing."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def target_of(local: LocalPath | None, remote: str) -> Path:
    """Returns where a download goes: into a directory, to a path, or here under its own name."""
    name = remote.rstrip("/").rsplit("/", 1)[-1]
    if local is None:
        return Path(name)
    return Path(local) / name if Path(local).is_dir() else Path(local)


def _all(file: BinaryIO) -> Iterator[bytes]:
    while chunk := _read(file, CHUNK_BYTES):
        yield chunk


def _exactly(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """Reads as much as was announced: a file that grows is cut, one that shrinks cannot be sent."""
    left = size
    while left:
        chunk = _read(file, min(left, CHUNK_BYTES))
        if not chunk:
            raise OSError(f"{name} became shorter while it was sent")
        left -= len(chunk)
        yield chunk


def _read(file: BinaryIO, size: int) -> bytes:
    chunk = file.read(size)
    if not isinstance(chunk, bytes):
        raise TypeError("the file must be open in binary mode")
    return chunk
