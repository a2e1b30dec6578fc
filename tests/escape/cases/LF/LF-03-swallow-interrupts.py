"""LF-03: Swallow every interrupt.

Claim: Code that catches everything and ignores all signals is killed.
Technique: except BaseException in a loop, SIG_IGN for every signal that can be ignored, signals blocked.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 0.5
ENDS = ("timed_out",)


def inside():
    import signal

    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    attack.say("deaf", signal.getsignal(signal.SIGINT) == signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def outside(trial):
    trial.equal(trial.found.get("deaf"), True, "signals are ignored")
    trial.equal(trial.cell["kernel_state"], "restarted", "the interpreter")
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
