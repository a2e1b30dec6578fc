"""FI-13: Break out by an uploaded archive.

Claim: Whatever is in an archive lands in the directory it is unpacked into, or the archive is refused.
Technique: Tar entries with dot-dot, absolute names, links to be written through, hard links out, devices, FIFOs and set-id modes.
Source: zip slip, and every tar bug since
Tiers: jail contained
"""


def outside(trial):
    import io
    import tarfile

    def archive(*entries):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name, kind, link, content in entries:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o6777
                info.uid = info.gid = 0
                tar.addfile(info, io.BytesIO(content))
        return data.getvalue()

    tree = trial.host.told["tree"]
    file, link, hard, char, fifo, folder = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE
    evils = {
        "dot-dot": [("../../../x", file, "", b"x")],
        "absolute": [(f"{tree}/evil", file, "", b"x")],
        "through a link": [("l", link, tree, b""), ("l/evil", file, "", b"x")],
        "through a linked folder": [("d", folder, "", b""), ("d/l", link, "/tmp", b""), ("d/l/evil", file, "", b"x")],
        "hard link": [("h", hard, "/etc/passwd", b"")],
        "hard link to a link": [("s", link, f"{tree}/keep", b""), ("h", hard, "s", b""), ("h", file, "", b"evil")],
        "device": [("n", char, "", b"")],
        "fifo": [("p", fifo, "", b"")],
        "zero byte": [("a\0b", file, "", b"x")],
        "long": [("y" * 5000, file, "", b"x")],
    }
    for name, entries in evils.items():
        answer = trial.api.call("PUT", trial.api.files(trial.id, "/archive", path="/workspace"), archive(*entries))
        trial.tried()
        trial.check(answer.status < 500, f"{name}: {answer.status} {answer.text[:100]}")
    for data in (b"\0" * 1024, b"garbage" * 1000, archive(*evils["dot-dot"])[:700], b"", b"\x1f\x8b" + b"x" * 100):
        answer = trial.api.call("PUT", trial.api.files(trial.id, "/archive", path="/workspace"), data)
        trial.check(answer.status < 500, f"an archive that is none: {answer.status}")
    look = "import os, stat\nfor d, _, fs in os.walk('/workspace'):\n  for f in fs:\n    s = os.lstat(os.path.join(d, f))\n    if stat.S_ISREG(s.st_mode) and s.st_mode & 0o6000 or stat.S_ISCHR(s.st_mode): print('bad', f)\nprint(sorted(os.listdir('/tmp')))"
    trial.equal(trial.ask(look), "[]", "what is in /tmp and has set-id bits")
