"""PR-04: Change settings of the kernel.

Claim: No setting of the host's kernel can be reached.
Technique: Writes to core_pattern, modprobe, sysrq-trigger, the namespace limits and others below /proc/sys and /proc.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
             "/proc/sys/user/max_user_namespaces", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
             "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/randomize_va_space", "/proc/sys/net/ipv4/ip_forward",
             "/proc/irq/0/smp_affinity", "/proc/bus/pci", "/proc/acpi/wakeup", "/proc/mtrr", "/proc/self/uid_map",
             "/proc/self/gid_map", "/proc/self/setgroups", "/proc/self/net/../../../sys/kernel/core_pattern"]  # fmt: skip
    results = {path: attack.result_of(lambda p=path: os.write(os.open(p, os.O_WRONLY), b"1\n")) for path in paths}
    attack.say("writes", results)


def outside(trial):
    trial.all_refused("writes", errors=("ENOENT", "EACCES", "EROFS", "EPERM", "EISDIR"))
