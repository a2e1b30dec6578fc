"""NT-40: Answer with hostile bytes on an exposed port.

Claim: A server in a sandbox that answers as it likes breaks its own answers only.
Technique: Endless, huge and malformed heads, changes of protocol that nobody asked for, second answers behind the first, short bodies, and bytes that are no HTTP.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"expose": [8000]}}

TIMEOUT = 60

PATHS = {
    "head": ("port_failed",),
    "fields": ("port_failed",),
    "name": ("port_failed",),
    "lengths": ("port_failed",),
    "both": ("port_failed", ""),
    "upgrade": ("port_failed",),
    "other-protocol": ("port_failed",),
    "ssh": ("port_failed",),
    "nothing": ("port_failed",),
    "nul": ("port_failed",),
    "short": ("",),
    "second": ("",),
}


def inside():
    import socket
    import threading

    ok = b"HTTP/1.1 200 OK\r\n"
    answers = {
        b"head": ok + b"a: " + b"x" * (4 << 20),
        b"fields": ok + b"".join(b"h%d: x\r\n" % number for number in range(5000)) + b"\r\n",
        b"name": ok + b"bad name: x\r\n\r\n",
        b"lengths": ok + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"both": ok + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"other-protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        b"ssh": b"SSH-2.0-OpenSSH_9.9\r\n",
        b"nothing": b"",
        b"nul": ok + b"a: \x00\r\n\r\n",
        b"short": ok + b"Content-Length: 99\r\n\r\nhello",
        b"second": ok + b"Content-Length: 1\r\n\r\n1" + ok + b"Content-Length: 1\r\n\r\n2",
    }
    listener = socket.create_server(("127.0.0.1", 8000))

    def serve():
        while True:
            connection, _ = listener.accept()
            name = connection.recv(65536).split(b" ")[1].strip(b"/")
            try:
                connection.sendall(answers[name])
            except OSError:
                pass
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    attack.say("answers", sorted(name.decode() for name in answers))


def outside(trial):
    path = f"/v1/sandboxes/{trial.id}/ports/8000"
    for name, codes in PATHS.items():
        for _ in range(2):
            request = f"GET {path}/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {trial.api.key}\r\nConnection: close\r\n\r\n"
            answer = trial.api.raw(request.encode())
            trial.tried()
            found = next((code for code in ("port_failed", "port_closed", "port_slow") if code.encode() in answer), "")
            trial.check(found in codes, f"{name}: {answer[:200]!r}")
            trial.check(b"HTTP/1.1 101" not in answer, f"{name} changed the protocol")
            trial.check(answer.count(b"HTTP/1.1 ") <= 1, f"{name} gave two answers")
    trial.equal(trial.api.call("GET", "/v1/stats").status, 200, "the server afterwards")
