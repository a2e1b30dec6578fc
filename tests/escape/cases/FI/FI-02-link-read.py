"""FI-02: Let the host read through a link.

Claim: A link is never followed, wherever it points.
Technique: Links to host files, to /etc, to itself and to a file inside; downloaded, and as an output of a run.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    for number, target in enumerate([*attack.HOST["canaries"], "/etc/passwd", "/proc/self/environ", "out0", "real"]):
        os.symlink(target, f"out{number}")
    open("real", "w").write("x")
    attack.say("links", len(os.listdir(".")) - 1)


def outside(trial):
    for number in range(trial.found.get("links", 0)):
        answer = trial.api.get(trial.id, f"out{number}")
        trial.check(400 <= answer.status < 500, f"out{number}: {answer.status} {answer.text[:80]}")
    code = f"import os; os.symlink({trial.host.told['canaries'][0]!r}, 'out')"
    run = trial.api.call("POST", "/v1/run", {"code": code, "outputs": ["/workspace/out"]})
    trial.check(run.status == 200 and "content_base64" not in str(run.json["outputs"]), f"a run's output: {run.text[-300:]}")
