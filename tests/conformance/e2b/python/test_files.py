"""Files: written, read, listed, moved, removed, watched, signed."""

from __future__ import annotations

import gzip
import io
import time
import urllib.error
import urllib.request

import pytest
from conftest import IS_OLD
from e2b import FileType
from e2b.exceptions import (
    AuthenticationException,
    InvalidArgumentException,
    NotEnoughSpaceException,
    NotFoundException,
    SandboxException,
)


def test_text_and_bytes(sandbox):
    info = sandbox.files.write("notes/ä b\"c.txt", "héllo\n")
    assert (info.name, info.path) == ("ä b\"c.txt", "/home/user/notes/ä b\"c.txt")
    assert getattr(info.type, "value", info.type) == "file"
    assert sandbox.files.read("notes/ä b\"c.txt") == "héllo\n"
    blob = bytes(range(256)) * 5000
    sandbox.files.write("/tmp/blob", blob)
    assert bytes(sandbox.files.read("/tmp/blob", format="bytes")) == blob
    sandbox.files.write("/tmp/blob", io.BytesIO(b"shorter"))
    assert sandbox.files.read("/tmp/blob") == "shorter"
    sandbox.files.write("empty", "")
    assert sandbox.files.read("empty") == ""
    assert bytes(sandbox.files.read("empty", format="bytes")) == b""
    assert sandbox.run_code("open('notes/ä b\"c.txt').read()").text == "héllo\\n"


def test_reading_in_pieces(flavour, sandbox, loop):
    blob = b"0123456789" * 200_000
    sandbox.files.write("large", blob)
    stream = sandbox.files.read("large", format="stream")
    if flavour == "sync":
        assert b"".join(stream) == blob
        return

    async def gather(stream):
        return b"".join([piece async for piece in stream])

    assert loop.call(gather, getattr(stream, "_value", stream)) == blob


def test_several_at_once(sandbox):
    written = sandbox.files.write_files([{"path": "one.txt", "data": "1"}, {"path": "deep/two.bin", "data": b"\0\1"}])
    assert [one.path for one in written] == ["/home/user/one.txt", "/home/user/deep/two.bin"]
    assert sandbox.files.read("one.txt") == "1"
    assert bytes(sandbox.files.read("deep/two.bin", format="bytes")) == b"\0\1"


@pytest.mark.newest
def test_packed_and_streamed(sandbox):
    text = "packed " * 10_000
    sandbox.files.write("packed", text, gzip=True)
    assert sandbox.files.read("packed") == text
    assert sandbox.files.read("packed", gzip=True) == text
    sandbox.files.write("streamed", io.BytesIO(text.encode()), use_octet_stream=True)
    assert sandbox.files.read("streamed") == text
    sandbox.files.write("streamed", text, use_octet_stream=False)
    assert sandbox.files.read("streamed") == text


@pytest.mark.newest
def test_what_is_said_about_a_file(sandbox):
    written = sandbox.files.write("said", "x", metadata={"author": "me", "n": "1"})
    assert written.metadata == {"author": "me", "n": "1"}
    assert sandbox.files.get_info("said").metadata == {"author": "me", "n": "1"}
    assert sandbox.files.list(".")[0].metadata == {"author": "me", "n": "1"}
    with pytest.raises((InvalidArgumentException, SandboxException)):
        sandbox.files.write("said", "x", metadata={"a": "x" * 10_000})


def test_names_and_directories(sandbox):
    files = sandbox.files
    assert files.make_dir("a/b") is True
    assert files.make_dir("a/b") is False
    files.write("a/b/f.txt", "abc")
    assert [(one.path, one.type) for one in files.list("a", depth=2)] == [
        ("/home/user/a/b", FileType.DIR),
        ("/home/user/a/b/f.txt", FileType.FILE),
    ]
    info = files.get_info("a/b/f.txt")
    assert (info.name, info.size, info.mode, info.permissions) == ("f.txt", 3, 0o644, "-rw-r--r--")
    assert (info.owner, info.group) == ("user", "user")
    assert abs(info.modified_time.timestamp() - time.time()) < 600
    sandbox.commands.run("ln -s f.txt a/b/link")
    link = files.get_info("a/b/link")
    # The new SDK says of a link that it is one; the old one knows only what it leads to.
    kind = FileType.FILE if IS_OLD else FileType.SYMLINK
    assert (link.symlink_target, link.type) == ("/home/user/a/b/f.txt", kind)
    assert files.read("a/b/link") == "abc"
    moved = files.rename("a/b/f.txt", "~/new/g.txt")
    assert moved.path == "/home/user/new/g.txt"
    assert files.exists("new/g.txt") and not files.exists("a/b/f.txt")
    files.write("other", "old")
    files.rename("new/g.txt", "other")
    assert files.read("other") == "abc"
    files.remove("a")
    files.remove("a")
    assert not files.exists("a")


def test_outside_home(sandbox):
    """What code can read, `files` reads: E2B's first example lists the root."""
    files = sandbox.files
    listed = {one.name: one.type for one in files.list("/")}
    assert (listed["etc"], listed["home"]) == (FileType.DIR, FileType.DIR)
    code = "open('/etc/os-release').read()"
    assert files.read("/etc/os-release") == sandbox.run_code(f"print({code}, end='')").logs.stdout[0]
    assert files.exists("/etc/os-release") and not files.exists("/etc/none")
    assert files.get_info("/usr").type == FileType.DIR
    for change in (lambda: files.write("/etc/x", "x"), lambda: files.make_dir("/etc/x"), lambda: files.remove("/etc/os-release")):
        with pytest.raises(SandboxException):
            change()
    with pytest.raises(SandboxException, match="Failed to set working directory"):
        sandbox.create_code_context(cwd="/nowhere")


