"""FI-03: Let the host walk through a linked directory.

Claim: Links are not followed in the middle of a path either, and removing one removes only it.
Technique: A directory that is a link to /, to the host's canaries and to another own directory; read, written, listed, removed.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    os.mkdir("real")
    open("real/file", "w").write("x")
    for name, target in (("d", "/"), ("e", attack.HOST["tree"]), ("f", "real"), ("g", "/tmp")):
        os.symlink(target, name)
    attack.say("links", 4)


def outside(trial):
    api, box = trial.api, trial.id
    for name, path in (("d", "etc/passwd"), ("e", "keep"), ("f", "file"), ("g", "x")):
        for answer in (api.get(box, f"{name}/{path}"), api.put(box, f"{name}/evil", b"x"), api.call("DELETE", api.files(box, path=f"{name}/{path}"))):
            trial.check(400 <= answer.status < 500, f"{name}/{path}: {answer.status}")
        listing = api.call("GET", api.files(box, path=name, depth=3))
        trial.check(listing.status >= 400, f"listing {name}: {listing.status}")
        trial.equal(api.call("DELETE", api.files(box, path=name)).status, 204, f"removing {name}")
    trial.equal(trial.ask("import os; print(os.listdir('real'), os.path.exists('/etc/passwd'))"), "['file'] True", "what is left")
