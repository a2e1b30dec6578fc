"""CT-08: Use the shell.

Claim: Pipelines, redirections, here documents, job control and exit codes work as anywhere.
Technique: Pipes through sort and awk, background jobs, signals, tar and gzip there and back.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""


def inside():
    import subprocess

    script = """
set -e
seq 1 100 | sort -rn | head -3 | tr '\\n' ' '; echo
mkdir -p d && cp /etc/passwd d/p && tar czf d.tgz d && rm -r d && tar xzf d.tgz && wc -l < d/p | grep -c .
(sleep 100 & pid=$!; kill -TERM $pid; wait $pid) || echo "ended $?"
cat <<WORD | sed s/a/b/
a
WORD
find . -name p | xargs ls
"""
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    attack.say("said", ran.stdout.splitlines())
    attack.say("code", ran.returncode)
    attack.say("complained", ran.stderr[-200:])


def outside(trial):
    trial.equal(trial.found.get("said"), ["100 99 98 ", "1", "ended 143", "b", "./d/p"], f"what it says ({trial.found.get('complained')})")
    ran = trial.api.command(trial.id, "echo $((6 * 7)); exit 3")
    trial.equal((ran["stdout"], ran["exit_code"]), ("42\n", 3), "a command")
