"""NT-30: Do the same over IPv6.

Claim: IPv6 gives no way out that IPv4 does not: no address beyond loopback is there, and literals and mapped forms are refused.
Technique: Sockets of IPv6 to public, unique, link-local, mapped and translated addresses, to the proxy and resolver over IPv6, AAAA look-ups, literals in tunnels and URLs.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28080/http", "api.far.test:28443/tls"]}}


def inside():
    import socket

    results = {}
    for address in ("2606:4700:4700::1111", "fd00:ec2::254", "fe80::1", "64:ff9b::808:808", "2002:101:101::1", "::ffff:1.1.1.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "ff02::1", "::1.1.1.1", "::1"):
        for port in (80, 443, attack.HOST["tcp6"]):
            one = socket.socket(socket.AF_INET6)
            one.settimeout(2)
            results[f"{address} {port}"] = attack.result_of(lambda: one.connect((address, port)))
            one.close()
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagram:
            datagram.settimeout(1)
            # A datagram to an own address is taken and answered by an error.
            results[f"udp {address}"] = attack.result_of(lambda: (datagram.connect((address, 443)), datagram.send(b"x"), datagram.send(b"x")))
    attack.say("sockets", results)
    attack.say("aaaa", attack.ask_dns(attack.question("api.far.test", 28)))
    attack.say("families", sorted({str(one[0]) for one in socket.getaddrinfo("api.far.test", 443)}))
    literals = ("[::1]", "[::]", "[2606:4700:4700::1111]", "[::ffff:1.1.1.1]", "[fe80::1%25lo]", "[64:ff9b::7f00:1]", "[fd00:ec2::254]")
    attack.say("tunnels", {literal: attack.tunnel(f"{literal}:443".encode()) for literal in literals})
    attack.say("urls", {literal: attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{literal}:28080/", f"{literal}:28080"))) for literal in literals})


def outside(trial):
    trial.all_refused("sockets", ("ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "EINVAL", "EHOSTUNREACH"))
    trial.equal((trial.found["aaaa"], trial.found["families"]), ([0, 0], ["2"]), "addresses of an allowed name")
    trial.all_refused("tunnels", ("403", "400"))
    trial.all_refused("urls", ("403", "400", "421"))
    trial.equal(trial.far.connections, [], "what arrived")
