"""FS-13: Open dangerous devices.

Claim: No device that reaches memory, disks, the kernel log, virtual machines or the network is there.
Technique: Opens each by its usual name, for reading and for writing.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    names = "kmsg mem port kmem vda sda nvme0n1 kvm fuse net/tun uinput input/event0 loop-control loop0 nvidia0 dri/card0 vhost-net vsock hpet rtc0 console tty0 ttyS0 cuse mapper/control btrfs-control userfaultfd hwrng sgx_enclave".split()  # fmt: skip
    results = {}
    for name in names:
        for flag in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            results[f"{name} {flag}"] = attack.result_of(lambda n=name, f=flag: os.open("/dev/" + n, f | os.O_NONBLOCK))
    attack.say("opens", results)


def outside(trial):
    trial.all_refused("opens", errors=("ENOENT",))
