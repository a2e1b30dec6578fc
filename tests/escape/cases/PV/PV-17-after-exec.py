"""PV-17: Be free after exec or with a descriptor that was handed over.

Claim: The restrictions of a process hold for its children, the programs they exec, and the processes they send descriptors to.
Technique: A program without libc made of machine code tries unshare and mount; a descriptor goes round by SCM_RIGHTS and is used in a directory it should not reach.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import socket
    import subprocess

    # unshare(CLONE_NEWUSER), then exit with minus its result: an ELF file of one header and 30 bytes of code.
    code = bytes.fromhex("bf00000010" "b810010000" "0f05" "89c7" "f7df" "b83c000000" "0f05")
    entry, size = 0x400078, 0x78 + len(code)
    head = attack.struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = attack.struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, size, size, 0x1000)
    with open("bare", "wb") as file:
        file.write(head + segment + code)
    os.chmod("bare", 0o755)
    attack.say("bare", subprocess.run(["./bare"]).returncode)
    one, other = socket.socketpair()
    child = os.fork()
    if child == 0:
        _, descriptors, _, _ = socket.recv_fds(other, 1, 4)
        results = [attack.result_of(lambda d=d: os.open("escaped", os.O_WRONLY | os.O_CREAT, dir_fd=d)) for d in descriptors]
        os.write(1, b"")
        other.send(",".join(results).encode())
        os._exit(0)
    folders = [os.open(path, os.O_RDONLY) for path in ("/", "/usr", "/etc")]
    socket.send_fds(one, [b"x"], folders)
    os.waitpid(child, 0)
    attack.say("handed over", one.recv(1000).decode().split(","))


def outside(trial):
    trial.equal(trial.found.get("bare"), 1, "a bare program's unshare (1 is EPERM)")
    trial.equal(trial.found.get("handed over"), ["EROFS"] * 3, "through descriptors that went round")
