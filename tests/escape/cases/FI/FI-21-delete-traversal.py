"""FI-21: Remove more than one's own.

Claim: Removing stays inside and follows no link.
Technique: Removes dot-dot, the places themselves, and trees that hold links to elsewhere.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    os.makedirs("t/u")
    os.symlink(attack.HOST["tree"], "t/out")
    os.symlink("/home/user", "t/home")
    os.symlink("/", "t/u/root")
    open("/home/user/mine", "w").write("x")
    attack.say("made", True)


def outside(trial):
    api, box = trial.api, trial.id
    for path in ("..", "../", "/", "/workspace/..", "/home", "/workspace/t/out/keep", "/workspace/t/u/root/etc", "/proc", "/dev/shm/.."):
        answer = api.call("DELETE", api.files(box, path=path))
        trial.check(400 <= answer.status < 500, f"{path}: {answer.status}")
    trial.equal(api.call("DELETE", api.files(box, path="t")).status, 204, "a tree with links")
    trial.equal(trial.ask("import os; print(os.path.exists('/home/user/mine'), os.path.exists('/workspace/t'))"), "True False", "inside")
