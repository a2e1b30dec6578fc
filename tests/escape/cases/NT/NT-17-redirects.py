"""NT-17: Be redirected to what is forbidden.

Claim: A redirect is passed on and never followed by the proxy; the request that follows it is judged like any other.
Technique: An allowed host that redirects to metadata, loopback, the server itself and a host that is not allowed, over plain and intercepted HTTP; a client that follows.
Source: Open WebUI CVE-2026-45401
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28080/http", {"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}]}}
TIMEOUT = 60


def inside():
    import urllib.error
    import urllib.request

    targets = ("http://169.254.169.254/latest/meta-data/", f"http://127.0.0.1:{attack.HOST['tcp']}/", "http://evil.far.test:28080/stolen", "https://evil.far.test:28443/stolen", "http://[::1]:80/", "http://loop.far.test:28080/")
    results = {}
    for base in ("http://api.far.test:28080", "https://api.far.test:28443"):
        for target in targets:
            for proxied in (True, False):
                handlers = [] if proxied else [urllib.request.ProxyHandler({})]
                # The attacker's client ignores NO_PROXY, so that what is asked of the proxy is all of it.
                opener = urllib.request.build_opener(*handlers)
                try:
                    results[f"{base} {target} {proxied}"] = opener.open(f"{base}/redirect?to={target}", timeout=10).read().decode("latin-1")
                except urllib.error.HTTPError as error:
                    results[f"{base} {target} {proxied}"] = f"status {error.code}"
                except OSError as error:
                    results[f"{base} {target} {proxied}"] = type(error).__name__
    attack.say("followed", results)
    attack.say("passed on", attack.reach("api.far.test", 28080, attack.request("GET", "/redirect?to=http://169.254.169.254/", "api.far.test:28080")).lower())


def outside(trial):
    for name, end in trial.found["followed"].items():
        trial.check(end.startswith(("status 4", "URLError", "ConnectionRe", "RemoteDisc", "TimeoutError")), f"{name}: {end[:80]}")
    answer = trial.found["passed on"]
    trial.check(answer.startswith("http/1.1 302") and "location: http://169.254.169.254/" in answer, f"passed on: {answer[:200]}")
    trial.equal({path.split("?")[0] for path in trial.far.paths()}, {"/redirect"}, "what arrived")
