"""LF-08: Become another program for ever.

Claim: A chain of execs is ended at its limit.
Technique: The interpreter replaces itself by one that replaces itself, and so on.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 2
ENDS = ("timed_out", "disconnected", "vanished", "exited", "crashed", "cpu_exceeded")


def inside():
    import os

    attack.say("chain", True)
    script = "exec /bin/sh /tmp/chain"
    open("/tmp/chain", "w").write(script)
    if os.fork() == 0:
        os.execv("/bin/sh", ["/bin/sh", "/tmp/chain"])
    os.execv("/bin/sh", ["/bin/sh", "/tmp/chain"])


def outside(trial):
    # The cell's own interpreter has gone; the sandbox takes another.
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
    trial.end(trial.sandboxes[0])
    trial.check(not trial.inhabitants(), "the chain goes on")
