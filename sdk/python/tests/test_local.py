"""Uploads and downloads of local files and directories."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from silica.core import archive
from silica.core.local import FileSource, ObjectSource, PartFile, target_of
from silica.errors import BadAnswer


def tar_of(*members: tuple[str, dict[str, Any]]) -> io.BytesIO:
    """A tar file with members that `pack` never writes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, attributes in members:
            info = tarfile.TarInfo(name)
            info.size = 2 if attributes.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else 0
            for attribute, value in attributes.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(b"hi"))
    packed.seek(0)
    return packed


def tree(directory: Path) -> dict[str, str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(directory).as_posix(): path.read_text() for path in files}


def test_there_and_back(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "top").write_text("1")
    (source / ("ü" * 120)).write_text("long")
    (source / "a/b/run").write_text("2")
    (source / "a/b/run").chmod(0o750)
    os.link(source / "top", source / "twin")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    packed = io.BytesIO()
    archive.pack(source, packed)
    packed.seek(0)
    target = tmp_path / "new/target"
    archive.unpack(packed, target)
    assert tree(target) == {"top": "1", "twin": "1", "a/b/run": "2", "ü" * 120: "long"}
    assert (target / "empty").is_dir()
    assert (target / "a/b/run").stat().st_mode & 0o777 == 0o750
    assert not (target / "link").exists()
    assert not (target / "pipe").exists()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/out", "a/.."])
def test_a_name_that_leads_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadAnswer, match="a name outside its directory"):
        archive.unpack(tar_of((name, {})), tmp_path / "target")
    assert tree(tmp_path) == {}


def test_names_with_dots_and_slashes_in_between(tmp_path: Path) -> None:
    archive.unpack(tar_of(("./", {"type": tarfile.DIRTYPE}), ("./a//./b", {})), tmp_path)
    assert tree(tmp_path) == {"a/b": "hi"}


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    members: list[tuple[str, dict[str, Any]]] = [
        ("soft", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}),
        ("pipe", {"type": tarfile.FIFOTYPE}),
        ("zero", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}),
        ("kept", {"mode": 0o6755}),
    ]
    archive.unpack(tar_of(*members), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").stat().st_mode & 0o7777 == 0o755


def test_nothing_goes_through_a_link_that_is_there(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (outside / "file").write_text("mine")
    (target / "dir").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    for name in ("dir/file", "file"):
        with pytest.raises(OSError, match="is a link"):
            archive.unpack(tar_of((name, {})), target)
    with pytest.raises(OSError, match="is a link"):
        archive.unpack(tar_of(("dir", {"type": tarfile.DIRTYPE})), target)
    assert tree(outside) == {"file": "mine"}


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadAnswer, match="cannot be read"):
        archive.unpack(io.BytesIO(b"nonsense" * 200), tmp_path)


def test_an_archive_that_was_cut(tmp_path: Path) -> None:
    packed = tar_of(("a", {"size": 2})).getvalue()
    with pytest.raises(BadAnswer, match="cannot be read"):
        archive.unpack(io.BytesIO(packed[:513]), tmp_path)


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ENTRIES_MAX", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match="more than 2 files"):
        archive.pack(tmp_path, io.BytesIO())
    with pytest.raises(BadAnswer, match="more than 2 files"):
        archive.unpack(tar_of(("a", {}), ("b", {}), ("c", {})), tmp_path / "target")


def test_only_a_directory_can_be_packed(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        archive.pack(tmp_path / "none", io.BytesIO())


def test_a_file_that_changes_while_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345678")
    source = FileSource.of(path)
    path.write_bytes(b"1234567890")
    assert b"".join(source.chunks()) == b"12345678"
    path.write_bytes(b"1")
    with pytest.raises(OSError, match="became shorter"):
        list(source.chunks())


def test_only_regular_files_are_sent_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        FileSource.of(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="upload_dir"):
        FileSource.of(tmp_path)
    with pytest.raises(FileNotFoundError):
        FileSource.of(tmp_path / "none")


def test_a_file_open_for_text() -> None:
    text: Any = io.StringIO("abc")
    with pytest.raises(TypeError, match="binary mode"):
        list(ObjectSource(text).chunks())


def test_a_part_is_nothing_until_it_is_whole(tmp_path: Path) -> None:
    part = PartFile(tmp_path / "a")
    part.write(b"half")
    assert not (tmp_path / "a").exists()
    part.discard()
    assert list(tmp_path.iterdir()) == []
    part = PartFile(tmp_path / "a")
    part.write(b"whole")
    part.commit()
    part.discard()
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_where_a_download_goes(tmp_path: Path) -> None:
    assert target_of(None, "/tmp/x/a.csv") == Path("a.csv")
    assert target_of(tmp_path, "a.csv") == tmp_path / "a.csv"
    assert target_of(tmp_path / "b", "a.csv") == tmp_path / "b"
