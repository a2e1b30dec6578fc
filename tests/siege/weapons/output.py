"""Weapons of output: what cells print and return, and readers that do not read it."""

import asyncio

from siege.attack import TINY_WINDOW, Attack
from weapons import weapon

LARGE = {"output_bytes": 64 << 20, "result_bytes": 64 << 20}

CONTROL_CHARACTERS = """
import sys
sys.stdout.write("\\x01" * (40 << 20))
sys.stderr.write("\\x01" * (40 << 20))
"""

SIXTY_MEGABYTES = """
import sys
sys.stdout.write("a" * 60_000_000)
sys.stderr.write("b" * 60_000_000)
"c" * 60_000_000
"""

FULL_STREAMS = "import sys\nfor s in (sys.stdout, sys.stderr): s.write('x' * (64 << 20))"

ENDLESS = """
import time
end = time.monotonic() + 900
while time.monotonic() < end:
    print("line " * 200)
"""


@weapon("slow readers", armed="connections")
async def slow_readers(attack: Attack) -> None:
    """Reads cells with 40 MiB of control characters on each stream (6 bytes each in JSON) through a tiny window."""
    sandbox = await attack.some_sandbox(limits=LARGE)
    if sandbox is None:
        return
    await attack.cell(sandbox, CONTROL_CHARACTERS, background=True)
    await attack.finished(sandbox)
    request = attack.head("GET", f"/v1/sandboxes/{sandbox}/cells/c1")
    await attack.hold(attack.connections(100, short=40), lambda: attack.open(request, TINY_WINDOW))


@weapon("kept output", armed="cells")
async def kept_output(attack: Attack) -> None:
    """Leaves 60 MB of results and of each stream in many sandboxes."""

    async def fill(sandbox: str) -> None:
        await attack.cell(sandbox, SIXTY_MEGABYTES, background=True)
        await attack.finished(sandbox)

    await attack.fleet(attack.many(20, short=5), fill, limits=LARGE)
    attack.ready()
    await attack.stopping.wait()


@weapon("64 MiB outputs", armed="begun")
async def large_outputs(attack: Attack) -> None:
    """Runs code that prints 64 MiB to each stream, again and again, four at a time."""

    async def again() -> None:
        while attack.going:
            body = {"code": FULL_STREAMS, "limits": LARGE}
            attack.done["begun"] += 1
            answer = await attack.call("POST", "/v1/run", body, what="runs")
            attack.ready()
            if answer.status != 200:
                await attack.pause(0.5)

    asyncio.get_running_loop().call_later(4, attack.ready)
    await attack.crew(*(again() for _ in range(4)))


@weapon("streams never read", armed="connections")
async def streams_never_read(attack: Attack) -> None:
    """Opens 200 event streams of cells that print without end, and reads none of them."""
    fleet = await attack.fleet(attack.many(8, short=4))
    for sandbox in fleet:
        await attack.cell(sandbox, ENDLESS, background=True, timeout_seconds=900)
    if not fleet:
        return
    paths = [f"/v1/sandboxes/{sandbox}/cells/c1/events" for sandbox in fleet]
    number = iter(range(1 << 40))
    opener = lambda: attack.open(attack.head("GET", paths[next(number) % len(paths)]), TINY_WINDOW)  # noqa: E731
    await attack.hold(attack.connections(200), opener)
