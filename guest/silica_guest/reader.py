"""Reads files and directories for the host, as a command in the sandbox: `python -I -S -B …/reader.py`.

The host never opens what lies outside a sandbox's writable directories, nor follows a link in them. This
program does it with the guest's rights. The guest can stop, replace or imitate the process; the host
treats all that it writes as hostile.

    reader.py stat PATH
    reader.py list DEPTH PATH
    reader.py read PATH

Answers are frames on stdout: one byte of kind, a length (`u32`, little endian), and so many bytes. Kinds
are `e` (an entry), `.` (complete), `+` (complete as far as the bounds go) and `!` (an error number). After
the entry of `read`, the program takes the start and the end of a range from stdin, two `u64`, and writes
these bytes of the file without frames.
"""

import os
import stat
import sys

# The host's bounds of a listing, in `crates/engine/src/inside.rs`.
ENTRIES_MAX = 20_000
PATH_BYTES_MAX = 4 << 20
# How much of a file without a size is read, such as those of /proc.
SIZELESS_BYTES_MAX = 1 << 20
CHUNK_BYTES = 256 << 10
TEXT_BYTES_MAX = 4096

FILE, DIRECTORY, LINK, OTHER, NOTHING = range(5)


def write(data):
    while data:
        data = data[os.write(1, data) :]


def frame(kind, payload=b""):
    write(kind + len(payload).to_bytes(4, "little") + payload)


def kind_of(mode):
    if stat.S_ISREG(mode):
        return FILE
    if stat.S_ISDIR(mode):
        return DIRECTORY
    return LINK if stat.S_ISLNK(mode) else OTHER


def text(data):
    data = data[:TEXT_BYTES_MAX]
    return len(data).to_bytes(2, "little") + data


def entry(path, found, size):
    """Returns the payload of an entry: of a link, what it says and what it leads to."""
    nanoseconds = found.st_mtime_ns
    fixed = (
        bytes([kind_of(found.st_mode), found.st_uid == os.geteuid()])
        + (found.st_mode & 0o7777).to_bytes(4, "little")
        + size.to_bytes(8, "little")
        + (nanoseconds // 10**9).to_bytes(8, "little", signed=True)
        + (nanoseconds % 10**9).to_bytes(4, "little")
    )
    said = end = b""
    end_kind, end_mode = NOTHING, 0
    if stat.S_ISLNK(found.st_mode):
        try:
            said = os.readlink(path)
            end = os.path.realpath(path)
            reached = os.stat(path)
            end_kind, end_mode = kind_of(reached.st_mode), reached.st_mode & 0o7777
        except OSError:
            pass
    return fixed + text(path) + text(said) + text(end) + bytes([end_kind]) + end_mode.to_bytes(4, "little")


def look(path):
    found = os.lstat(path)
    frame(b"e", entry(path, found, found.st_size))
    frame(b".")


def walk(path, depth):
    """Lists a directory; breadth first, so that what the bounds leave out is what lies deepest."""
    level = [path]
    entries, room = 0, PATH_BYTES_MAX
    for remaining in range(depth, 0, -1):
        below = []
        for directory in level:
            try:
                names = sorted(os.listdir(directory))
            except OSError:
                if directory is path:
                    raise
                continue
            for name in names:
                inner = os.path.join(directory, name)
                try:
                    found = os.lstat(inner)
                except OSError:
                    continue
                payload = entry(inner, found, found.st_size)
                entries += 1
                room -= len(payload)
                if entries > ENTRIES_MAX or room < 0:
                    frame(b"+")
                    return
                frame(b"e", payload)
                if remaining > 1 and stat.S_ISDIR(found.st_mode):
                    below.append(inner)
        level = below
    frame(b".")


def read_exactly(length):
    data = b""
    while len(data) < length:
        piece = os.read(0, length - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def read(path):
    # Without O_NONBLOCK, opening a FIFO would wait for its other end.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    found = os.fstat(file)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, "")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(6, "")
    content, size = None, found.st_size
    if size == 0:
        content = b""
        while len(content) <= SIZELESS_BYTES_MAX and (piece := os.read(file, CHUNK_BYTES)):
            content += piece
        if len(content) > SIZELESS_BYTES_MAX:
            raise OSError(27, "")
        size = len(content)
    frame(b"e", entry(path, found, size))
    start = int.from_bytes(read_exactly(8), "little")
    end = int.from_bytes(read_exactly(8), "little")
    if content is not None:
        write(content[start:end])
        return
    while start < end:
        piece = os.pread(file, min(CHUNK_BYTES, end - start), start)
        if not piece:
            return
        write(piece)
        start += len(piece)


def main(arguments):
    try:
        match arguments:
            case ["stat", path]:
                look(os.fsencode(path))
            case ["list", depth, path]:
                walk(os.fsencode(path), int(depth))
            case ["read", path]:
                read(os.fsencode(path))
    except BrokenPipeError:
        pass
    except OSError as error:
        frame(b"!", (error.errno or 5).to_bytes(4, "little"))


main(sys.argv[1:])
