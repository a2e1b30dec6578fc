"""AP-10: Hold streams and read nothing.

Claim: A client that does not read holds up itself; connections are bounded.
Technique: Many event streams on a flooding cell that are never read, and many connections that say nothing.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 3


def inside():
    import os

    attack.say("flooding", True)
    while True:
        os.write(1, b"A" * 65536)


DRIVEN = True


def outside(trial):
    import socket

    cell = trial.start()
    trial.tried()
    streams = []
    for number in range(60):
        stream = socket.create_connection(trial.server.address, timeout=5)
        if number % 2:
            stream.sendall(f"GET /v1/sandboxes/{trial.id}/cells/{cell}/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {trial.api.key}\r\n\r\n".encode())
        streams.append(stream)
    trial.finally_do(lambda: [stream.close() for stream in streams])
    trial.equal(trial.victim._cell("print('served')"), "served", "another session meanwhile")
    memory = trial.server.memory_bytes()
    trial.check(memory < 1 << 30, f"the server has {memory >> 20} MiB")
    for stream in streams:
        stream.close()
    trial.api.delete(trial.id)
