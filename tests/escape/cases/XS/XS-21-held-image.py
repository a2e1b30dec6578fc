"""XS-21: Change a twin's memory through the image that it was woken from.

Claim: Once an image is woken, no process of the sandbox that wrote it can change it.
Technique: The carrier is replaced: the interpreter keeps a shared mapping of the image, a descriptor, a child with both, or seals the file its own way.
Source: -
Tiers: jail contained
"""

NEW = {"limits": {"memory_bytes": 1 << 30}}


def inside():
    from silica_guest import carry

    real = carry.receive_descriptors
    kept = []

    def receive(control):
        image, report = real(control)
        kind = open("/workspace/kind").read()
        if kind == "mapping":
            import mmap

            kept.append(mmap.mmap(image, 1 << 20))
        elif kind == "descriptor":
            kept.append(attack.os.dup(image))
        elif kind == "seal":
            import fcntl

            fcntl.fcntl(image, 1033, 1)  # F_ADD_SEALS, F_SEAL_SEAL: no further seal can be added.
        return [image, report]

    def overwrite():
        for thing in kept:
            try:
                if isinstance(thing, int):
                    return attack.os.pwrite(thing, b"\xcc" * 4096, 4096)
                thing[:] = b"\xcc" * len(thing)
                return len(thing)
            except OSError as error:
                return attack.errno.errorcode[error.errno]
        return None

    carry.receive_descriptors = receive
    import builtins

    builtins.overwrite = overwrite
    attack.say("replaced", True)


def outside(trial):
    trial.check(trial.found.get("replaced"), "the carrier was not replaced")
    path = f"/v1/sandboxes/{trial.id}/fork"
    trial.ask("open('/workspace/kind', 'w').write('descriptor')")
    answer = trial.api.call("POST", path, {})
    trial.equal(answer.status, 201, "a descriptor alone is harmless")
    twin = answer.json["sandboxes"][0]["id"]
    trial.equal(trial.ask("print(overwrite())"), "EPERM", "writing to a sealed image")
    trial.equal(trial.ask("print(sum(range(1000)))", twin), "499500", "the twin")
    trial.api.call("DELETE", f"/v1/sandboxes/{twin}")
    trial.tried()
    # The mapping comes last: with it the interpreter has shared memory, and the survey refuses the next fork.
    for kind in ("seal", "mapping"):
        trial.ask(f"open('/workspace/kind', 'w').write('{kind}')")
        answer = trial.api.call("POST", path, {})
        trial.equal((answer.status, answer.code), (409, "cannot_fork"), kind)
        trial.tried()
