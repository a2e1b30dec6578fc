"""RS-17: Leave zombies.

Claim: Children whose parents do not wait for them are reaped.
Technique: Grandchildren are orphaned by the hundred and exit; the table of processes is looked at from outside.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    for _ in range(300):
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.waitpid(child, 0)
    attack.say("orphans", 300)


def outside(trial):
    from harness import host
    from harness.trial import eventually

    namespace = trial.sandboxes[0].namespace
    count = lambda: sum(process.state == "Z" for process in host.in_namespace(namespace))
    trial.check(eventually(lambda: count() == 0), f"{count()} zombies")
    trial.equal(trial.ask("import os; print(sum(n.isdigit() for n in os.listdir('/proc')))"), "2", "processes inside")
