"""LF-10: Hang in vfork.

Claim: A parent that waits in the kernel for its vfork child is ended like others.
Technique: The raw call; the child sleeps, so that the parent cannot be interrupted but by a kill.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 0.5
ENDS = ("timed_out",)


def inside():
    # vfork; the child calls pause for ever; the parent would return.
    code = bytes.fromhex("b83a0000000f0585c0750bb8220000000f05ebf79090c3")
    attack.say("hanging", True)
    attack.machine_code(code)()


def outside(trial):
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
    trial.end(trial.sandboxes[0])
    trial.check(not trial.inhabitants(), "the child lives on")
