"""SY-05: Use calls that kernel exploits are made of.

Claim: None of them is there.
Technique: bpf, perf_event_open, userfaultfd, fanotify_init, quotactl, kexec, modules, reboot, swap, acct, ports, LDT and others, by number.
Source: -
Tiers: jail contained
"""


def inside():
    names = """bpf perf_event_open userfaultfd fanotify_init quotactl quotactl_fd kexec_load kexec_file_load init_module
        finit_module delete_module reboot swapon swapoff acct iopl ioperm modify_ldt lookup_dcookie vhangup uselib ustat
        remap_file_pages memfd_secret landlock_create_ruleset map_shadow_stack sethostname setdomainname seccomp kcmp
        inotify_init inotify_init1 process_madvise pkey_mprotect _sysctl""".split()
    attack.calls({name: (name, 0, 0, 0, 0, 0, 0) for name in names})


def outside(trial):
    trial.all_refused()
