"""FI-07: Leave a socket, a directory or a device where a file is expected.

Claim: Only files are read as files.
Technique: A bound socket, a directory, links and an open deleted file, through every operation.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import socket

    server = socket.socket(socket.AF_UNIX)
    server.bind("sock")
    server.listen()
    os.mkdir("folder")
    attack.say("things", sorted(os.listdir(".")))


def outside(trial):
    api, box = trial.api, trial.id
    for name, code in (("sock", "refused"), ("folder", "not_a_file"), ("missing", "file_not_found")):
        answer = api.get(box, name)
        trial.equal(answer.code, code, f"reading {name}")
    for name in ("sock", "missing"):
        answer = api.call("GET", api.files(box, path=name))
        trial.check(400 <= answer.status < 500, f"listing {name}: {answer.status}")
    trial.check(400 <= api.put(box, "folder", b"x").status < 500, "writing over a directory")
    trial.check(400 <= api.put(box, "sock/x", b"x").status < 500, "writing below a socket")
