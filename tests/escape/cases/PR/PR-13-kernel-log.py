"""PR-13: Read the kernel's log.

Claim: The kernel's log can be neither read nor written.
Technique: syslog(2) with each of its actions, glibc's klogctl, /dev/kmsg and /proc/kmsg.
Source: -
Tiers: jail contained
"""


def inside():
    import ctypes
    import os

    buffer = ctypes.create_string_buffer(4096)
    attack.calls({f"syslog {action}": ("syslog", action, buffer, 4096) for action in range(11)})
    ctypes.set_errno(0)
    attack.say("klogctl", [attack.libc.klogctl(3, buffer, 4096), ctypes.get_errno()])
    for path in ("/dev/kmsg", "/proc/kmsg"):
        attack.attempt(path, lambda: os.open(path, os.O_RDWR))
    attack.say("read", buffer.value.decode("latin-1"))


def outside(trial):
    trial.all_refused()
    trial.refused("/dev/kmsg", "/proc/kmsg", errors=("ENOENT",))
    trial.equal(trial.found.get("klogctl", [0])[0], -1, "klogctl")
    trial.equal(trial.found.get("read"), "", "what was read")
