"""The process of one weapon: what it is told comes on standard input, what it says goes to standard output.

The first line of input is a JSON object; the end of input ends the attack. The process gives way to others (nice 10),
because victim, server and attacker share the machine's processors.
"""

import asyncio
import contextlib
import json
import os
import resource
import sys

from siege.attack import Attack
from weapons import WEAPONS

NICENESS = 10
DESCRIPTORS = 16_384

CLEAN_UP_PATIENCE = 60.0


def raise_descriptors() -> None:
    """As many as this machine allows, up to what the largest weapon needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, DESCRIPTORS), max(hard, DESCRIPTORS)))
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say(**words) -> None:
    print(json.dumps(words), flush=True)


async def wield(order: dict) -> None:
    address = (order["host"], order["port"])
    attack = Attack(address, order["keys"], order["short"], order["share"], lambda: say(ready=True))
    loop = asyncio.get_running_loop()
    end_of_input = loop.run_in_executor(None, sys.stdin.read)
    end_of_input.add_done_callback(lambda _: attack.stopping.set())
    error = None
    try:
        await attack.crew(WEAPONS[order["weapon"]].attack(attack))
    except Exception as failure:  # noqa: BLE001 - a weapon that breaks is reported, and ends the run as failed.
        error = f"{type(failure).__name__}: {failure}"
    attack.ready()
    await attack.stopping.wait()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(attack.clean_up(), CLEAN_UP_PATIENCE)
    say(done=dict(attack.done), refused=dict(attack.refused), error=error)


def main() -> None:
    os.nice(NICENESS)
    raise_descriptors()
    asyncio.run(wield(json.loads(sys.stdin.readline())))
    # A thread that waits for the end of input must not keep the process.
    os._exit(0)
