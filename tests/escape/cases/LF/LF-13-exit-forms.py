"""LF-13: Leave in every way.

Claim: The end of code is reported as the kernel observed it, and a sandbox goes on.
Technique: sys.exit, os._exit, abort, SystemExit with text, a segmentation fault, and execution of nothing.
Source: -
Tiers: jail contained
"""

WAYS = {
    "import sys; sys.exit(3)": ("exited", 3),
    "import os; os._exit(0)": ("vanished", None),
    "import os; os._exit(7)": ("vanished", None),
    "import os; os.abort()": ("crashed", 134),
    "raise SystemExit('x')": ("exited", 1),
    "import ctypes; ctypes.string_at(0)": ("crashed", 139),
    "import os; os.kill(os.getpid(), 9)": ("crashed", 137),
    "import os; os.execv('/bin/true', ['true'])": (None, None),
}


def outside(trial):
    for code, (outcome, exit_code) in WAYS.items():
        cell = trial.api.cell(trial.id, code)
        trial.tried()
        trial.check(outcome in (None, cell["outcome"]), f"{code}: {cell['outcome']}, not {outcome}")
        trial.check(exit_code in (None, cell["exit_code"]), f"{code}: exit code {cell['exit_code']}, not {exit_code}")
        trial.check(cell["outcome"] not in ("out_of_memory", "timed_out", "ok"), f"{code}: told as {cell['outcome']}")
        trial.equal(trial.ask("print('on')"), "on", f"after {code}")
