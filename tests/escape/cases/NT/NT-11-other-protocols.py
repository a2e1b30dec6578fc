"""NT-11: Speak something else than the rule says.

Claim: Where a rule says TLS, nothing but TLS goes up; where requests are read, nothing but HTTP does.
Technique: SSH, plain HTTP, STARTTLS and SOCKS to a port of TLS, directly and in tunnels; raw bytes in intercepted TLS and on a port of HTTP.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "api.far.test:28080/http", {"host": "other.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}]}}
TIMEOUT = 60


def inside():
    words = {"ssh": b"SSH-2.0-OpenSSH_9.9\r\n", "http": b"GET /bad HTTP/1.1\r\nHost: api.far.test:28443\r\n\r\n", "smtp": b"EHLO x\r\nSTARTTLS\r\n", "socks": b"\5\1\0", "server hello": b"\x16\3\3\0\4\2\0\0\0", "alert": b"\x15\3\3\0\2\2\x28", "h2": attack.H2_START}
    results = {}
    for name, data in words.items():
        results[f"direct {name}"] = attack.reach("api.far.test", 28443, data)
        results[f"tunnel {name}"] = attack.exchange(attack.tunnel(b"api.far.test:28443"), data)
    attack.say("tls", results)
    inner = {}
    for name in ("ssh", "smtp", "socks"):
        inner[f"inner {name}"] = attack.status_of(attack.ask_tls("other.far.test", 28443, words[name] + b"\r\n\r\n"))
        inner[f"plain {name}"] = attack.status_of(attack.reach("api.far.test", 28080, words[name] + b"\r\n\r\n"))
    attack.say("http", inner)


def outside(trial):
    for name, answer in trial.found["tls"].items():
        trial.check(answer.strip() in ("", "ECONNRESET", "EPIPE"), f"{name}: {answer[:60]!r}")
    trial.all_refused("http", ("400", "", " ECONNRESET"))
    trial.equal((trial.far.connections, trial.far.seen), ([], []), "what arrived")
