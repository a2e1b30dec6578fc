"""Packs directories into tar archives, and unpacks them.

Only directories and regular files are packed and unpacked; links and special files are skipped. The
names in an archive from a sandbox are untrusted: nothing is written outside the target directory,
nor through a link in it.
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

# The limit of the server, in both directions.
ENTRIES_MAX = 100_000

_FORBIDDEN_ON_WINDOWS = frozenset('\\:*?"<>|')


def pack(directory: Path, into: BinaryIO) -> None:
    """Writes the content of a directory to a tar file, with names relative to the directory."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for count, entry in enumerate(_walk(directory)):
            if count >= ENTRIES_MAX:
                raise ValueError(f"{directory} has more than {ENTRIES_MAX} files, the most allowed")
            _add(tar, entry, entry.relative_to(directory).as_posix())


def unpack(archive: BinaryIO, target: Path) -> None:
    """Extracts a tar file into a directory, which is created if it does not exist."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for count, member in enumerate(tar):
                if count >= ENTRIES_MAX:
                    raise BadAnswer(f"the archive has more than {ENTRIES_MAX} files")
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
    if ".." in parts or member.name.startswith("/") or _is_forbidden(parts):
        raise BadAnswer(f"the archive has a name outside its directory: {member.name!r}")
    if member.isdir():
        _directory(target, parts)
    elif member.isreg() and not member.issparse() and parts:
        content = tar.extractfile(member)
        if content is not None:
            _write(_directory(target, parts[:-1]) / parts[-1], content, member.mode & 0o777)


def _is_forbidden(parts: list[str]) -> bool:
    return os.name == "nt" and any(_FORBIDDEN_ON_WINDOWS.intersection(part) for part in parts)


def _directory(target: Path, parts: list[str]) -> Path:
    """Creates a directory one part at a time; raises OSError if a part is a link."""
    directory = target
    for part in parts:
        directory = directory / part
        if directory.is_symlink():
            raise OSError(f"{directory} is a link; archives are not unpacked through links")
        directory.mkdir(exist_ok=True)
    return directory


def _write(path: Path, content: IO[bytes], mode: int) -> None:
    if path.is_symlink():
        raise OSError(f"{path} is a link; archives are not unpacked through links")
    with path.open("wb") as file:
        copyfileobj(content, file)
    path.chmod(mode)
