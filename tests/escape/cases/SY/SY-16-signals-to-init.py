"""SY-16: Kill the init by a pidfd.

Claim: Signals reach the own sandbox at most.
Technique: pidfd_open(1), pidfd_send_signal with every signal, process_mrelease, kill and tgkill.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    pidfd = attack.raw(434, 1, 0)
    attack.say("pidfd", pidfd)
    if isinstance(pidfd, int):
        attack.say("signals", {str(one): attack.raw(424, pidfd, one, 0, 0) for one in range(1, 65)})
        attack.call("process_mrelease", pidfd, 0)
    attack.say("kills", {str(one): attack.result_of(lambda s=one: os.kill(1, s)) for one in (9, 15, 19, 2, 11)})
    attack.say("alive", os.path.exists("/proc/1"))


def outside(trial):
    trial.equal(trial.found.get("alive"), True, "the init lives")
    trial.equal(trial.ask("print('still here')"), "still here", "afterwards")
