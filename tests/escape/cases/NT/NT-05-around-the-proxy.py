"""NT-05: Go around the names: raw addresses, other ports, other protocols.

Claim: What is not a connection to an allowed name and port has no route, is refused or is reset, at once.
Technique: TCP to public and private addresses, UDP and QUIC to allowed names, ICMP, raw and packet sockets, addresses of the synthetic range that stand for no name, ports that no rule names.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "api.far.test:25432/tcp"]}}
TIMEOUT = 60


def inside():
    import socket
    import time

    start = time.monotonic()
    addresses = [*attack.HOST["addresses"][1:], "1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "100.100.100.200"]
    attack.say("addresses", {f"{address} {port}": attack.reach(address, port, b"x") for address in addresses for port in (80, 443, 28443)})
    known = socket.gethostbyname("api.far.test")
    attack.say("ports", {port: attack.reach(known, port, b"x") for port in (22, 25, 6379, 28080, 28444, attack.HOST["tcp"])})
    attack.say("no name", {f"{address} {port}": attack.reach(address, port, b"x") for address in ("198.18.0.1", "198.18.0.200", "198.19.255.254", "127.0.0.1", "127.0.0.9") for port in (80, 443)})
    datagrams = {}
    for port in (443, 123, 28443, 25432):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.settimeout(1)
            one.connect((known, port))
            one.send(b"x")
            datagrams[port] = attack.result_of(lambda: one.recv(9))
    attack.say("datagrams", datagrams)
    kinds = {"icmp": (socket.AF_INET, socket.SOCK_DGRAM, 1), "raw": (socket.AF_INET, socket.SOCK_RAW, 1), "packet": (17, socket.SOCK_RAW, 0), "netlink": (16, socket.SOCK_RAW, 0), "sctp": (socket.AF_INET, socket.SOCK_STREAM, 132), "mptcp": (socket.AF_INET, socket.SOCK_STREAM, 262), "vsock": (40, socket.SOCK_STREAM, 0)}
    attack.say("sockets", {name: attack.result_of(lambda: socket.socket(*kind)) for name, kind in kinds.items()})
    attack.say("seconds", time.monotonic() - start)
    attack.say("control", attack.reach("api.far.test", 25432, b"x", 3)[:1])


def outside(trial):
    trial.all_refused("addresses", ("ENETUNREACH",))
    trial.all_refused("ports", ("ECONNREFUSED",))
    for name, end in trial.found["no name"].items():
        trial.check(end in ("ECONNREFUSED", "ECONNRESET", " ECONNRESET", " EPIPE", ""), f"no name {name}: {end!r}")
    trial.all_refused("datagrams", ("ECONNREFUSED",))
    trial.all_refused("sockets", ("EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"))
    trial.check(trial.found["seconds"] < 10, f"refusals took {trial.found['seconds']:.1f} s")
    trial.equal(trial.found["control"], "x", "the allowed connection")
    trial.equal(trial.far.connections, [25432], "what arrived")
