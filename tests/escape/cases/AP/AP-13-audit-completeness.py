"""AP-13: Run code without an audit record.

Claim: A record of the start is written before the code runs, also if the server is killed before its end.
Technique: Kills the server while cells run; the next one is asked.
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    from harness.trial import eventually

    with trial.own_server(pool="python=1") as server:
        api = server.holder("runner")
        box = api.create()["id"]
        api.want(202, "POST", f"/v1/sandboxes/{box}/cells", {"code": "open('ran', 'w').close()\nwhile True: pass  # neverending", "background": True})
        ran = api.files(box, "/stat", path="ran")
        trial.check(eventually(lambda: api.call("GET", ran).status == 200), "the code does not run")
        server.kill()
        server.start()
        trial.tried()
        listing = server.admin.call("GET", f"/v1/audit?sandbox={box}")
        trial.check("neverending" in listing.text, f"the record: {listing.text[:300]}")
        trial.equal(server.admin.call("GET", "/v1/audit/verify").status, 200, "the chain")
