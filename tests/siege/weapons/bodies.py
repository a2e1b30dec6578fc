"""Weapons of requests that are large or slow to check."""

import json

from siege.attack import Attack
from weapons import weapon

BODY_BYTES = 31 << 20
"""Just below `server.request_body_bytes_max`."""


def bodies() -> list[bytes]:
    """Valid JSON of 31 MiB: escapes, many values, deep nests, many files."""
    escapes = b'{"code": "1", "files": [{"path": "a", "content": "' + b"\\u0001" * (BODY_BYTES // 6 - 20) + b'"}]}'
    values = b'{"code": "1", "files": [' + b"0," * (BODY_BYTES // 2 - 40) + b"0]}"
    nests = b'{"code": "1", "limits": ' + b"[" * (BODY_BYTES // 2 - 40) + b"]" * (BODY_BYTES // 2 - 40) + b"}"
    files = [{"path": f"{number}.txt", "content": "x" * 30_000} for number in range(1000)]
    return [escapes, values, nests, json.dumps({"code": "1", "files": files}).encode()]


@weapon("huge JSON", armed="bodies")
async def huge_json(attack: Attack) -> None:
    """Posts bodies of 31 MiB, eight at a time: escapes, 16 million values, deep nests, a thousand files."""
    made = bodies()

    async def post(first: int) -> None:
        turn = first
        while attack.going:
            answer = await attack.call("POST", "/v1/run", made[turn % len(made)], what="runs")
            attack.done["bodies"] += 1
            attack.ready()
            turn += 1
            await attack.pause(0.1 if answer.status in (429, 503) else 0.0)

    await attack.crew(*(post(number) for number in range(8)))


@weapon("code to check", armed="checks")
async def code_to_check(attack: Attack) -> None:
    """Has a megabyte of nested code checked by the strictest policy, eight at a time."""
    lines = "".join(f"x{number} = ((((((getattr(a, 'b{number}'))))))) or [eval('{number}')]\n" for number in range(16_000))
    code = lines[: (1 << 20) - 64].rsplit("\n", 1)[0]

    async def check() -> None:
        while attack.going:
            answer = await attack.call("POST", "/v1/run", {"code": code, "policy": "strict"}, what="runs")
            attack.done["checks"] += 1
            attack.ready()
            await attack.pause(0.1 if answer.status in (429, 503) else 0.0)

    await attack.crew(*(check() for _ in range(8)))
