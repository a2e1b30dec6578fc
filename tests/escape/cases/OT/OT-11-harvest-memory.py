"""OT-11: Look for others in one's own memory.

Claim: A guest's memory holds no word of another session, of the server or of a key.
Technique: Reads all of its own mappings and all objects, looking for the beginning of every token and of keys.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60
DRIVEN = True


def inside(first, second):
    import gc
    import re

    # Put together here, so that the code itself does not hold the word; the parts are at least one byte apart.
    found, size = [], 0
    maps = [line.split() for line in open("/proc/self/maps")]
    word = re.compile(first[:6].encode() + b"(?=" + first[6:].encode() + second.encode() + b"[-a-z])")
    key = re.compile(rb"silica_[0-9a-f]{40}")
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for fields in maps:
            start, end = (int(part, 16) for part in fields[0].split("-"))
            if "r" not in fields[1] or end - start > 256 << 20 or fields[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except (OSError, ValueError):
                continue
            size += len(data)
            found += [fields[-1] for pattern in (word, key) for _ in pattern.finditer(data)]
    attack.say("read", size)
    attack.say("found", found[:5])
    attack.say("objects", sum("victim-environment" in repr(one)[:200] for one in gc.get_objects() if type(one) is dict and len(one) < 50))


def outside(trial):
    first, second = trial.server.tokens.halves()
    trial.run(f"inside({first!r}, {second!r})")
    trial.equal(trial.cell["outcome"], "ok", "the end")
    trial.check(trial.found.get("read", 0) > 1 << 20, "nothing was read")
    trial.equal(trial.found.get("found"), [], "tokens and keys in memory")
    trial.equal(trial.found.get("objects"), 0, "objects of others")
