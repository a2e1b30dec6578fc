"""NT-26: Reach the server's own API through the network.

Claim: The server's port is never reached from a sandbox, also where the operator allows its range, and whatever name leads there.
Technique: Names and ranges that lead to the server's address, with rules for its port, by tunnel, by URL, over TLS and raw; loopback allowed by the operator.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside(port):
    answers = {}
    for name in ("loop.far.test", "mapped-loop.far.test", "zero.far.test", "self.far.test", "127.0.0.1", "127.0.0.7"):
        answers[f"{name} tunnel"] = attack.tunnel(f"{name}:{port}".encode())
        answers[f"{name} get"] = attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{name}:{port}/v1/health", f"{name}:{port}")))
        answers[f"{name} direct"] = attack.reach(name, port, attack.request("GET", "/v1/health", f"{name}:{port}"))[:60]
    attack.say("answers", {name: end if isinstance(end, str) else "a tunnel" for name, end in answers.items()})
    attack.say("control", attack.reach("api.far.test", 28080, attack.request("GET", "/", "api.far.test:28080"))[9:12])


def outside(trial):
    from harness import case as cases

    far = trial.far
    text = far.settings("127.0.0.0/8") + '"self.far.test" = "127.0.0.9"\n'
    with trial.own_server(pool="python=1", arguments=far.write_config("own.toml", text)) as server:
        api = server.holder("attacker")
        port = server.address[1]
        names = ("loop.far.test", "mapped-loop.far.test", "zero.far.test", "self.far.test")
        rules = [f"{name}:{port}/tcp" for name in names] + [{"cidr": "127.0.0.0/8", "ports": [port], "protocol": "tcp"}, "api.far.test:28080/http"]
        made = api.create(template="python", network={"allow": rules})
        cell = api.cell(made["id"], cases.program(trial.case.attack, trial.host.told, f"inside({port})"), timeout_seconds=60)
        trial.hear(cell["stdout"])
        for name, end in trial.found["answers"].items():
            # Loopback is the sandbox's own; other names and addresses are refused or lead where nothing listens.
            trial.check(end.startswith(("403", "421", "502", "ECONNREFUSED", "ECONNRESET", " ECONNRESET", "no such name", "a tunnel")) or end == "", f"{name}: {end!r}")
        trial.equal(trial.found["control"], "200", "an allowed host in the same range")
        requests = [line for line in server.log().splitlines() if b"/v1/health" in line]
        trial.equal(requests, [], "requests that the server logged")
