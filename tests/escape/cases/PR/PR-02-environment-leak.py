"""PR-02: Read the environment and arguments of others.

Claim: A guest's environment is a short known list, and no process shows it another's.
Technique: Reads environ, cmdline and auxv of every process it sees, and its own variables.
Source: Judge0, Terrarium and others leaked keys this way
Tiers: jail contained
"""


def inside():
    import glob
    import os

    reads = {}
    for pattern in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", "/proc/[0-9]*/auxv"):
        for path in glob.glob(pattern):
            reads[path] = attack.read_some(path)
    attack.say("names", sorted(os.environ))
    attack.say("init", {name: reads.get(f"/proc/1/{name}") for name in ("environ", "auxv")})
    text = " ".join(reads.values())
    attack.say("words", [word for word in ("SILICA_HOME", "ESCAPE_CANARY", "SILICA_KEY", "/root/") if word in text])
    attack.say("command lines", [reads[path] for path in sorted(reads) if path.endswith("cmdline")])


def outside(trial):
    known = {"HOME", "LANG", "LD_LIBRARY_PATH", "MIMALLOC_ARENA_EAGER_COMMIT", "PATH", "PLOTLY_RENDERER", "PYTHONHASHSEED", "TERM", "USER", "MPLBACKEND"}
    trial.check(set(trial.found.get("names", ["?"])) <= known, f"variables: {trial.found.get('names')}")
    trial.equal(trial.found.get("words"), [], "words of the server's environment")
    trial.all_refused("init", errors=("EACCES", "EPERM", ""))
    text = str(trial.found.get("command lines"))
    trial.check(str(trial.server.home) not in text, f"host paths in command lines: {text}")
