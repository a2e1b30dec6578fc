"""XS-14: Guess a sandbox's id.

Claim: Ids are random, a wrong one reveals nothing, and a right one gives no access without its key.
Technique: Looks at the ids of many sandboxes for order and length; asks for neighbours of the victim's.
Source: -
Tiers: jail contained
"""


def outside(trial):
    ids = []
    for _ in range(10):
        ids.append(trial.api.create()["id"])
        trial.api.delete(ids[-1])
    tails = [one.removeprefix("sbx").removeprefix("_") for one in ids]
    trial.check(all(len(tail) >= 20 for tail in tails), f"ids: {ids[:2]}")
    shared = max(len([1 for a, b in zip(one, other) if a == b]) for one in tails for other in tails if one != other)
    trial.check(shared < len(tails[0]) * 0.7, f"ids are alike: {tails[:3]}")
    victim = trial.victim.id
    for position in range(4, len(victim), 3):
        for letter in "0af":
            guess = victim[:position] + letter + victim[position + 1 :]
            answer = trial.api.call("GET", f"/v1/sandboxes/{guess}")
            trial.tried()
            trial.equal(answer.status, 404, guess)
