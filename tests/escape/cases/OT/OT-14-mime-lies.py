"""OT-14: Lie about what a result is.

Claim: A result is data of a bounded size under a type that is one; nothing of it reaches a header or another place.
Technique: Publishes a script as a picture, ten megabytes of HTML, types with line ends, and types that are none.
Source: -
Tiers: jail contained
"""

TEMPLATE = "code-interpreter"
ENDS = ("ok", "raised")


def inside():
    from IPython.display import display

    attack.say("publishing", True)
    for data in (
        {"image/png": "<script>alert(1)</script>"},
        {"text/html": "x" * (10 << 20)},
        {"text/plain\r\nX-Evil: 1": "x"},
        {"../../etc/passwd": "x"},
        {"a" * 10_000: "x"},
        {"": "x"},
        {"image/svg+xml": "<svg onload=alert(1)>"},
        {"application/json": float("nan")},
    ):
        display(data, raw=True)


def outside(trial):
    import re

    # A type is a key in JSON and nothing else: no path is made of it, so printable characters are enough.
    plain = re.compile(r"[\x21-\x7e]+")
    for result in trial.cell["results"]:
        for kind in result["data"]:
            trial.check(plain.fullmatch(kind) and len(kind) < 256, f"a type {kind[:60]!r}")
    answer = trial.api.call("GET", f"/v1/sandboxes/{trial.id}/cells/{trial.cell['id']}")
    trial.equal(answer.headers.get("content-type", "").split(";")[0], "application/json", "the answer's own type")
    trial.check("x-evil" not in answer.headers, "a header was made")
