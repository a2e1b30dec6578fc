"""XS-02: Leave residue for the next.

Claim: A sandbox begins empty, whatever ran before it.
Technique: Marks everything that can be marked, is deleted, and the next twelve sandboxes look for the marks.
Source: isolate 2.6 had shared /dev/shm
Tiers: jail contained
"""


def inside():
    import os
    import site
    import socket
    import sys

    marked = []
    for place in ("/tmp", "/dev/shm", "/workspace", "/home/user", "/home/user/.cache", "/home/user/.config", "/home/user/.local", site.getusersitepackages()):
        os.makedirs(place, exist_ok=True)
        open(place + "/residue", "w").write("residue")
        marked.append(place)
    for number, arguments in ((29, (4242, 4096, 0o1666)), (68, (4242, 0o1666)), (64, (4242, 1, 0o1666)), (240, (b"residue", 0o102, 0o666, 0)), (248, (b"user", b"residue", b"x", 1, -4))):
        attack.raw(number, *arguments)
    sys.path.append("/residue")
    os.environ["RESIDUE"] = "1"
    keep = socket.socket(socket.AF_UNIX)
    keep.bind("\0residue")
    keep.listen()
    attack.say("marked", marked)


LOOK = """
import glob, os, socket, sys
found = [p for p in glob.glob('/tmp/*') + glob.glob('/dev/shm/*') + glob.glob('/workspace/*') + glob.glob('/home/user/.*/**', recursive=True) if 'residue' in p]
found += [n for n in ('RESIDUE',) if n in os.environ] + [p for p in sys.path if 'residue' in p]
found += ['socket'] if socket.socket(socket.AF_UNIX).connect_ex('\\0residue') == 0 else []
print(found)
"""


def outside(trial):
    trial.check(len(trial.found.get("marked", [])) == 8, "not everything was marked")
    trial.end(trial.sandboxes[0])
    for _ in range(12):
        box = trial.api.create()["id"]
        trial.equal(trial.ask(LOOK, box), "[]", "the next sandbox")
        trial.api.delete(box)
