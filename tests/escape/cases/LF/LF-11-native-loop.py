"""LF-11: Hold the interpreter in native code.

Claim: Code that never comes back to the interpreter is killed.
Technique: A regular expression that backtracks without end, a power with millions of digits, a machine code loop.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 0.5
DRIVEN = True


def inside(way):
    import re

    attack.say(f"way {way}", True)
    if way == 0:
        re.match("(a+)+$", "a" * 60 + "b")
    elif way == 1:
        10 ** (10**9)
    else:
        attack.machine_code(bytes.fromhex("ebfe"))()


def outside(trial):
    for way in range(3):
        trial.run(f"inside({way})")
        trial.check(trial.cell["outcome"] in ("timed_out", "out_of_memory") or way == 1, f"way {way}: {trial.cell['outcome']}")
        trial.check(trial.cell["outcome"] != "ok", f"way {way} came to an end")
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
