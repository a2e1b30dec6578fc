"""NT-23: Change the protocol of a connection.

Claim: A request becomes something else only where a rule says so; TRACE and CONNECT inside a connection are refused.
Technique: Upgrades to h2c, WebSocket, TLS and a tunnel, extended CONNECT of HTTP/2, CONNECT and TRACE in intercepted connections, hosts that change the protocol without being asked.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": [{"host": "api.far.test", "ports": [28443], "protocol": "tls", "paths": ["/*"]}, "api.far.test:28080/http", {"host": "other.far.test", "ports": [28443], "protocol": "tls", "websocket": True}]}}
TIMEOUT = 60


def inside():
    # A refusal comes at once; what waits for more has nothing to say.
    attack.NETWORK_PATIENCE = 2
    import socket

    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
    for name, port, ask in (("tls", 28443, attack.ask_tls), ("plain", 28080, attack.reach)):
        own = f"api.far.test:{port}"
        results = {}
        for label, method, path, fields in (
            ("websocket", "GET", "/websocket", upgrade),
            ("h2c", "GET", "/h2c", ("Upgrade: h2c", "HTTP2-Settings: AAMAAABk")),
            ("tls", "GET", "/tls", ("Upgrade: TLS/1.3",)),
            ("unasked", "GET", "/websocket", ()),
            ("trace", "TRACE", "/bad", ()),
            ("connect", "CONNECT", "evil.far.test:28443", ()),
            ("connect to itself", "CONNECT", own, ()),
        ):
            data = attack.request(method, path, own, *fields)
            if fields:
                data = data.replace(b"Connection: close", b"Connection: Upgrade, HTTP2-Settings")
                data = data.replace(b"\r\n\r\n", b"\r\nX: y\r\n\r\n")
            stream_answer = ask("api.far.test", port, data) if label not in ("h2c", "tls") else ask("api.far.test", port, data + attack.request("GET", "/end", own))
            results[label] = attack.status_of(stream_answer)
        attack.say(name, results)
    stream = attack.secure(socket.create_connection(("api.far.test", 28443), 10), "api.far.test", ("h2",))
    stream.settimeout(2)
    head = attack.h2_field(":method", "CONNECT") + attack.h2_field(":protocol", "websocket") + attack.h2_field(":scheme", "https") + attack.h2_field(":path", "/bad") + attack.h2_field(":authority", "api.far.test:28443")
    plain = attack.h2_field(":method", "CONNECT") + attack.h2_field(":authority", "evil.far.test:28443")
    attack.say("h2", len(attack.exchange(stream, attack.H2_START + attack.h2_frame(1, 4, 1, head) + attack.h2_frame(1, 4, 3, plain) + attack.h2_frame(0, 0, 1, b"frame"))))
    stream = attack.secure(socket.create_connection(("other.far.test", 28443), 10), "other.far.test")
    stream.sendall(attack.request("GET", "/websocket", "other.far.test:28443", *upgrade).replace(b"close", b"Upgrade"))
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := stream.recv(1)):
        head += byte
    stream.sendall(b"frame")
    attack.say("control", [attack.status_of(head.decode()), stream.recv(5).decode()])


def outside(trial):
    for name in ("tls", "plain"):
        results = trial.found[name]
        trial.equal(results["websocket"], "403", f"{name} websocket")
        for label in ("h2c", "tls"):
            trial.equal(results[label], "200", f"{name} {label} goes on as HTTP/1.1")
        trial.equal(results["unasked"], "502", f"{name}: a change that was not asked for")
        trial.equal(results["trace"], "405", f"{name} trace")
        trial.check(results["connect"][:1] == "4" and results["connect to itself"][:1] == "4", f"{name}: {results}")
    trial.equal(trial.found["control"], ["101", "frame"], "a WebSocket that a rule allows")
    trial.check("/bad" not in trial.far.paths(), f"what arrived: {trial.far.paths()}")
    for one in trial.far.seen:
        if one["path"] in ("/h2c", "/tls"):
            trial.check("upgrade" not in dict(one["headers"]), f"an upgrade arrived: {one['headers']}")
