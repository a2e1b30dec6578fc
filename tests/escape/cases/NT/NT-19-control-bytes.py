"""NT-19: Hide a host behind control bytes.

Claim: A host with NUL or another control byte is malformed; it is never cut, cleaned or looked up.
Technique: NUL, CR, LF, TAB, DEL and high bytes in the targets of tunnels and requests, in Host and in DNS labels; SOCKS requests.
Source: Claude Code sandbox 2026 (v2.0.24-2.1.89)
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "api.far.test:28080/http"]}}
TIMEOUT = 60


def inside():
    marks = {"nul": b"\0", "cr": b"\r", "lf": b"\n", "tab": b"\t", "del": b"\x7f", "escape": b"\x1b", "high": b"\xff", "space": b" "}
    connects, gets, hosts, labels = {}, {}, {}, {}
    for name, mark in marks.items():
        for where, host in (("between", b"evil.far.test" + mark + b".api.far.test"), ("after", b"api.far.test" + mark + b".evil.far.test"), ("end", b"api.far.test" + mark)):
            connects[f"{name} {where}"] = attack.status_of(attack.ask_proxy(b"CONNECT " + host + b":28443 HTTP/1.1\r\nHost: x\r\n\r\n"))
            gets[f"{name} {where}"] = attack.status_of(attack.ask_proxy(b"GET http://" + host + b":28080/bad HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
            if name not in ("cr", "lf", "space", "tab"):
                hosts[f"{name} {where}"] = attack.status_of(attack.reach("api.far.test", 28080, b"GET /bad HTTP/1.1\r\nHost: " + host + b":28080\r\nConnection: close\r\n\r\n"))
        label = b"api" + mark
        labels[name] = attack.ask_dns(attack.question(bytes([len(label)]) + label + b"\3far\4test\0"), 1)
    attack.say("connect", connects)
    attack.say("get", gets)
    attack.say("host", hosts)
    attack.say("labels", labels)
    name = b"evil.far.test\0.api.far.test"
    attack.say("socks", [attack.ask_proxy(b"\5\1\0")[:1], attack.ask_proxy(b"\5\1\0\3" + bytes([len(name)]) + name + b"\x6f\x1b", 3)[:1]])


def outside(trial):
    for name in ("connect", "get", "host"):
        trial.all_refused(name, ("400", "403", "421"))
    trial.check(all(answer is None or answer == [1, 0] for answer in trial.found["labels"].values()), f"labels: {trial.found['labels']}")
    trial.check("\5" not in trial.found["socks"], "SOCKS was spoken")
    trial.equal((trial.far.connections, trial.far.seen), ([], []), "what arrived")
