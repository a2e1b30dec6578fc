"""AP-08: Send HTTP at the edges.

Claim: A request whose end can be read in two ways is refused, and nothing is smuggled.
Technique: Two lengths, length and chunks, odd encodings, bare line feeds, folded headers, a second request behind the first, HTTP/2.
Source: request smuggling
Tiers: jail contained
"""


def outside(trial):
    key = f"X-API-Key: {trial.api.key}\r\n".encode()
    smuggled = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + key + b"Content-Length: 2\r\n\r\n{}"
    before = len(trial.api.want(200, "GET", "/v1/sandboxes?limit=100")["sandboxes"])
    heads = {
        "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "two lengths": b"Content-Length: 0\r\nContent-Length: 5\r\n",
        "odd encoding": b"Transfer-Encoding: x, chunked\r\n",
        "two encodings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "space before the colon": b"Content-Length : 0\r\n",
        "folded": b"X: a\r\n Content-Length: 0\r\n",
        "bare line feed": b"X: a\nContent-Length: 0\r\n",
        "zero byte": b"X: a\x00b\r\n",
        "length with a sign": b"Content-Length: +0\r\n",
    }
    for name, head in heads.items():
        request = b"POST /v1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + key + head + b"\r\n0\r\n\r\n" + smuggled
        answer = trial.api.raw(request, patience=5, end=True)
        trial.tried()
        trial.check(answer.count(b"HTTP/1.1 ") <= 1, f"{name}: {answer.count(b'HTTP/1.1 ')} answers")
        trial.check(b" 500 " not in answer[:40], f"{name}: {answer[:60]!r}")
    for garbage in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"get / http/1.1\r\n\r\n"):
        trial.api.raw(garbage, patience=5, end=True)
        trial.tried()
    after = len(trial.api.want(200, "GET", "/v1/sandboxes?limit=100")["sandboxes"])
    trial.equal(after, before, "sandboxes, so that nothing was smuggled")
