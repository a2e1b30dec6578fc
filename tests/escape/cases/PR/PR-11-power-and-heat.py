"""PR-11: Measure power and heat.

Claim: Sensors of the machine cannot be read.
Technique: Opens energy counters, thermal zones, frequencies and model-specific registers.
Source: PLATYPUS (2020)
Tiers: jail contained
"""


def inside():
    paths = ["/sys/class/powercap/intel-rapl:0/energy_uj", "/sys/class/thermal/thermal_zone0/temp", "/dev/cpu/0/msr",
             "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "/sys/class/hwmon", "/sys/devices/system/cpu/vulnerabilities",
             "/dev/cpu/0/cpuid", "/sys/fs/resctrl", "/sys/kernel/debug", "/sys/kernel/tracing"]  # fmt: skip
    attack.say("reads", {path: attack.read_some(path) for path in paths})


def outside(trial):
    trial.all_refused("reads", errors=("ENOENT",))