def test_what_is_refused(sandbox):
    files = sandbox.files
    files.write("file", "x")
    for path in ("none", "/etc/shadow"):
        assert not files.exists(path)
        with pytest.raises(NotFoundException):
            files.read(path)
        with pytest.raises(NotFoundException):
            files.get_info(path)
    with pytest.raises(NotFoundException):
        files.list("none")
    with pytest.raises(NotFoundException):
        files.rename("none", "other")
    with pytest.raises(InvalidArgumentException):
        files.list("file")
    with pytest.raises(InvalidArgumentException):
        files.read(".")
    with pytest.raises(SandboxException):
        files.write("/etc/passwd", "x")
    with pytest.raises(AuthenticationException):
        files.list(".", user="root")
    with pytest.raises(AuthenticationException):
        files.write("root's", "x", user="root")
    with pytest.raises(InvalidArgumentException):
        files.list(".", depth=0)


def test_a_full_disk(sandbox):
    size = sandbox.get_metrics()[-1].disk_total + 1
    with pytest.raises(NotEnoughSpaceException):
        sandbox.files.write("large", b"\0" * size)
    assert not sandbox.files.exists("large")


def get(url: str, data: bytes | None = None, **headers: str) -> bytes:
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def refused(url: str, data: bytes | None = None) -> int:
    with pytest.raises(urllib.error.HTTPError) as raised:
        get(url, data)
    return raised.value.code


def test_signed_addresses(sandbox):
    sandbox.files.write("plot.png", b"\x89PNG")
    url = sandbox.download_url("plot.png")
    assert get(url) == b"\x89PNG"
    assert get(sandbox.download_url("plot.png", use_signature_expiration=600)) == b"\x89PNG"
    assert get(url, Range="bytes=1-3") == b"PNG"
    if not IS_OLD:
        assert get(sandbox.download_url("plot.png", user="user")) == b"\x89PNG"
    assert refused(url.replace("plot.png", "other.png")) == 401
    assert refused(url.replace("signature=v1_", "signature=v1_x")) == 401
    assert refused(sandbox.download_url("plot.png", use_signature_expiration=-100)) == 401
    boundary = "b0undary"
    form = (
        f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n"
        f"up\r\n--{boundary}--\r\n"
    ).encode()
    kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    up = sandbox.upload_url("up.txt")
    assert b"/home/user/up.txt" in get(up, form, **kind)
    assert sandbox.files.read("up.txt") == "up"
    packed = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    get(up, gzip.compress(b"packed"), **packed)
    assert sandbox.files.read("up.txt") == "packed"
    # One that was signed for reading does not write.
    assert refused(url, form) == 401
    sandbox.kill()
    assert refused(url) == 401


def test_watching(flavour, sandbox, eventually):
    files = sandbox.files
    files.make_dir("watched")
    files.write("watched/old", "1")
    seen = []
    if flavour == "sync":
        handle = files.watch_dir("watched")

        def look():
            seen.extend((event.name, event.type.value) for event in handle.get_new_events())
    else:
        handle = files.watch_dir("watched", lambda event: seen.append((event.name, event.type.value)), timeout=0)

        def look():
            pass

    def happened(*wanted):
        look()
        return set(wanted) <= set(seen)

    files.write("watched/new", "2")
    assert eventually(lambda: happened(("new", "create"), ("new", "chmod"), ("new", "write")))
    files.write("watched/old", "2")
    assert eventually(lambda: happened(("old", "write")))
    sandbox.commands.run("cd watched && echo 3 >> new && chmod 600 new && mv new moved && rm moved")
    assert eventually(lambda: happened(("new", "chmod"), ("new", "rename"), ("moved", "create"), ("moved", "remove")))
    assert not [name for name, _ in seen if name.startswith((".silica", "#"))], seen
    handle.stop()
    with pytest.raises(NotFoundException):
        if flavour == "sync":
            files.watch_dir("nowhere")
        else:
            files.watch_dir("nowhere", print)


def test_watching_a_tree(flavour, sandbox, eventually):
    seen = []
    if flavour == "sync":
        handle = sandbox.files.watch_dir(".", recursive=True)

        def look():
            seen.extend((event.name, event.type.value) for event in handle.get_new_events())
    else:
        handle = sandbox.files.watch_dir(
            ".", lambda event: seen.append((event.name, event.type.value)), timeout=0, recursive=True
        )

        def look():
            pass

    sandbox.files.write("deep/er/file", "x")
    assert eventually(lambda: look() or ("deep/er/file", "create") in seen)
    handle.stop()


@pytest.mark.newest
def test_watching_with_entries(flavour, sandbox, eventually):
    seen = []
    if flavour == "sync":
        handle = sandbox.files.watch_dir(".", include_entry=True)

        def look():
            seen.extend(handle.get_new_events())
    else:
        handle = sandbox.files.watch_dir(".", seen.append, timeout=0, include_entry=True)

        def look():
            pass

    sandbox.files.write("file", "abc")
    assert eventually(lambda: look() or seen)
    assert (seen[0].entry.path, seen[0].entry.size) == ("/home/user/file", 3)
    handle.stop()
