"""SY-19: Move memory between nodes.

Claim: The calls that place memory are refused, and numerical libraries work without them.
Technique: mbind, set_mempolicy, move_pages and migrate_pages; then numpy multiplies matrices.
Source: -
Tiers: jail contained
"""

TEMPLATE = "code-interpreter"


def inside():
    import os

    pages = attack.ctypes.create_string_buffer(64)
    attack.calls({"mbind": ("mbind", 0, 4096, 2, pages, 64, 0), "set_mempolicy": ("set_mempolicy", 2, pages, 64), "move_pages": ("move_pages", 1, 1, pages, pages, pages, 0), "migrate_pages": ("migrate_pages", os.getpid(), 64, pages, pages)})
    import numpy

    attack.say("product", float((numpy.ones((200, 200)) @ numpy.ones((200, 200))).sum()))


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("product"), 8_000_000.0, "numpy's product")
