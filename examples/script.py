"""A first look, for `silica run`: the kind of code a model writes, in a place where it can do no harm.

    silica run examples/script.py
"""

import os
import platform
import socket

import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
sales = pd.DataFrame(
    {
        "month": pd.date_range("2025-01-01", periods=24, freq="MS"),
        "north": (100 + 3 * np.arange(24) + rng.normal(0, 8, 24)).round(1),
        "south": (140 + 12 * np.sin(np.arange(24) / 2) + rng.normal(0, 5, 24)).round(1),
    }
)
print(sales.set_index("month").resample("QS").mean().round(1).head(4))

# What this code can and cannot see.
print("user", os.getuid(), "on", platform.node(), "with files", sorted(os.listdir("/")))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print("network:", error)
try:
    open("/etc/shadow").read()
except OSError as error:
    print("host secrets:", error)

# The value of the last expression is shown, as in a notebook.
sales.describe().round(1)
