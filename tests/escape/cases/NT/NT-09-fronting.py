"""NT-09: Ask for another host inside an allowed connection.

Claim: Where requests are read, each must be for the host connected to; no other host or port is asked for.
Technique: Other hosts and ports in Host, in the target, in two Hosts, in none, in HTTP/1.0, and in :authority and host of HTTP/2; over TLS that is intercepted and over plain HTTP.
Source: microsandbox #709
Tiers: jail contained
"""

NEW = {"network": {"allow": [{"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}, "api.far.test:28080/http", "other.far.test:28080/http"]}}
TIMEOUT = 60


def inside():
    import socket

    end = "\r\nConnection: close\r\n\r\n"
    for name, port, ask in (("tls", 28443, attack.ask_tls), ("plain", 28080, attack.reach)):
        own = f"api.far.test:{port}"
        requests = {
            "host": f"GET /bad HTTP/1.1\r\nHost: evil.far.test:{port}",
            "another allowed host": f"GET /bad HTTP/1.1\r\nHost: other.far.test:{port}",
            "port": "GET /bad HTTP/1.1\r\nHost: api.far.test:1",
            "no port": "GET /bad HTTP/1.1\r\nHost: api.far.test",
            "target": f"GET https://evil.far.test:{port}/bad HTTP/1.1\r\nHost: evil.far.test:{port}",
            "target and host": f"GET http://evil.far.test:{port}/bad HTTP/1.1\r\nHost: {own}",
            "two hosts": f"GET /bad HTTP/1.1\r\nHost: {own}\r\nHost: evil.far.test",
            "two equal hosts": f"GET /bad HTTP/1.1\r\nHost: {own}\r\nHost: {own}",
            "no host": "GET /bad HTTP/1.1\r\nX: y",
            "old": f"GET /bad HTTP/1.0\r\nHost: {own}",
            "user": f"GET /bad HTTP/1.1\r\nHost: {own}@evil.far.test",
            "dot": f"GET /bad HTTP/1.1\r\nHost: api.far.test.:{port}",
        }
        attack.say(name, {label: attack.status_of(ask("api.far.test", port, (text + end).encode())) for label, text in requests.items()})
        attack.say(f"{name} control", attack.status_of(ask("api.far.test", port, attack.request("GET", f"/control-{name}", own))))
    stream = attack.secure(socket.create_connection(("api.far.test", 28443), 10), "api.far.test", ("h2",))
    attack.say("protocol", stream.selected_alpn_protocol())
    stream.settimeout(3)
    streams = [("evil.far.test:28443", "/bad"), ("api.far.test:1", "/bad"), ("other.far.test:28443", "/bad"), ("api.far.test:28443", "/bad", ("host", "evil.far.test:28443")), ("api.far.test:28443", "/control-h2")]
    frames = attack.H2_START + b"".join(attack.h2_request(1 + 2 * number, *one) for number, one in enumerate(streams))
    attack.say("h2 bytes", len(attack.exchange(stream, frames)))


def outside(trial):
    trial.all_refused("tls", ("421", "400", "403"))
    trial.all_refused("plain", ("421", "400", "403"))
    trial.equal((trial.found["tls control"], trial.found["plain control"]), ("200", "200"), "honest requests")
    trial.equal(trial.found["protocol"], "h2", "what was spoken")
    trial.equal(sorted(trial.far.paths()), ["/control-h2", "/control-plain", "/control-tls"], "what arrived")
