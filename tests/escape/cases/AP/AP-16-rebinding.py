"""AP-16: Reach a local server from a web page.

Claim: A server on a loopback address answers to loopback names only, and to no foreign page.
Technique: Requests with foreign Host and Origin headers, as a page with a rebound name would send them.
Source: DNS rebinding
Tiers: jail contained
"""


def outside(trial):
    port = trial.server.address[1]
    for host in ("evil.test", f"evil.test:{port}", "127.0.0.1.evil.test", "localhost.evil.test", "[::ffff:10.0.0.1]", "", "evil.test@127.0.0.1"):
        request = f"GET /v1/stats HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {trial.api.key}\r\nConnection: close\r\n\r\n"
        answer = trial.api.raw(request.encode(), end=True)
        trial.tried()
        trial.check(b" 200 " not in answer[:20], f"Host {host!r}: {answer[:40]!r}")
    for origin in ("https://evil.test", "null", f"http://127.0.0.1:{port}.evil.test", "http://localhost.evil.test", "file://"):
        answer = trial.api.call("POST", "/v1/run", {"code": "1"}, headers={"Origin": origin})
        trial.equal((answer.status, answer.code), (403, "wrong_origin"), f"Origin {origin}")
        trial.check(not [name for name in answer.headers if name.startswith("access-control")], "a CORS header")
    preflight = trial.api.call("OPTIONS", "/v1/run", headers={"Origin": "https://evil.test", "Access-Control-Request-Method": "POST"})
    trial.check(preflight.status >= 400 and "access-control-allow-origin" not in preflight.headers, f"a preflight: {preflight.status}")
