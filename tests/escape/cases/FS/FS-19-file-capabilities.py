"""FS-19: Give a file capabilities by an extended attribute.

Claim: Security and trusted attributes cannot be set.
Technique: setxattr(2) of security.capability, security.evm, trusted.overlay.* on own files.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    open("f", "w").close()
    capability = bytes.fromhex("0100000200000000ffffffff00000000ffffffff00000000")[:20]
    names = ["security.capability", "security.evm", "trusted.overlay.opaque", "trusted.evil", "security.ima"]
    results = {}
    for name in names:
        for path in ("f", "/etc/passwd", "/"):
            results[f"{name} {path}"] = attack.result_of(lambda n=name, p=path: os.setxattr(p, n, capability))
    attack.say("attributes", results)


def outside(trial):
    trial.all_refused("attributes", errors=("EPERM", "ENOSYS", "EOPNOTSUPP", "ENOTSUP", "EROFS", "EACCES", "EINVAL"))
