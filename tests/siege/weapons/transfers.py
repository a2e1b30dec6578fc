"""Weapons of files: transfers that do not end, archives that grow, sandboxes that end under their downloads."""

import asyncio
import io
import tarfile

from siege.attack import TINY_WINDOW, Attack
from weapons import weapon

MANY = 560
"""More than the server's runtime has threads for blocking work."""

LARGE_FILE = "open('/workspace/large.bin', 'wb').write(b'x' * ({} << 20))"


@weapon("slow writers", armed="connections")
async def slow_writers(attack: Attack) -> None:
    """Begins 560 uploads and sends each a byte now and then."""
    sandbox = await attack.some_sandbox()
    if sandbox is None:
        return
    request = attack.head("PUT", f"/v1/sandboxes/{sandbox}/files/content?path=slow.bin", 100_000) + b"x"
    await attack.hold(attack.connections(MANY), lambda: attack.open(request), lambda stream: stream.send(b"x"))


@weapon("slow downloads", armed="connections")
async def slow_downloads(attack: Attack) -> None:
    """Begins 560 downloads of a file and of an archive, and reads a byte now and then."""
    sandbox = await attack.some_sandbox()
    if sandbox is None:
        return
    await attack.cell(sandbox, LARGE_FILE.format(32))
    paths = ("files/content?path=large.bin", "files/archive?path=/workspace")
    requests = [attack.head("GET", f"/v1/sandboxes/{sandbox}/{path}") for path in paths]
    number = iter(range(1 << 40))
    opener = lambda: attack.open(requests[next(number) % 2], TINY_WINDOW)  # noqa: E731
    await attack.hold(attack.connections(MANY), opener, lambda stream: stream.recv(1))


@weapon("deleted under downloads", armed="deletes")
async def deleted_under_downloads(attack: Attack) -> None:
    """Deletes sandboxes with 64 MB files while downloads of them are open and not read."""
    rounds = 0
    while attack.going:
        sandbox = await attack.some_sandbox()
        if sandbox is None:
            return
        await attack.cell(sandbox, LARGE_FILE.format(64))
        for _ in range(4):
            await attack.open(attack.head("GET", f"/v1/sandboxes/{sandbox}/files/content?path=large.bin"), TINY_WINDOW)
        await attack.delete(sandbox)
        rounds += 1
        if rounds == 2:
            attack.ready()
        while len(attack.sockets) > 120:
            attack.drop(next(iter(attack.sockets)))


def entry(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    """The head of a file in an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, size, 0o755
    return info.tobuf(tarfile.PAX_FORMAT)


def larger_than_the_disk():
    """One file of 200 MB; the disk of a sandbox has 100."""
    yield entry("bomb.bin", size=200 << 20)
    for _ in range(200):
        yield bytes(1 << 20)


def many_names():
    """40 000 names, 255 bytes each."""
    for number in range(40):
        block = io.BytesIO()
        for name in range(1000):
            block.write(entry(f"names/{number:04}-{name:04}".ljust(255, "n")))
        yield block.getvalue()
    yield bytes(1024)


def deep_tree():
    """Directories 1 500 deep, one in the other, then the same again under other names."""
    for letter in "abcd":
        yield b"".join(entry("/".join([letter] * depth), tarfile.DIRTYPE) for depth in range(1, 1500, 10))
    yield bytes(1024)


@weapon("archive bombs", armed="archives")
async def archive_bombs(attack: Attack) -> None:
    """Uploads archives larger than the disk, deeper than a path and with 40 000 names; lists and downloads what is left."""
    bombs = [list(many_names()), list(deep_tree())]

    async def throw(first: int) -> None:
        sandbox = await attack.some_sandbox()
        turn = first
        while attack.going and sandbox:
            at = f"/v1/sandboxes/{sandbox}/files"
            pieces = larger_than_the_disk() if turn % 3 == 2 else bombs[turn % 3]
            attack.done["archives"] += 1
            await attack.stream_up(f"{at}/archive?path=/workspace", pieces, what="unpacked")
            attack.ready()
            await attack.call("GET", f"{at}?path=/workspace&depth=10", what="lists")
            await attack.call("GET", f"{at}/archive?path=/workspace", what="downloads")
            await attack.call("DELETE", f"{at}?path=/workspace/names", what="removes")
            turn += 1

    await attack.crew(*(throw(number) for number in range(3)))
