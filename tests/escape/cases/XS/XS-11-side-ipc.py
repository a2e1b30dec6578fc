"""XS-11: Meet another session by other ways.

Claim: No socket, segment, queue or port of one session is seen by another.
Technique: Connects to the victim's loopback port, abstract and path sockets; System V and POSIX objects by the same keys; shared memory by name.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import socket

    results = {}
    for name, family, address in (("port", socket.AF_INET, ("127.0.0.1", 7777)), ("any", socket.AF_INET, ("0.0.0.0", 7777)), ("abstract", socket.AF_UNIX, "\0victim"), ("path", socket.AF_UNIX, "/tmp/victim.sock")):
        one = socket.socket(family)
        one.settimeout(2)
        results[name] = attack.result_of(lambda: one.connect(address))
    results |= {"shm": attack.raw(29, 4242, 4096, 0o666), "msg": attack.raw(68, 4242, 0o666), "sem": attack.raw(64, 4242, 1, 0o666), "mq": attack.raw(240, b"victim", 2, 0, 0)}
    results["named"] = attack.result_of(lambda: os.open("/dev/shm/victim", os.O_RDONLY))
    attack.say("meetings", results)


def outside(trial):
    trial.all_refused("meetings", errors=("ECONNREFUSED", "ENOENT", "EPERM", "ENOSYS"))
