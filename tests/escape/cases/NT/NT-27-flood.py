"""NT-27: Use the network up.

Claim: Connections, look-ups, names and bytes of a sandbox are bounded; floods, silent peers and readers that do not read cost others nothing.
Technique: Thousands of connections and look-ups, slow heads, large bodies that are not read, endless and malformed answers; beside a sandbox of another key that works.
Source: -
Tiers: jail bounded
"""

NEW = {"network": {"allow": ["api.far.test:25432/tcp", "api.far.test:28080/http", {"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}, "*.wild.far.test:28443/tls"], "limits": {"names": 50}}}
TIMEOUT = 100
BODY_MAX = 64 << 20


def inside():
    import socket
    import threading
    import time

    address = socket.gethostbyname("api.far.test")
    kept, refused = [], 0
    for _ in range(600):
        try:
            stream = socket.create_connection((address, 25432), 2)
            stream.settimeout(0.2)
            stream.sendall(b"x")
            if stream.recv(1) == b"x":
                kept.append(stream)
            else:
                refused += 1
        except OSError:
            refused += 1
    attack.say("connections", [len(kept), refused])
    for stream in kept:
        stream.close()
    codes = [attack.ask_dns(attack.question(f"n{number}.wild.far.test"), 1) for number in range(100)]
    attack.say("names", sum(code == [0, 1] for code in codes))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        for number in range(20000):
            datagram.sendto(attack.question(f"flood{number}.evil.far.test"), ("127.0.0.1", 53))
    time.sleep(2)
    readers = []
    for _ in range(20):
        stream = socket.create_connection((address, 28080), 5)
        stream.sendall(attack.request("GET", "/flood", "api.far.test:28080"))
        readers.append(stream)
    slow = [socket.create_connection(attack.PROXY, 5) for _ in range(20)]
    for stream in slow:
        stream.sendall(b"GET http://api.far.te")
    start = time.monotonic()
    for stream in slow:
        stream.settimeout(15)
        try:
            while stream.recv(4096):
                pass
        except OSError:
            pass
    attack.say("slow heads", time.monotonic() - start)
    for stream in readers:
        stream.close()
    time.sleep(1)
    attack.say("answers", {path: attack.status_of(attack.reach("api.far.test", 28080, attack.request("GET", path, "api.far.test:28080"))) for path in ("/head", "/garbage")})


WORK = """
import socket, time
stream = socket.create_connection(("api.far.test", 25432), 10)
slowest = 0
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    start = time.monotonic()
    stream.sendall(b"ping")
    if stream.recv(4) != b"ping": raise SystemExit("no answer")
    slowest = max(slowest, time.monotonic() - start)
    time.sleep(0.01)
print(slowest)
"""

DRIVEN = True


def outside(trial):
    worker = trial.server.holder("network worker")
    made = worker.create(template="python", network={"allow": ["api.far.test:25432/tcp"]})
    trial.finally_do(lambda: worker.delete(made["id"]))
    path = f"/v1/sandboxes/{made['id']}/cells"
    working = worker.want(202, "POST", path, {"code": WORK.format(seconds=15), "background": True, "timeout_seconds": 60})["id"]
    trial.run()
    kept, refused = trial.found["connections"]
    trial.check(0 < kept <= 64 and refused > 0, f"{kept} connections were kept, {refused} refused")
    trial.check(trial.found["names"] <= 50, f"{trial.found['names']} names")
    trial.check(trial.found["slow heads"] < 14, f"slow heads lasted {trial.found['slow heads']:.1f} s")
    trial.equal(trial.found["answers"], {"/head": "502", "/garbage": "502"}, "hostile answers")
    done = worker.want(200, "GET", f"{path}/{working}?wait=60")
    trial.check(done["outcome"] == "ok" and float(done["stdout"]) < 2, f"the worker: {done['outcome']} {done['stdout']}")
    usage = trial.api.want(200, "GET", f"/v1/sandboxes/{trial.id}/network")["usage"]
    trial.check(usage["limit_hit"], f"no limit was hit: {usage}")
