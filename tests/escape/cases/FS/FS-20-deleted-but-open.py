"""FS-20: Hold more than the disk in files without names.

Claim: Files that were removed but are open count as well.
Technique: Opens files, removes them, and writes to them until it is refused.
Source: -
Tiers: jail contained
"""

LIMITS = {"disk_bytes": 16 << 20, "memory_bytes": 128 << 20, "file_bytes": 8 << 20}


def inside():
    import os

    held, written, error = [], 0, ""
    while written < 64 << 20:
        file = open(f"x{len(held)}", "wb", buffering=0)
        os.unlink(file.name)
        held.append(file)
        try:
            for _ in range(8):
                written += file.write(b"x" * (1 << 20))
        except OSError as problem:
            error = attack.errno.errorcode[problem.errno]
            if error == "ENOSPC":
                break
    attack.say("written", [written, error])


def outside(trial):
    written, error = trial.found.get("written", [0, ""])
    trial.equal(error, "ENOSPC", "the end of the disk")
    trial.check(0 < written <= 16 << 20, f"{written} bytes were written")
    trial.equal(trial.ask("held = file = None; import gc; gc.collect(); open('y', 'w').write('z'); print('again')"), "again", "afterwards")
