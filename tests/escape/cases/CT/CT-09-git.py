"""CT-09: Use git.

Claim: Where the host has git, repositories are made, committed to, branched, merged and cloned.
Technique: init, commit, branch, merge, log, a local clone.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TIMEOUT = 60


def inside():
    import shutil
    import subprocess

    if not shutil.which("git"):
        attack.say("git", "absent")
        return
    script = """
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main r; cd r; echo 1 > f; git add f; git commit -qm one
git checkout -qb side; echo 2 > g; git add g; git commit -qm two
git checkout -q main; git merge -q side; git log --oneline | wc -l
cd ..; git clone -q r s; cat s/g
"""
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    attack.say("git", ran.stdout.split())
    attack.say("complained", ran.stderr[-300:])


def outside(trial):
    trial.check(trial.found.get("git") in ("absent", ["2", "2"]), f"git: {trial.found}")
