"""SE-18: Use the placeholder of another sandbox.

Claim: A placeholder is of its sandbox: that of another or an ended one, or a guessed one, stands for nothing.
Technique: Placeholders of a living and an ended sandbox of the same key and of another key, and forged ones, sent to the bound host.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside(placeholders):
    import os

    own = "api.far.test:28443"
    for placeholder in placeholders:
        attack.ask_tls("api.far.test", 28443, attack.request("GET", "/replayed", own, f"Authorization: Bearer {placeholder}"))
    attack.say("sent", len(placeholders))
    attack.say("control", attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("GET", "/own", own, f"Authorization: Bearer {os.environ['API_KEY']}"))))


def outside(trial):
    read = "import os; print(os.environ['API_KEY'])"
    value = trial.secret("replay", env="API_KEY")
    other = trial.server.holder("another")
    foreign_value = trial.secret("replay", other, env="API_KEY")
    network = {"secrets": ["replay"]}
    trial.sandbox(network=network)
    living = trial.sandbox(network=network)
    ended = trial.sandbox(network=network)
    placeholders = [trial.ask(read, living.id), trial.ask(read, ended.id)]
    trial.end(trial.sandboxes.pop())
    foreign = other.create(template="python", network=network)
    trial.finally_do(lambda: other.delete(foreign["id"]))
    placeholders.append(other.cell(foreign["id"], read)["stdout"].strip())
    own = trial.ask(read)
    trial.equal(len({own, *placeholders}), 4, "different placeholders")
    placeholders += [own[:-1], own[:-1] + ("0" if own[-1] != "0" else "1"), own.upper(), "silica_secret_replay_" + "0" * 16]
    trial.run(f"inside({placeholders})")
    trial.equal((trial.found["sent"], trial.found["control"]), (7, "200"), "what was tried")
    trial.equal([one["path"] for one in trial.far.seen if value in str(one)], ["/own"], "requests with the value")
    trial.check(foreign_value not in trial.far.text(), "another key's value arrived")
