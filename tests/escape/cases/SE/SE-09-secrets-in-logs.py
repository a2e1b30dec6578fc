"""SE-09: Find secrets in logs.

Claim: The log, the metrics and error bodies hold no key, no code, no output and no variable.
Technique: Sends marked code, output, variables, file names and keys through success and failure; then searches.
Source: -
Tiers: jail contained
"""


def outside(trial):
    import secrets

    word = "w" + secrets.token_hex(12)
    box = trial.sandbox(env={"SECRET": word + "env"})
    trial.api.cell(box.id, f"print('{word}out')\nraise ValueError('{word}err')")
    trial.api.command(box.id, f"echo {word}cmd; exit 3")
    trial.api.put(box.id, f"{word}name", b"x")
    trial.api.get(box.id, f"{word}missing")
    trial.api.call("GET", f"/v1/{word}?x={word}query")
    trial.api.call("POST", "/v1/run", {"code": f"{word}run", "unknown": 1})
    trial.tried(7)
    log = trial.server.log() + trial.server.admin.call("GET", "/metrics").body
    found = [ending for ending in ("env", "out", "err", "cmd", "query", "run") if (word + ending).encode() in log]
    trial.equal(found, [], "marked words in the log or the metrics")
    trial.check(trial.api.key.encode() not in log and trial.server.key.encode() not in log, "a key is in the log")
