"""Directories as tar files, packed and unpacked by hand.

Only directories and regular files go either way; links and special files are left out. An archive
comes from a sandbox, whose code chose the names: nothing is ever written outside the target, also
not through a link that lies in it.
"""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, BinaryIO

from silica.errors import BadAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

# As many as the server takes or gives.
ENTRIES_MAX = 100_000

_FORBIDDEN_ON_WINDOWS = frozenset('\\:*?"<>|')


def pack(directory: Path, into: BinaryIO) -> None:
    """Writes what is in a directory to a tar file, by names relative to it."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for count, entry in enumerate(_walk(directory)):
            if count >= ENTRIES_MAX:
                raise ValueError(f"{directory} holds more than {ENTRIES_MAX} files")
            _add(tar, entry, entry.relative_to(directory).as_posix())


def unpack(archive: BinaryIO, target: Path) -> None:
    """Writes the files of a tar file below a directory, which is made if it is not there."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for count, member in enumerate(tar):
                if count >= ENTRIES_MAX:
                    raise BadAnswer(f"the archive holds more than {ENTRIES_MAX} files")
                _extract(tar, member, target)
    except tarfile.TarError as error:
        raise BadAnswer(f"the archive cannot be read: {error}") from error


def _walk(directory: Path) -> Iterator[Path]:
    waiting = [directory]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                    yield Path(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(status.st_mode) & 0o777
    info.mtime = int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        return
    info.size = status.st_size
    with path.open("rb") as file:
        tar.addfile(info, file)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    parts = [part for part in member.name.split("/") if part not in {"", "."}]
    if ".." in parts or member.name.startswith("/") or _is_odd(parts):
        raise BadAnswer(f"the archive holds a file outside of itself: {member.name!r}")
    if member.isdir():
        _directory(target, parts)
    elif member.isreg() and not member.issparse() and parts:
        content = tar.extractfile(member)
        if content is not None:
            _write(_directory(target, parts[:-1]) / parts[-1], content, member.mode & 0o777)


def _is_odd(parts: list[str]) -> bool:
    return os.name == "nt" and any(_FORBIDDEN_ON_WINDOWS.intersection(part) for part in parts)


def _directory(target: Path, parts: list[str]) -> Path:
    """Makes a directory one part at a time, and goes through no link."""
    place = target
    for part in parts:
        place = place / part
        if place.is_symlink():
            raise OSError(f"{place} is a link; nothing is unpacked through it")
        place.mkdir(exist_ok=True)
    return place


def _write(path: Path, content: IO[bytes], mode: int) -> None:
    if path.is_symlink():
        raise OSError(f"{path} is a link; nothing is unpacked through it")
    with path.open("wb") as file:
        copyfileobj(content, file)
    path.chmod(mode)
