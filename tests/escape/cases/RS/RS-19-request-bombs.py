"""RS-19: Send requests that are bombs.

Claim: A request that is too deep, too large, too slow or has too much of a head is refused within bounds.
Technique: 100 000 nested arrays, a body larger than allowed, ten thousand headers, a head that never ends, a length that lies.
Source: -
Tiers: jail bounded
"""


def outside(trial):
    api = trial.api
    key = f"X-API-Key: {api.key}\r\n".encode()
    post = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n" + key
    before = trial.server.memory_bytes()

    def status(answer):
        words = answer.split(b" ", 2)
        return int(words[1]) if len(words) > 2 and words[1].isdigit() else 0

    nested = b"[" * 100_000 + b"]" * 100_000
    trial.equal(api.call("POST", "/v1/sandboxes", nested).status, 400, "nested arrays")
    nested = b'{"metadata":' * 50_000 + b"1" + b"}" * 50_000
    trial.equal(api.call("POST", "/v1/sandboxes", nested).status, 400, "nested objects")
    large = b'{"code": "' + b"x" * (40 << 20) + b'"}'
    answer = api.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + key + b"Content-Length: %d\r\n\r\n" % len(large) + large)
    trial.check(status(answer) in (0, 413), f"a large body: {answer[:60]!r}")
    headers = b"".join(b"X-%d: y\r\n" % number for number in range(10_000))
    trial.check(status(api.raw(post + headers + b"\r\n")) in (0, 400, 431), "many headers")
    trial.check(status(api.raw(b"GET / HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n")) in (0, 400, 431), "one long header")
    trial.check(status(api.raw(b"GET /" + b"y" * (1 << 20) + b" HTTP/1.1\r\n\r\n")) in (0, 400, 414, 431), "a long line")
    trial.check(status(api.raw(post + b"Content-Length: 99999999999999999999\r\n\r\n{}")) in (0, 400, 413), "a length beyond numbers")
    trial.check(status(api.raw(post + b"Content-Length: -1\r\n\r\n{}")) in (0, 400), "a negative length")
    trial.tried(8)
    grown = trial.server.memory_bytes() - before
    trial.check(grown < 128 << 20, f"the server grew by {grown >> 20} MiB")
