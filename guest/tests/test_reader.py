"""The command that reads for the host, driven over pipes."""

import os
import struct
import subprocess
import sys
from pathlib import Path

READER = Path(__file__).resolve().parent.parent / "silica_guest" / "reader.py"


def read(*arguments: str, asked: bytes = b"") -> bytes:
    command = [sys.executable, "-I", "-S", "-B", str(READER), *arguments]
    return subprocess.run(command, input=asked, capture_output=True, check=True).stdout


def frames(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    while data:
        length = int.from_bytes(data[1:5], "little")
        found.append((data[:1], data[5 : 5 + length]))
        data = data[5 + length :]
    return found


def path_of(payload: bytes) -> str:
    length = int.from_bytes(payload[26:28], "little")
    return payload[28 : 28 + length].decode()


def test_stat(tmp_path):
    os.symlink("there", tmp_path / "link")
    (tmp_path / "there").write_text("four")
    [(kind, payload), end] = frames(read("stat", str(tmp_path / "link")))
    assert kind == b"e" and end == (b".", b"") and payload[0] == 2 and b"there" in payload
    assert payload[-5] == 0, "it leads to a file"
    assert frames(read("stat", str(tmp_path / "none"))) == [(b"!", struct.pack("<I", 2))]


def test_list(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_text("")
    (tmp_path / "a").write_text("")
    listed = frames(read("list", "1", str(tmp_path)))
    assert [path_of(payload)[len(str(tmp_path)) :] for _, payload in listed[:-1]] == ["/a", "/b"]
    listed = frames(read("list", "2", str(tmp_path)))
    assert [path_of(payload)[len(str(tmp_path)) :] for _, payload in listed[:-1]] == ["/a", "/b", "/b/c"]
    assert listed[-1] == (b".", b"")
    assert frames(read("list", "1", str(tmp_path / "a"))) == [(b"!", struct.pack("<I", 20))]


def test_read(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    answer = read("read", str(tmp_path / "file"), asked=struct.pack("<QQ", 2, 5))
    length = int.from_bytes(answer[1:5], "little")
    assert answer[5 + length :] == b"234"
    status = read("read", "/proc/self/status", asked=struct.pack("<QQ", 0, 5))
    assert status.endswith(b"Name:")
    os.mkfifo(tmp_path / "fifo")
    assert frames(read("read", str(tmp_path / "fifo"))) == [(b"!", struct.pack("<I", 6))]
    assert frames(read("read", str(tmp_path))) == [(b"!", struct.pack("<I", 21))]
