"""SY-09: Move pages of shared files into pipes and sockets.

Claim: The calls through which recent attacks wrote to the page cache are not there.
Technique: splice, tee, vmsplice, sendfile and copy_file_range from a file of the template, plain and with a socket.
Source: Dirty Pipe, Copy Fail (CVE-2026-31431), Dirty Frag (CVE-2026-43284), Fragnesia (CVE-2026-46300)
Tiers: jail contained
"""


def inside():
    import os
    import socket

    source = os.open("/etc/passwd", os.O_RDONLY)
    reader, writer = os.pipe()
    _, other = os.pipe()
    one, two = socket.socketpair()
    out = os.open("copy", os.O_RDWR | os.O_CREAT)
    buffer = attack.ctypes.create_string_buffer(b"x" * 4096)
    vector = attack.ctypes.create_string_buffer(attack.struct.pack("<QQ", attack.ctypes.addressof(buffer), 4096))
    attack.calls(
        {
            "splice to a pipe": ("splice", source, 0, writer, 0, 1, 0),
            "splice to a socket": ("splice", reader, 0, one.fileno(), 0, 1, 0),
            "tee": ("tee", reader, other, 1, 0),
            "vmsplice": ("vmsplice", writer, vector, 1, 8),
            "sendfile to a socket": ("sendfile", one.fileno(), source, 0, 10),
            "sendfile to a file": ("sendfile", out, source, 0, 10),
            "copy_file_range": ("copy_file_range", source, 0, out, 0, 10, 0),
        }
    )
    attack.attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET))


def outside(trial):
    trial.all_refused()
    trial.refused("alg", errors=("EAFNOSUPPORT", "EPERM"))
