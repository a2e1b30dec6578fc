"""Weapons of processes: sandboxes, threads that stay, kernels, terminals, watchers."""

import asyncio
import json

from siege.attack import TINY_WINDOW, Attack
from weapons import weapon

HOGS = """
import os, threading
def burn():
    while True:
        pass
for _ in range(2):
    if os.fork() == 0:
        burn()
for _ in range(4):
    threading.Thread(target=burn, daemon=True).start()
"""

CHURN = """
import os
os.makedirs("/workspace/w", exist_ok=True)
import time
end = time.monotonic() + 900
while time.monotonic() < end:
    for n in range(100):
        open(f"/workspace/w/{n}", "w").close()
    for n in range(100):
        os.remove(f"/workspace/w/{n}")
"""


@weapon("100 sandboxes", armed="sandboxes")
async def hundred_sandboxes(attack: Attack) -> None:
    """Takes every sandbox that the key may have, then deletes and creates without pause."""
    fleet = await attack.fleet(attack.many(110))
    attack.ready()

    async def churn(own: list[str]) -> None:
        while attack.going:
            if own:
                await attack.delete(own.pop())
            if (made := await attack.sandbox()) is not None:
                own.append(made)
            else:
                await attack.pause(0.1)

    await attack.crew(*(churn(fleet[number::8]) for number in range(8)))


@weapon("threads left behind", armed="cells")
async def threads_left_behind(attack: Attack) -> None:
    """Leaves two processes and four threads that compute in each of 60 sandboxes, and runs no cell."""

    async def leave(sandbox: str) -> None:
        await attack.cell(sandbox, HOGS)

    await attack.fleet(attack.many(60, short=20), leave)
    attack.ready()
    await attack.stopping.wait()


@weapon("kernels", armed="kernels")
async def kernels(attack: Attack) -> None:
    """Fills sandboxes with kernels, each with a cell, and restarts them without pause."""

    async def work() -> None:
        sandbox = await attack.some_sandbox()
        if sandbox is None:
            return
        at = f"/v1/sandboxes/{sandbox}/kernels"
        for _ in range(20):
            answer = await attack.call("POST", at, {}, what="kernels")
            if answer.status != 201:
                break
        attack.ready()
        while attack.going:
            for number in range(1, 17):
                await attack.call("POST", f"{at}/k{number}/restart", what="restarts")

    await attack.crew(*(work() for _ in range(attack.many(8, short=4))))


@weapon("terminals", armed="terminals")
async def terminals(attack: Attack) -> None:
    """Runs `yes` on sixteen terminals of several sandboxes; half of their streams are opened and not read."""
    number = iter(range(1 << 40))
    streams: list[bytes] = []

    async def start(sandbox: str) -> None:
        at = f"/v1/sandboxes/{sandbox}/commands"
        for _ in range(16):
            body = {"command": "yes", "background": True, "terminal": {"columns": 80, "rows": 24}, "timeout_seconds": 900}
            answer = await attack.call("POST", at, body, what="terminals")
            if answer.status == 202:
                streams.append(attack.head("GET", f"{at}/{answer.json['id']}/events"))

    await attack.fleet(attack.many(4, short=2), start)
    if not streams:
        return
    opener = lambda: attack.open(streams[next(number) % len(streams)], TINY_WINDOW)  # noqa: E731
    await attack.hold(max(1, len(streams) // 2), opener)


@weapon("file watchers", armed="watchers")
async def file_watchers(attack: Attack) -> None:
    """Watches directories as E2B's client does, by stream and by poll, and changes files in them without pause."""
    requests: list[bytes] = []

    async def watch() -> None:
        answer = await attack.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 900}, what="sandboxes")
        if answer.status != 201:
            return
        made = answer.json
        sandbox = made["sandboxID"]
        attack.sandboxes.add(sandbox)
        await attack.cell(sandbox, CHURN, background=True, timeout_seconds=900)
        headers = {"X_Access_Token": made["envdAccessToken"], "E2b_Sandbox_Id": sandbox, "E2b_Sandbox_Port": "49983"}
        message = json.dumps({"path": "/workspace", "recursive": True}).encode()
        for _ in range(40):
            path = "/filesystem.Filesystem/CreateWatcher"
            kind = {"Content_Type": "application/json"}
            await attack.call("POST", path, message, what="watchers", key=None, **headers, **kind)
        frame = b"\0" + len(message).to_bytes(4, "big") + message
        kind = {"Content_Type": "application/connect+json"}
        head = attack.head("POST", "/filesystem.Filesystem/WatchDir", len(frame), None, **headers, **kind)
        requests.append(head + frame)

    await asyncio.gather(*(watch() for _ in range(attack.many(4, short=2))))
    if not requests:
        return
    number = iter(range(1 << 40))
    opener = lambda: attack.open(requests[next(number) % len(requests)], TINY_WINDOW)  # noqa: E731
    await attack.hold(attack.connections(64), opener)
