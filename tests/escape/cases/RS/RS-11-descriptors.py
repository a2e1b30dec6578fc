"""RS-11: Open files without end.

Claim: Descriptors end at the limit.
Technique: Opens /dev/null, pipes and sockets until it is refused, in several processes.
Source: -
Tiers: jail bounded
"""

LIMITS = {"open_files": 256, "processes": 16}


def inside():
    import os

    def fill():
        held = []
        try:
            while len(held) < 100_000:
                held.append(open("/dev/null"))
        except OSError as error:
            return len(held), attack.errno.errorcode[error.errno]
        return len(held), ""

    for _ in range(5):
        if os.fork() == 0:
            fill()
            attack.time.sleep(10)
            os._exit(0)
    attack.say("opened", fill())


def outside(trial):
    opened, error = trial.found.get("opened", [0, ""])
    trial.check(200 < opened <= 256 and error == "EMFILE", f"{opened} {error}")
