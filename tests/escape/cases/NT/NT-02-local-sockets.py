"""NT-02: Reach local sockets of the host.

Claim: No socket of the host, by path or by abstract name, can be connected to.
Technique: The host's canary sockets by their names, and the usual ones of Docker, D-Bus, systemd and the journal.
Source: -
Tiers: jail contained
"""


def inside():
    import socket

    results = {}
    for address in (attack.HOST["unix"], attack.HOST["abstract"], "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket", "/dev/log", "/run/containerd/containerd.sock", "\0/tmp/.X11-unix/X0", "/tmp/.X11-unix/X0"):
        one = socket.socket(socket.AF_UNIX)
        results[repr(address)] = attack.result_of(lambda: one.connect(address))
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    results["datagram"] = attack.result_of(lambda: datagram.sendto(b"x", attack.HOST["abstract_datagram"]))
    attack.say("connects", results)


def outside(trial):
    trial.all_refused("connects", errors=("ENOENT", "ECONNREFUSED", "EPERM", "EACCES"))
