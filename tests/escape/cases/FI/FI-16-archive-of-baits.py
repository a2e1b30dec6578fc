"""FI-16: Have the server pack what it should not.

Claim: An archive of a hostile directory holds its own entries, links as links, and ends.
Technique: Links out, FIFOs, sockets, names with line ends and dot-dots in them, loops, and a file without permissions.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import socket

    os.makedirs("a/b")
    os.symlink(attack.HOST["tree"], "a/out")
    os.symlink("../..", "a/b/loop")
    os.mkfifo("a/pipe")
    socket.socket(socket.AF_UNIX).bind("a/sock")
    for name in ("a/..evil", "a/line\nbreak", "a/back\\slash", "a/\udcff".encode("utf-8", "surrogateescape")):
        open(name, "w").write("x")
    open("a/closed", "w").write("x")
    os.chmod("a/closed", 0)
    attack.say("made", len(os.listdir("a")))


def outside(trial):
    import io
    import tarfile

    answer = trial.api.call("GET", trial.api.files(trial.id, "/archive", path="a"), patience=30)
    trial.equal(answer.status, 200, "the archive")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        members = tar.getmembers()
    trial.check(len(members) < 30, f"{len(members)} entries")
    for member in members:
        trial.check(not member.name.startswith("/") and ".." not in member.name.split("/"), f"an entry named {member.name!r}")
        trial.check(member.isfile() or member.isdir() or member.issym(), f"an entry of type {member.type!r}")
        trial.check(member.uid != 0 or member.mode & 0o6000 == 0, f"{member.name!r} has {member.mode:o}")
