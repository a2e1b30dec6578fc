"""NT-44: Keep a connection that is no longer allowed.

Claim: When rules are narrowed, connections and downloads that they no longer allow are closed at once, and names are no longer known.
Technique: A raw connection, a download, an intercepted download and a tunnel that are open while the owner takes their rules away.
Source: -
Tiers: jail contained
"""

ALLOW = ["api.far.test:25432/tcp", "api.far.test:28080/http", {"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}, "other.far.test:28443/tls"]
NEW = {"network": {"allow": ALLOW}}
DRIVEN = True
CLOSED_MAX = 2.0
"""Seconds; the rules are sent, applied and the end is seen by another process, on a busy machine."""


def inside():
    import socket
    import threading
    import time

    streams = {"raw": socket.create_connection(("api.far.test", 25432), 10), "plain": socket.create_connection(("api.far.test", 28080), 10)}
    streams["raw"].sendall(b"x")
    streams["plain"].sendall(attack.request("GET", "/endless", "api.far.test:28080"))
    streams["intercepted"] = attack.secure(socket.create_connection(("api.far.test", 28443), 10), "api.far.test")
    streams["intercepted"].sendall(attack.request("GET", "/endless", "api.far.test:28443"))
    streams["tunnel"] = attack.secure(attack.tunnel(b"other.far.test:28443"), "other.far.test")
    streams["tunnel"].sendall(attack.request("GET", "/endless", "other.far.test:28443"))
    ends = {}

    def read(name, stream):
        stream.settimeout(20)
        try:
            while stream.recv(4096):
                pass
            ends[name] = time.time()
        except TimeoutError:
            ends[name] = None
        except OSError:
            ends[name] = time.time()

    threads = [threading.Thread(target=read, args=one) for one in streams.items()]
    for thread in threads:
        thread.start()
    print("open", flush=True)
    for thread in threads:
        thread.join()
    attack.say("ends", ends)
    attack.say("again", [attack.reach("api.far.test", 25432, b"x"), attack.ask_dns(attack.question("api.far.test"))])


def outside(trial):
    import time

    from harness.trial import eventually

    cell = trial.start()
    path = f"/v1/sandboxes/{trial.id}/network"
    live = lambda: [one for one in trial.api.want(200, "GET", f"{path}/connections")["connections"] if one["state"] == "open"]
    trial.check(eventually(lambda: len(live()) >= 4 and len(trial.far.connections) >= 4), f"open: {live()}")
    time.sleep(0.3)
    narrowed = time.time()
    trial.equal(trial.api.call("PUT", path, {"allow": []}).status, 204, "the change")
    trial.wait(cell)
    for name, at in trial.found["ends"].items():
        trial.check(at is not None and at - narrowed < CLOSED_MAX, f"{name} was closed after {None if at is None else at - narrowed} s")
    trial.equal(trial.found["again"], ["no such name", [3, 0]], "afterwards")
