"""RS-05: Have another process killed for one's own memory.

Claim: When a group is out of memory only its own processes die.
Technique: A child balloons while the interpreter idles; the other way round too.
Source: a launcher in the same group was killed in its place
Tiers: jail contained
"""

LIMITS = {"memory_bytes": 96 << 20, "disk_bytes": 16 << 20, "processes": 8}
ENDS = ("ok", "out_of_memory")
TIMEOUT = 30


def inside():
    import os

    child = os.fork()
    if child == 0:
        held = []
        try:
            while True:
                held.append(bytearray(b"x") * (4 << 20))
        except MemoryError:
            os._exit(7)
    attack.say("ballooning", True)
    attack.say("end", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def outside(trial):
    if trial.cell["outcome"] == "ok":
        trial.check(trial.found.get("end") in (-9, 7), f"the child's end: {trial.found.get('end')}")
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
