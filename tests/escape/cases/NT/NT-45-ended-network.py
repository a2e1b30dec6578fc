"""NT-45: Outlive the end of a sandbox in its network.

Claim: With a sandbox its sockets, connections and its network end; no later sandbox finds any of them.
Technique: Open connections and look-ups in a sandbox that is ended; descriptors of the process that carries them are counted, and later sandboxes look for names, listeners and addresses.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:25432/tcp", "api.far.test:28080/http"]}}
DRIVEN = True


def inside():
    import socket

    streams = [socket.create_connection(("api.far.test", 25432), 10) for _ in range(10)]
    for stream in streams:
        stream.sendall(b"x")
        stream.recv(1)
    attack.say("open", len(streams))
    globals()["kept"] = streams


LOOK = """
import socket
found = []
for address in ('127.0.0.1', '198.18.0.1', '198.18.0.16'):
    for port in (53, 80, 443, 3128, 25432, 28080):
        one = socket.socket(); one.settimeout(1)
        try: one.connect((address, port)); found.append((address, port))
        except OSError as error:
            if address.startswith('198.') and error.errno != 101: found.append((address, error.errno))
        one.close()
print(found)
"""


def outside(trial):
    import os

    from harness import host as hosts
    from harness.trial import eventually

    trial.run()
    trial.equal(trial.found["open"], 10, "connections")
    egress = [one for one in hosts.below(trial.server.pid) if b"__egress" in open(f"/proc/{one.pid}/cmdline", "rb").read()]
    if not trial.check(len(egress) == 1, f"{len(egress)} processes carry networks"):
        return
    count = lambda: len(os.listdir(f"/proc/{egress[0].pid}/fd")) if os.access(f"/proc/{egress[0].pid}/fd", os.R_OK) else -1
    before = count()
    trial.end(trial.sandboxes.pop())
    if before >= 0:
        trial.check(eventually(lambda: count() <= before - 20, 10), f"{before} descriptors before the end, {count()} after")
    for _ in range(6):
        later = trial.api.create(template="python")
        trial.tried()
        trial.equal(trial.api.cell(later["id"], LOOK, timeout_seconds=30)["stdout"].strip(), "[]", "what a later sandbox finds")
        trial.api.delete(later["id"])
