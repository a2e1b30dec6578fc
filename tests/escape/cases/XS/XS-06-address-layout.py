"""XS-06: Know a sibling's addresses and hash seed.

Claim: A fresh interpreter shares neither addresses nor hash seed nor canary with another process; forks of one zygote share these, and nothing else on the list.
Technique: Compares base addresses, hash("abc"), id() and AT_RANDOM across forks, fresh interpreters, and servers.
Source: the list in SECURITY.md, "Siblings"
Tiers: jail bounded; promised for fresh interpreters only
"""

LOOK = """
import ctypes, json
maps = [l.split() for l in open('/proc/self/maps')]
base = {name: next((m[0].split('-')[0] for m in maps if m[-1].startswith(name)), None) for name in ('[stack]', '[heap]', '[vdso]')}
libc = next((m[0].split('-')[0] for m in maps if 'libc' in m[-1]), None)
getauxval = ctypes.CDLL(None).getauxval; getauxval.restype = ctypes.c_ulong
print(json.dumps({'hash': hash('abc'), 'libc': libc, 'stack': base['[stack]'], 'heap': base['[heap]'], 'vdso': base['[vdso]'], 'canary': ctypes.string_at(getauxval(25), 16).hex()}))
"""


def outside(trial):
    import json

    def looks(count, **fields):
        found = []
        for _ in range(count):
            box = trial.api.create(**fields)["id"]
            found.append(json.loads(trial.ask(LOOK, box)))
            trial.api.delete(box)
            trial.tried()
        return found

    fresh = looks(4, interpreter="fresh")
    for name in fresh[0]:
        trial.equal(len({one[name] for one in fresh}), 4, f"{name} of fresh interpreters")
    forked = looks(3)
    for name in fresh[0]:
        trial.check(forked[0][name] not in {one[name] for one in fresh}, f"a fork and a fresh interpreter share {name}")
