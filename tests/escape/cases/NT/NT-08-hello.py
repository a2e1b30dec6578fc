"""NT-08: Name another host in the hello than the one connected to.

Claim: The hello names the host of the tunnel or address, or the connection ends before a byte has gone up.
Technique: Hellos that name a host that is not allowed, another allowed host, none, a name with a dot, hellos that do not end; in tunnels and without the proxy; and a hello that comes byte by byte.
Source: gh-aw-firewall #8878
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "other.far.test:28443/tls"]}}
TIMEOUT = 60


def inside():
    import socket
    import ssl
    import time

    def hello(name):
        """The first bytes that a client sends."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = context.wrap_bio(incoming, outgoing, server_hostname=name)
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return outgoing.read()

    ways = {"direct": lambda: socket.create_connection(("api.far.test", 28443), 10), "tunnel": lambda: attack.tunnel(b"api.far.test:28443")}
    results = {}
    for way, connect in ways.items():
        for name in ("evil.far.test", "other.far.test", None, "api.far.test.evil.test", "xapi.far.test", "far.test"):
            results[f"{way} {name}"] = attack.exchange(connect(), hello(name))
        whole = hello("api.far.test")
        long = whole[:6] + b"\x03\x0d\x40" + whole[9:] + b"\0" * 90000
        results[f"{way} too long"] = attack.exchange(connect(), long)
        start = time.monotonic()
        results[f"{way} unfinished"] = attack.exchange(connect(), whole[:-1])
        attack.say(f"{way} seconds", time.monotonic() - start)
    attack.say("hellos", results)
    stream = ways["direct"]()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in whole:
        stream.sendall(bytes([byte]))
    attack.say("byte by byte", stream.recv(1).hex())


def outside(trial):
    closed = ("", " ECONNRESET", " EPIPE")
    trial.all_refused("hellos", closed)
    for way in ("direct", "tunnel"):
        trial.check(3 < trial.found[f"{way} seconds"] < 9, f"an unfinished hello took {trial.found[f'{way} seconds']:.1f} s")
    trial.equal(trial.found["byte by byte"], "16", "an honest hello in pieces")
    trial.equal(trial.far.connections, [28443], "connections that arrived")
    trial.equal(trial.far.seen, [], "requests that arrived")
