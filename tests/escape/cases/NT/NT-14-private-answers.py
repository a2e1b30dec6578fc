"""NT-14: Point an allowed name at an address that is forbidden.

Claim: The address that a name leads to is judged after it is looked up, in every form and with all answers; a forbidden one is not dialled.
Technique: Allowed names that lead to loopback, private, shared, metadata, synthetic, mapped, translated, multicast and other addresses, by tunnel, by URL and without the proxy; by the host's resolver also with one bad answer of many.
Source: -
Tiers: jail contained
"""

NAMES = ("ten", "lan", "docker", "cgnat", "meta", "azure", "oracle", "range", "zero", "loop", "six", "any", "mapped", "mapped-loop", "nat64", "six-to-four", "link", "unique", "multi", "broad")
RULES = [f"{name}.far.test:{port}" for name in NAMES for port in ("28443/tls", "28080/http", "25432/tcp")]
NEW = {"network": {"allow": RULES}}
TIMEOUT = 100
MIXED = {"mixed.far.test": ["93.184.215.14", "10.0.0.9"], "mixed6.far.test": ["93.184.215.14", "::1"], "many.far.test": [*(f"93.184.215.{last}" for last in range(20)), "169.254.169.254"], "scope.far.test": ["fe80::1", "ff02::1"]}


def inside(names=None):
    names = names or list(attack.HOST["far"]["hostile"])
    attack.say("connect", {name: attack.tunnel(f"{name}:28443".encode()) for name in names})
    attack.say("get", {name: attack.ask_proxy(attack.request("GET", f"http://{name}:28080/", f"{name}:28080")) for name in names})
    attack.say("direct", {name: attack.reach(name, 25432, b"x") for name in names})


def judge(trial, count):
    trial.equal(len(trial.found["connect"]), count, "names that were tried")
    trial.all_refused("connect", ("403",))
    for name, answer in trial.found["get"].items():
        trial.check(answer.startswith("HTTP/1.1 403") and "forbidden_address" in answer, f"{name}: {answer[-200:]}")
    trial.all_refused("direct", ("", " ECONNRESET", " EPIPE", "ECONNRESET"))
    trial.equal(trial.far.connections, [], "what arrived")


def outside(trial):
    judge(trial, len(NAMES))
    far = trial.far
    if not far.dns:
        return
    far.dns.answers.update({name: [addresses] for name, addresses in MIXED.items()})
    arguments = far.write_config("mixed.toml", far.settings(f"{far.address}/32", hosts=False))
    with trial.own_server(pool="python=1", arguments=arguments, resolver=far.address) as server:
        from harness import case as cases

        api = server.holder("attacker")
        rules = [f"{name}:{port}" for name in MIXED for port in ("28443/tls", "28080/http", "25432/tcp")]
        made = api.create(template="python", network={"allow": rules})
        cell = api.cell(made["id"], cases.program(trial.case.attack, trial.host.told, f"inside({list(MIXED)})"), timeout_seconds=100)
        trial.hear(cell["stdout"])
        judge(trial, len(MIXED))
        trial.check(set(MIXED) <= set(far.dns.asked), f"the resolver was asked {set(far.dns.asked)}")
