"""LF-05: Keep the cell waiting by a child that holds its output.

Claim: A cell ends when its code ends, even if another process still holds its streams.
Technique: Starts a sleeping child that inherits stdout and stderr, and returns.
Source: reading until the end of the stream waits for the child
Tiers: jail bounded
"""

TIMEOUT = 30


def inside():
    import subprocess

    subprocess.Popen("sleep 300", shell=True)
    attack.say("done", True)


def outside(trial):
    # The child sleeps five minutes; an answer at all means that the server did not wait for it.
    trial.equal(trial.cell["outcome"], "ok", "the cell")
    trial.check(trial.cell["duration_ms"] < 20_000, f"it took {trial.cell['duration_ms']} ms")
    trial.equal(trial.ask("print('next')"), "next", "the next cell")
