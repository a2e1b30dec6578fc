"""NT-25: Manage the proxy from inside.

Claim: The proxy has no routes of its own, and is not a way to itself, to its process or to its host.
Technique: Requests for usual management paths, tunnels to its own ports and to localhost by name and address, requests to the reserved domains.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28080/http"]}}


def inside():
    paths = {}
    for path in ("/", "/metrics", "/health", "/debug/pprof", "/v1/stats", "/proxy.pac", "/wpad.dat", "*"):
        for method in ("GET", "OPTIONS", "POST"):
            paths[f"{method} {path}"] = attack.status_of(attack.ask_proxy(attack.request(method, path, "127.0.0.1:3128")))
    attack.say("paths", paths)
    targets = ("127.0.0.1:3128", "127.0.0.1:53", "localhost:3128", "localhost:22", "proxy:3128", "silica.internal:80", "packages.silica.internal:80", "198.18.0.1:3128", "[::1]:3128")
    attack.say("tunnels", {target: attack.tunnel(target.encode()) for target in targets})
    attack.say("urls", {target: attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{target}/metrics", target))) for target in targets})


def outside(trial):
    trial.all_refused("paths", ("400", "403", "404", "405"))
    trial.all_refused("tunnels", ("403", "400"))
    trial.all_refused("urls", ("403", "400", "421"))
    trial.equal((trial.far.connections, trial.far.seen), ([], []), "what arrived")
