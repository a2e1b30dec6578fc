"""PV-10: Use the kernel's keyrings.

Claim: Keyrings, which outlive and cross sessions, cannot be used.
Technique: add_key, request_key, and keyctl to join a session, get the persistent ring and read the user's.
Source: isolate's manual names them as a channel
Tiers: jail contained
"""


def inside():
    table = {"add_key": ("add_key", b"user", b"meet", b"secret", 6, -4), "request_key": ("request_key", b"user", b"meet", 0, -4)}
    for name, command in (("get id", 0), ("join", 1), ("update", 2), ("link", 8), ("search", 10), ("read", 11), ("persistent", 22), ("capabilities", 31)):
        table[f"keyctl {name}"] = ("keyctl", command, -4, 0, 0, 0)
    attack.calls(table)


def outside(trial):
    trial.all_refused()
