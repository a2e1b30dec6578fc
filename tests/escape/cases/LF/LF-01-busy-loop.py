"""LF-01: Run for ever.

Claim: A cell that does not end is ended at its limit, and says so.
Technique: A busy loop with a limit of one second on the clock.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 1
ENDS = ("timed_out",)


def inside():
    attack.say("looping", True)
    while True:
        pass


def outside(trial):
    trial.equal(trial.cell["limits_hit"][0]["limit"], "wall", "the limit that was hit")
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
