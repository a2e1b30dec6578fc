"""AP-21: Send every request a little wrong.

Claim: No body, of whatever shape, brings the server to a fault of its own.
Technique: Takes good bodies for every route and changes them at random: types, lengths, nesting, bytes; counts answers that blame the server.
Source: fuzzing of the decoders of requests, which cannot be reached without the server around them
Tiers: jail contained
"""

GOOD = {
    "/v1/run": {"code": "1", "template": "python", "limits": {"cpus": 1, "memory_bytes": 67108864}, "env": {"A": "B"}, "arguments": ["a"], "timeout_seconds": 1, "files": [{"path": "f", "content": "x"}], "outputs": ["f"]},
    "/v1/sandboxes": {"template": "python", "limits": {"cpus": 1}, "env": {}, "metadata": {"a": "b"}, "ttl_seconds": 60, "idle_seconds": 60, "max_cells": 5, "inputs": [{"name": "i", "content_base64": "AAEC"}], "interpreter": "forked"},
    "{box}/cells": {"code": "1", "kernel": "k1", "timeout_seconds": 1, "background": False, "on_disconnect": "continue"},
    "{box}/commands": {"arguments": ["true"], "env": {"A": "B"}, "directory": "/tmp", "stdin": False, "timeout_seconds": 1, "background": False, "terminal": {"columns": 80, "rows": 24}},
    "{box}/kernels": {"env": {"A": "B"}, "directory": "/tmp"},
    "{box}/extend": {"ttl_seconds": 60},
    "{box}/files/move": {"from": "a", "to": "b", "overwrite": True},
    "{box}/files/directory": {"path": "d"},
    "{box}/files/link": {"path": "d", "method": "GET", "expires_seconds": 5},
    "{box}/commands/p1/signal": {"signal": "TERM"},
}
ODD = [None, True, -1, 0, 1e300, 2**63, 2**64, "", "\0", "x" * 5000, "../..", "é\u202e", [], {}, [[[[]]]], {"a": {"b": 1}}, "\ud7ff", "1", 0.1, -0.0]


def mutate(random, value, depth=0):
    """Another value near this one."""
    if random.random() < 0.2 or depth > 4:
        return random.choice(ODD)
    if isinstance(value, dict):
        changed = {name: mutate(random, one, depth + 1) if random.random() < 0.4 else one for name, one in value.items()}
        if random.random() < 0.2:
            changed[random.choice(["x", "", "code", "limits", "__proto__"])] = random.choice(ODD)
        return changed
    if isinstance(value, list):
        return [mutate(random, one, depth + 1) for one in value] * random.choice([0, 1, 1, 3, 40])
    return random.choice(ODD)


def outside(trial):
    import json
    import random
    from urllib.parse import quote

    source = random.Random(1 if not trial.long else None)
    rounds = 20_000 if trial.long else 150
    box = f"/v1/sandboxes/{trial.id}"
    for number in range(rounds):
        path = source.choice(list(GOOD))
        body = json.dumps(mutate(source, GOOD[path])).encode()
        if number % 5 == 0 and body:
            at = source.randrange(len(body))
            body = body[:at] + bytes([source.randrange(256)]) + body[at + source.randrange(3) :]
        if number % 11 == 0:
            query = quote(str(source.choice(ODD)))
            answer = trial.api.call("GET", f"{box}/files?path={query}&depth={query}")
        else:
            answer = trial.api.call("POST", path.format(box=box), body)
        trial.tried()
        trial.check(answer.status < 500 or answer.status == 507, f"{path}: {answer.status} to {body[:200]!r}: {answer.text[:150]}")
        if answer.status == 201 and path == "/v1/sandboxes":
            trial.api.delete(answer.json["id"])
