"""NT-15: Change the answer between check and connection.

Claim: The address that was checked is the one that is dialled; there is no second look-up in between, and each later one is checked anew.
Technique: A resolver whose answers have no life and turn from an allowed address to loopback, to the host's listener and to metadata with each question.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import time

    answers = []
    for _ in range(12):
        for name in ("flip.far.test", "flop.far.test"):
            answers.append(attack.status_of(attack.reach(name, 28080, attack.request("GET", "/", f"{name}:28080"))))
            answers.append(attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{name}:28080/", f"{name}:28080"))))
        answers.append(attack.reach("flop.far.test", attack.HOST["tcp"], b"x"))
    attack.say("answers", sorted(set(answers)))


def outside(trial):
    far = trial.far
    if not trial.check(far.dns, "the resolver needs root"):
        return
    far.dns.answers["flip.far.test"] = [[far.address], ["127.0.0.1"], [far.address], ["169.254.169.254"], ["10.0.0.1"]]
    far.dns.answers["flop.far.test"] = [["127.0.0.1"]]
    arguments = far.write_config("flip.toml", far.settings(f"{far.address}/32", hosts=False))
    with trial.own_server(pool="python=1", arguments=arguments, resolver=far.address) as server:
        from harness import case as cases

        api = server.holder("attacker")
        tcp = trial.host.told["tcp"]
        rules = [f"{name}.far.test:{port}" for name, port in (("flip", "28080/http"), ("flop", "28080/http"), ("flop", f"{tcp}/tcp"))]
        made = api.create(template="python", network={"allow": rules})
        cell = api.cell(made["id"], cases.program(trial.case.attack, trial.host.told), timeout_seconds=60)
        trial.hear(cell["stdout"])
        trial.check("200" in trial.found["answers"], f"the allowed address was not reached: {trial.found['answers']}")
        trial.check("403" in trial.found["answers"], f"no answer was refused: {trial.found['answers']}")
        trial.equal(set(far.connections), {28080}, "what arrived")
        # Once for each family; the answer is kept.
        trial.check(far.dns.asked.count("flip.far.test") <= 2, f"asked {far.dns.asked.count('flip.far.test')} times")
        addresses = {one["address"] for one in api.want(200, "GET", f"/v1/sandboxes/{made['id']}/network/connections")["connections"] if one["address"]}
        trial.check(all(one.startswith(f"{far.address}:") for one in addresses), f"dialled: {addresses}")
