"""PR-06: Read facts about the machine in /proc.

Claim: /proc shows processes and nothing of the machine.
Technique: Opens every well-known file of /proc that is about the whole machine.
Source: -
Tiers: jail contained
"""


def inside():
    names = """kcore keys key-users kallsyms timer_list interrupts sched_debug diskstats modules cmdline version pressure
        acpi scsi iomem ioports meminfo cpuinfo stat loadavg uptime vmstat zoneinfo slabinfo pagetypeinfo buddyinfo swaps
        partitions devices misc filesystems locks latency_stats softirqs schedstat kmsg kpagecount kpageflags config.gz
        sys bus fs driver irq tty sysvipc dynamic_debug vmallocinfo execdomains crypto consoles cgroups bootconfig""".split()
    attack.say("reads", {name: attack.read_some("/proc/" + name) for name in names})


def outside(trial):
    trial.all_refused("reads", errors=("ENOENT",))
