"""NT-01: Reach the network.

Claim: There is no network: not the host, not the neighbours, not the world.
Technique: Connects and sends to public addresses, the host's own, gateways, metadata addresses and loopback, over TCP and UDP, IPv4 and IPv6.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60


def inside():
    import socket

    addresses = [*attack.HOST["addresses"], "127.0.0.2", "0.0.0.0", "1.1.1.1", "8.8.8.8", "169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "255.255.255.255", "224.0.0.251"]
    results = {}
    for address in addresses:
        for port in (attack.HOST["tcp"], 53, 80, 443):
            one = socket.socket()
            one.settimeout(1)
            results[f"tcp {address} {port}"] = attack.result_of(lambda: one.connect((address, port)))
            one.close()
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagram.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if not address.startswith(("127.", "0.")):
            results[f"udp {address}"] = attack.result_of(lambda: datagram.sendto(b"x", (address, attack.HOST["udp"])))
        else:
            # Loopback takes any datagram; whether the host's listener hears it is looked at there.
            datagram.sendto(b"x", (address, attack.HOST["udp"]))
    for address in ("::1", "2606:4700:4700::1111", "fe80::1%lo", "::ffff:127.0.0.1", "ff02::1"):
        one = socket.socket(socket.AF_INET6)
        one.settimeout(1)
        results[f"tcp6 {address}"] = attack.result_of(lambda: one.connect((address, attack.HOST["tcp6"])))
    results["name"] = attack.result_of(lambda: socket.getaddrinfo("example.com", 80))
    attack.say("reaches", results)


def outside(trial):
    reaches = trial.found.get("reaches", {})
    trial.check(len(reaches) > 40, "too little was tried")
    trial.equal({name for name, end in reaches.items() if end == "ok"}, set(), "what was reached")
