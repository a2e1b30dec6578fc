"""XS-03: Find another session's words in fresh memory.

Claim: Memory that a sandbox gets is clean.
Technique: One session fills its memory with a word and is deleted; the next ones read all of theirs, new pages included.
Source: -
Tiers: jail contained
"""

LIMITS = {"memory_bytes": 256 << 20}
TIMEOUT = 30
DRIVEN = True


def inside(part, other):
    attack.say("filled", True)
    held = [(part + other).encode() * 4096 for _ in range(400)]
    attack.say("bytes", sum(len(one) for one in held))


def inside_look(part, other):
    import mmap
    import re

    word = re.compile(part.encode() + b"(?=" + other.encode() + b")")
    fresh = mmap.mmap(-1, 64 << 20)
    hits = len(word.findall(fresh))
    attack.libc.malloc.restype = attack.ctypes.c_void_p
    raw = attack.ctypes.string_at(attack.libc.malloc(32 << 20), 32 << 20)
    hits += len(word.findall(raw))
    attack.say("hits", hits)


def outside(trial):
    import secrets

    part, other = secrets.token_hex(8), secrets.token_hex(8)
    trial.run(f"inside({part!r}, {other!r})")
    trial.end(trial.sandboxes[0])
    for _ in range(4):
        box = trial.sandbox()
        trial.run(f"inside_look({part!r}, {other!r})", box.id)
        trial.equal((trial.cell["outcome"], trial.found.get("hits")), ("ok", 0), "the next sandbox")
