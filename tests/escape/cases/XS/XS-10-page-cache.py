"""XS-10: Ask what is in the page cache.

Claim: The calls that report whether a page is cached are refused; the clock is not, which is documented.
Technique: mincore, cachestat, readahead and preadv2 with RWF_NOWAIT on shared files.
Source: page cache attacks (2019)
Tiers: jail bounded; timing remains, see SECURITY.md
"""


def inside():
    import os

    descriptor = os.open(os.__file__, os.O_RDONLY)
    buffer = attack.ctypes.create_string_buffer(8192)
    attack.calls({"mincore": ("mincore", attack.ctypes.addressof(buffer) & ~4095, 4096, buffer), "cachestat": ("cachestat", descriptor, buffer, buffer, 0), "readahead": ("readahead", descriptor, 0, 4096)})


def outside(trial):
    trial.all_refused()
