"""FS-06: Leave through a directory descriptor that was left open.

Claim: A guest has descriptors 0 to 3 and no other; none is a directory, and its directory is inside.
Technique: Lists its descriptors before it opens any, resolves each and opens ../../../../etc/shadow relative to it.
Source: CVE-2024-21626 (runc); bubblewrap 0.8 passes inherited descriptors on
Tiers: jail contained
"""


def inside():
    import os

    names = {}
    for name in os.listdir("/proc/self/fd"):
        # The descriptor of the listing itself is closed by now.
        if os.path.lexists(f"/proc/self/fd/{name}"):
            names[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    results = {}
    for number, target in names.items():
        for path in ("../../../../etc/shadow", "etc/shadow", "../" * 12 + attack.HOST["canaries"][0].lstrip("/")):
            results[f"{number} {path}"] = attack.result_of(lambda n=number, p=path: os.open(p, 0, dir_fd=n))
    attack.say("descriptors", names)
    attack.say("opens", results)
    attack.say("directory", [os.getcwd(), os.readlink("/proc/self/cwd")])


def outside(trial):
    names = trial.found.get("descriptors", {})
    # A cell that runs as a coroutine or threads may hold an event loop's own; they are no files.
    extra = {number: name for number, name in names.items() if int(number) > 3}
    allowed = ("anon_inode:", "socket:", "pipe:", "/proc/")
    trial.check(all(name.startswith(allowed) for name in extra.values()), f"descriptors: {names}")
    trial.check({"0", "1", "2", "3"} <= set(names), f"descriptors: {names}")
    trial.all_refused("opens", errors=("ENOTDIR", "ENOENT", "EACCES"))
    trial.equal(trial.found.get("directory"), ["/workspace", "/workspace"], "the directory")
