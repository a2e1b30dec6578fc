"""XS-13: Get the user id of one who was there before.

Claim: Two sandboxes that live at the same time never have the same host id, and an id is not used again while anything of it is left.
Technique: Sandboxes come and go beside ones that stay; the host notes each one's id.
Source: -
Tiers: jail contained; without root there is one id for all, as the report says
"""


def outside(trial):
    kept = [trial.sandbox() for _ in range(4)]
    held = {trial.inhabitants(box)[0].uid for box in kept}
    seen = []
    for _ in range(60 if trial.long else 15):
        box = trial.sandbox()
        seen.append(trial.inhabitants(box)[0].uid)
        trial.end(box)
        trial.sandboxes.remove(box)
        trial.tried()
    if trial.enforced("user_id"):
        trial.equal(len(held), 4, "ids of sandboxes that live together")
        trial.equal(held & set(seen), set(), "ids that were given twice")
        trial.check(0 not in held | set(seen), "an id is root's")
    else:
        trial.equal(trial.sandboxes[0].containment["measures"]["user_id"]["state"], "partial", "what the report says")
