"""CT-03: Draw with matplotlib.

Claim: Figures are drawn, saved in every format and shown as results.
Technique: PNG, SVG and PDF files, and a figure as the result of a cell.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TEMPLATE = "code-interpreter"
TIMEOUT = 60


def inside():
    import os

    import matplotlib.pyplot as plt

    plt.plot([1, 4, 9])
    plt.title("squares")
    for kind in ("png", "svg", "pdf"):
        plt.savefig(f"x.{kind}")
        attack.say(kind, os.path.getsize(f"x.{kind}") > 1000)
    plt.show()


def outside(trial):
    trial.equal(trial.found, {"png": True, "svg": True, "pdf": True}, "files")
    kinds = {kind for result in trial.cell["results"] for kind in result["data"]}
    trial.check("image/png" in kinds, f"results: {kinds}")
