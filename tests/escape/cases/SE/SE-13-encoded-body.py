"""SE-13: Hide a placeholder in an encoded body.

Claim: A value is put into bodies of known types only; a placeholder that is visible elsewhere is refused, one that is hidden arrives as it is.
Technique: The placeholder in gzip and deflate, in multipart, in chunks divided inside it, in bodies beyond the limit, and in types that lie.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import gzip
    import os
    import zlib

    key = os.environ["API_KEY"].encode()
    own = "api.far.test:28443"
    post = lambda path, *fields, body: attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("POST", path, own, *fields, body=body)))
    json = "Content-Type: application/json"
    attack.say("hidden", [post("/gzip-body", json, "Content-Encoding: gzip", body=gzip.compress(b'"' + key + b'"')), post("/deflate-body", json, "Content-Encoding: deflate", body=zlib.compress(key))])
    attack.say("visible", {"multipart": post("/bad", "Content-Type: multipart/form-data; boundary=x", body=b"--x\r\n\r\n" + key + b"\r\n--x--"), "binary": post("/bad", "Content-Type: application/octet-stream", body=key), "no type": post("/bad", body=key), "said to be gzip": post("/bad", json, "Content-Encoding: gzip", body=b'"' + key + b'"')})
    attack.say("large", post("/bad", json, body=b'"' + b"x" * (2 << 20) + key + b'"'))
    half = len(key) // 2
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (b'{"k": "' + key[:half], key[half:] + b'"}')) + b"0\r\n\r\n"
    head = f"POST /chunks HTTP/1.1\r\nHost: {own}\r\n{json}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    attack.say("chunks", attack.status_of(attack.ask_tls("api.far.test", 28443, head + chunks)))


def outside(trial):
    value = trial.secret("body", env="API_KEY", **{"in": ["body"]})
    trial.sandbox(network={"secrets": ["body"]})
    trial.run()
    trial.all_refused("visible", ("403", "400", "413", "415"))
    trial.check(trial.found["large"] in ("413", "403", "", " ECONNRESET", " EPIPE", " SSLEOFError"), f"a large body: {trial.found['large']}")
    trial.check("/bad" not in trial.far.paths(), f"what arrived: {trial.far.paths()}")
    trial.equal(trial.found["chunks"], "200", "chunks")
    trial.equal([one["path"] for one in trial.far.seen if value in str(one)], ["/chunks"], "requests with the value")
