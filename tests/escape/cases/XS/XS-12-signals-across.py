"""XS-12: Signal another session's processes.

Claim: Processes of others have no number inside.
Technique: kill(2) with the numbers that the host and the victim itself use for the victim's processes, and their threads.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside(pids):
    import os

    attack.say("kills", {str(pid): attack.result_of(lambda p=pid: os.kill(p, 9)) for pid in pids if pid != os.getpid()})
    attack.say("tgkill", {str(pid): attack.raw(234, pid, pid, 9) for pid in pids if pid != os.getpid()})


def outside(trial):
    from harness import host

    pids = [process.pid for process in host.below(trial.server.pid)][:200]
    trial.run(f"inside({pids})")
    trial.check(trial.cell["outcome"] == "ok", f"the end: {trial.cell['outcome']}")
    trial.all_refused("kills", errors=("ESRCH",))
    trial.all_refused("tgkill", errors=("ESRCH",))
