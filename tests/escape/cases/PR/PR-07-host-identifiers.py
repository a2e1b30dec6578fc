"""PR-07: Learn which machine this is.

Claim: Names and numbers that identify the host cannot be read inside.
Technique: Collects boot id, machine id, host name, network address, and uuid.getnode().
Source: a zygote cached the host's network address
Tiers: jail contained
"""


def inside():
    import os
    import socket
    import uuid

    attack.say("reads", {path: attack.read_some(path) for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/sys/class/dmi/id/product_uuid", "/var/lib/dbus/machine-id", "/etc/hostid")})
    attack.say("names", [socket.gethostname(), os.uname().nodename, open("/etc/hostname").read() if os.path.exists("/etc/hostname") else ""])
    attack.say("node", [uuid.getnode(), uuid.uuid1().node])


def outside(trial):
    import platform
    from pathlib import Path

    trial.all_refused("reads", errors=("ENOENT", "EISDIR", "EACCES", ""))
    host = platform.node()
    trial.check(host not in trial.found.get("names", [host]), f"names: {trial.found.get('names')}")
    addresses = {int(path.read_text().strip().replace(":", ""), 16) for path in Path("/sys/class/net").glob("*/address") if path.read_text().strip()}
    found = set(trial.found.get("node", [0]))
    trial.check(found and not found & (addresses | {0}), "a network address of the host is known inside")
