"""LF-18: Outlive the server.

Claim: When the server is killed nothing of its sandboxes is left, and the next one says what was lost.
Technique: SIGKILL to a server with busy sandboxes and daemons in them; a second start over the same directory.
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    from harness import host
    from harness.trial import eventually

    with trial.own_server(pool="python=2") as server:
        api = server.holder("attacker")
        count = 20 if trial.long else 6
        boxes = [api.create()["id"] for _ in range(count)]
        daemon = "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(1000)\nprint('up')"
        for box in boxes:
            trial.check(api.cell(box, daemon)["stdout"] == "up\n", "a daemon did not start")
            api.want(202, "POST", f"/v1/sandboxes/{box}/cells", {"code": "while True: pass", "background": True})
        family = {(process.pid, process.started) for process in host.below(server.pid)}
        trial.check(len(family) > count, "there is nothing to be left")
        server.kill()
        trial.tried(len(family))
        trial.check(eventually(lambda: not family & {(p.pid, p.started) for p in host.processes().values() if p.state != "Z"}), "processes outlive the server")
        server.start()
        api.address = server.address
        states = {api.want(200, "GET", f"/v1/sandboxes/{box}")["state"] for box in boxes}
        trial.equal(states, {"lost"}, "what became of the sandboxes")
        verdict = server.admin.call("GET", "/v1/audit/verify")
        trial.equal(verdict.status, 200, "the audit log")
