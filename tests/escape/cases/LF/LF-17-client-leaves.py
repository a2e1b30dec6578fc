"""LF-17: Leave while the code runs.

Claim: A client that goes away leaves nothing that is without bounds: the cell ends at its limit and its place is free again.
Technique: Starts a stream, drops the connection in the middle, many times; then looks at what is counted.
Source: -
Tiers: jail bounded
"""


def outside(trial):
    import json
    import socket

    from harness.trial import eventually

    body = json.dumps({"code": "import time; time.sleep(1)", "timeout_seconds": 1}).encode()
    for number in range(6):
        accept = "text/event-stream" if number % 2 else "application/json"
        head = f"POST /v1/sandboxes/{trial.id}/cells HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {trial.api.key}\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(trial.server.address) as stream:
            stream.sendall(head.encode() + body)
            if number % 3 == 0:
                stream.recv(10)
        trial.tried()
    trial.equal(trial.ask("print('served')"), "served", "the next cell")

    def all_done():
        listing = trial.api.want(200, "GET", f"/v1/sandboxes/{trial.id}/cells")
        rows = listing.get("cells", listing) if isinstance(listing, dict) else listing
        return all(cell["state"] == "done" for cell in rows)

    # A request whose sender has left may be taken after one that was sent later.
    trial.check(eventually(all_done), "cells go on")
