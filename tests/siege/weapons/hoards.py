"""Weapons of what a server holds beside output: streamed messages, long answers, records of what ran."""

import asyncio
import json
import random

from siege.attack import TINY_WINDOW, Attack
from weapons import weapon

MESSAGE_BYTES = 31 << 20
"""Just below `server.request_body_bytes_max`."""

STREAMS = ("process.Process/Start", "process.Process/Connect", "process.Process/StreamInput", "filesystem.Filesystem/WatchDir")

RECORD_ROUNDS = 60
"""Tenths of a second for which cells are recorded before they are searched for."""

LONG_NAMES = """
import os
os.makedirs("/workspace/names", exist_ok=True)
for number in range({}):
    open(f"/workspace/names/{{number:0240}}", "w").close()
"""


async def e2b_sandbox(attack: Attack) -> dict[str, str] | None:
    """A sandbox as E2B's client makes it; the headers that name it."""
    answer = await attack.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 900}, what="sandboxes")
    if answer.status != 201:
        return None
    made = answer.json
    attack.sandboxes.add(made["sandboxID"])
    return {"X_Access_Token": made["envdAccessToken"], "E2b_Sandbox_Id": made["sandboxID"], "E2b_Sandbox_Port": "49983"}


@weapon("streamed messages", armed="connections")
async def streamed_messages(attack: Attack) -> None:
    """Sends most of a message of 31 MiB in each of E2B's streamed requests, on 500 connections, and never its end."""
    named = await e2b_sandbox(attack)
    if named is None:
        return
    kind = {"Content_Type": "application/connect+json"}
    frame = b"\0" + MESSAGE_BYTES.to_bytes(4, "big")
    part = b" " * (256 << 10)
    number = iter(range(1 << 40))

    def opener():
        path = "/" + STREAMS[next(number) % len(STREAMS)]
        head = attack.head("POST", path, len(frame) + MESSAGE_BYTES, None, **named, **kind)
        return attack.open(head + frame + part)

    await attack.hold(attack.connections(500, short=200), opener, lambda stream: stream.send(part))


@weapon("unread searches", armed="connections")
async def unread_searches(attack: Attack) -> None:
    """Records 200 cells of 64 KiB, then asks for all of them on 200 connections and reads none."""
    sandbox = await attack.some_sandbox()
    if sandbox is None:
        return

    async def record(ask):
        answer = await ask("POST", f"/v1/sandboxes/{sandbox}/cells", {"code": f"{random.random()}#" + "x" * 65_000})
        if attack.done["calls"] >= attack.many(200, short=100):
            raise asyncio.TimeoutError
        return answer

    recording = asyncio.ensure_future(attack.flood(record))
    for _ in range(RECORD_ROUNDS):
        if not attack.going or attack.done["calls"] >= attack.many(200, short=100):
            break
        await attack.pause(0.1)
    recording.cancel()
    request = attack.head("GET", "/v1/audit?limit=1000")
    await attack.hold(attack.connections(200, short=100), lambda: attack.open(request, TINY_WINDOW))


@weapon("unread listings", armed="connections")
async def unread_listings(attack: Attack) -> None:
    """Lists a directory of 9 000 names of 240 bytes on 500 connections, by both dialects, and reads none."""
    named = await e2b_sandbox(attack)
    if named is None:
        return
    sandbox = named["E2b_Sandbox_Id"]
    await attack.cell(sandbox, LONG_NAMES.format(attack.many(9000, short=3000)))
    body = json.dumps({"path": "/workspace/names"}).encode()
    path = "/filesystem.Filesystem/ListDir"
    requests = [
        attack.head("GET", f"/v1/sandboxes/{sandbox}/files?path=/workspace/names"),
        attack.head("POST", path, len(body), None, **named, Content_Type="application/json") + body,
    ]
    number = iter(range(1 << 40))
    opener = lambda: attack.open(requests[next(number) % 2], TINY_WINDOW)  # noqa: E731
    await attack.hold(attack.connections(500, short=200), opener)


@weapon("loud commands", armed="commands")
async def loud_commands(attack: Attack) -> None:
    """Starts many commands in 20 sandboxes that print without end, and reads none of them."""

    async def start(sandbox: str) -> None:
        for _ in range(attack.many(50, short=10)):
            body = {"command": "yes " + "x" * 500, "background": True, "timeout_seconds": 900}
            await attack.call("POST", f"/v1/sandboxes/{sandbox}/commands", body, what="commands")
            attack.ready()

    await attack.fleet(attack.many(20, short=5), start)
    await attack.stopping.wait()


@weapon("long records", armed="cells")
async def long_records(attack: Attack) -> None:
    """Leaves lists of changed files, long errors, commands of 100 kB and unread notices in many sandboxes."""

    async def fill(sandbox: str) -> None:
        names = LONG_NAMES.format(attack.many(9000, short=2000))
        for _ in range(3):
            await attack.cell(sandbox, names)
            await attack.cell(sandbox, "raise ValueError('x' * 1_000_000)", what="errors")
            body = {"command": "true " + "x" * 100_000}
            await attack.call("POST", f"/v1/sandboxes/{sandbox}/commands", body, what="commands")

    await attack.fleet(attack.many(30, short=4), fill)
    attack.ready()
    await attack.stopping.wait()
