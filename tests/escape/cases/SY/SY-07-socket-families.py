"""SY-07: Make sockets of every family.

Claim: Only local, IPv4 and IPv6 sockets can be made.
Technique: socket(2) for 46 families, five types and several protocols; socketpair(2) likewise.
Source: CVE-2026-31431 (AF_ALG), CVE-2026-43500 (AF_RXRPC), and many before
Tiers: jail contained
"""


def inside():
    import os

    opened = {}
    tried = 0
    for family in range(47):
        for kind in (1, 2, 3, 4, 5, 10, 1 | 0o2000000, 3 | 0o4000):
            for protocol in (0, 1, 255):
                for number in (41, 53):
                    pair = attack.ctypes.create_string_buffer(8)
                    made = attack.raw(number, family, kind, protocol, pair)
                    tried += 1
                    if isinstance(made, int):
                        opened.setdefault(str(family), []).append(kind & 15)
                        for one in [made] if number == 41 else attack.struct.unpack("<ii", pair.raw):
                            os.close(one)
    attack.say("tried", tried)
    attack.say("opened", {family: sorted(set(kinds)) for family, kinds in opened.items()})


def outside(trial):
    trial.check(trial.found.get("tried", 0) > 2000, "too little was tried")
    opened = trial.found.get("opened", {"?": []})
    trial.check(set(opened) <= {"1", "2", "10"}, f"families that can be used: {opened}")
    trial.check(all(kinds == [1, 2] for family, kinds in opened.items() if family != "1"), f"kinds: {opened}")
