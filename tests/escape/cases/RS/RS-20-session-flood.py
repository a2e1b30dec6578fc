"""RS-20: Make sandboxes without end.

Claim: A key has a number of sandboxes, and no more.
Technique: Creates beyond the quota, one after the other and at once.
Source: -
Tiers: jail bounded
"""

CROWDED = False


def outside(trial):
    from concurrent.futures import ThreadPoolExecutor

    with trial.own_server(settings={"quota.sandboxes": 5}, pool="python=2") as server:
        api, other = server.holder("attacker"), server.holder("other")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: api.call("POST", "/v1/sandboxes", {}), range(40)))
        trial.tried(len(answers))
        statuses = [answer.status for answer in answers]
        trial.equal((statuses.count(201), statuses.count(429)), (5, 35), "made and refused")
        refused = next(answer for answer in answers if answer.status == 429)
        trial.check("retry-after" in refused.headers and refused.code == "quota_exceeded", f"the refusal: {refused.text[:200]}")
        trial.equal(other.call("POST", "/v1/sandboxes", {}).status, 201, "another key")
