"""XS-22: Wake a forged image.

Claim: An image that contradicts itself is refused by a process that is locked in; the zone, the server and other sandboxes go on.
Technique: Headers with areas that overlap, wrap, lie in the kernel's half or beyond the file, with a million areas, with strings without an end, and random bytes.
Source: -
Tiers: jail contained
"""

NEW = {"limits": {"memory_bytes": 1 << 30}}

KINDS = ("empty", "random", "overlap", "kernel", "wrap", "beyond", "million", "source", "path", "nowhere")


def inside():
    from silica_guest import carry

    def forge(kind):
        pack = attack.struct.pack
        page, end = 4096, 0x7FFFFFFFF000
        areas = {
            "overlap": [(page, 3 * page, 0, 0), (2 * page, 4 * page, 0, 0)],
            "kernel": [(0xFFFF800000000000, 0xFFFF800000001000, 0, 0)],
            "wrap": [(end - page, page, 0, 1)],
            "beyond": [(page, 2 * page, 1 << 60, 1)],
            "source": [(page, 2 * page, 0, 77)],
            "path": [(page, 2 * page, 0, 3)],
        }.get(kind, [])
        count = 1 << 40 if kind == "million" else len(areas)
        magic = int.from_bytes(b"silica\0\1", "little")
        header = pack("<14Q", magic, page, count, 0, 16 if kind == "path" else 0, 0xDEAD000, 0xDEAD000, 0, 0, 0, 0, 0, 0, 0)
        table = b"".join(pack("<5Q4I", start, stop, offset, 0, 0, 0, 16, 7, source) for start, stop, offset, source in areas)
        return header.ljust(page, b"\0") + table + b"/etc/passwd_____"

    def write(image, report, any_zygote):
        kind = open("/workspace/kind").read()
        data = b"" if kind == "empty" else attack.os.urandom(1 << 16) if kind == "random" else forge(kind)
        attack.os.pwrite(image, data, 0)
        attack.os.write(report, b"written")
        attack.os._exit(0)

    carry.write_or_exit = write
    attack.say("replaced", True)


def outside(trial):
    trial.check(trial.found.get("replaced"), "the carrier was not replaced")
    for kind in KINDS:
        trial.ask(f"open('/workspace/kind', 'w').write('{kind}')")
        answer = trial.api.call("POST", f"/v1/sandboxes/{trial.id}/fork", {"count": 2})
        trial.equal((answer.status, answer.code), (503, "cannot_create"), kind)
        trial.tried()
    trial.equal(trial.ask("print('lives')"), "lives", "the attacker's own interpreter")
