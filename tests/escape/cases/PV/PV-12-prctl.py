"""PV-12: Loosen oneself by prctl.

Claim: No option of prctl(2) gives rights back or changes what the kernel believes of a process.
Technique: Tries filters, memory maps, tracers, ambient capabilities, securebits, no_new_privs off, core scheduling and the subreaper.
Source: -
Tiers: jail contained
"""


def inside():
    table = {
        "PR_SET_SECCOMP off": (22, 0, 0),
        "PR_SET_SECCOMP strict": (22, 1, 0),
        "PR_SET_MM": (35, 1, 0),
        "PR_SET_MM_MAP": (35, 14, 0),
        "PR_SET_PTRACER": (0x59616D61, -1, 0),
        "PR_CAP_AMBIENT_RAISE": (47, 2, 12),
        "PR_SET_SECUREBITS": (28, 0, 0),
        "PR_SET_KEEPCAPS": (8, 1, 0),
        "PR_SET_NO_NEW_PRIVS off": (38, 0, 0),
        "PR_SCHED_CORE": (62, 1, 1),
        "PR_SET_TSC": (26, 2, 0),
        "PR_SET_IO_FLUSHER": (57, 1, 0),
        "PR_SET_SYSCALL_USER_DISPATCH": (59, 1, 0),
        "PR_CAPBSET_DROP": (24, 21, 0),
    }
    said = {name: attack.raw(157, option, one, two, 0, 0) for name, (option, one, two) in table.items()}
    attack.say("calls", said)
    fields = attack.status()
    attack.say("after", [fields["NoNewPrivs"], fields["Seccomp"], fields["CapEff"], fields["CapBnd"]])


def outside(trial):
    trial.all_refused(errors=("EPERM", "EINVAL", "ENOSYS", "ENODEV"))
    trial.equal(trial.found.get("after"), ["1", "2", "0" * 16, "0" * 16], "afterwards")
