"""SE-11: Confuse the place of a secret with odd headers.

Claim: Headers are read in one form: doubled, folded and odd ones are refused or arrive as they were judged.
Technique: The placeholder in doubled headers, folded over lines, in names, with odd case, underscores and control bytes, in hop-by-hop headers and in a trailer.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    own = "api.far.test:28443"
    ask = lambda data: attack.status_of(attack.ask_tls("api.far.test", 28443, data))
    get = lambda path, *fields: ask(attack.request("GET", path, own, *fields))
    middle = len(key) // 2
    attack.say(
        "refused",
        {
            "folded": get("/bad", f"X-Key: a\r\n {key}"),
            "folded inside": get("/bad", f"X-Key: {key[:middle]}\r\n {key[middle:]}"),
            "in a name": get("/bad", f"{key} : x"),
            "nul": get("/bad", f"X-Key: {key}\0"),
        },
    )
    attack.say("passed", [get("/two", f"Authorization: Bearer {key}", f"authorization: Bearer {key}"), get("/case", f"aUTHORIZATION: Bearer {key}"), get("/underscore", f"X_Key: {key}"), get("/hop", "Connection: X-Key", f"X-Key: {key}"), get("/name", f"{key}: x")])
    trailer = f"POST /trailer HTTP/1.1\r\nHost: {own}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Key\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nX-Key: {key}\r\n\r\n"
    attack.say("trailer", ask(trailer.encode()))
    attack.say("host", ask(attack.request("GET", "/bad", f"{key}.far.test")))


def outside(trial):
    value = trial.secret("odd", env="API_KEY")
    trial.sandbox(network={"secrets": ["odd"]})
    trial.run()
    trial.all_refused("refused", ("400", "403"))
    trial.check(trial.found["host"] in ("400", "403", "421"), f"a placeholder in Host: {trial.found['host']}")
    trial.check("/bad" not in trial.far.paths(), f"what arrived: {trial.far.paths()}")
    for one in trial.far.seen:
        names = [name for name, field in one["headers"] if value in field]
        if one["path"] in ("/case", "/underscore"):
            trial.equal(len(names), 1, f"{one['path']}: headers with the value")
        if one["path"] in ("/hop", "/name", "/trailer"):
            trial.check(value not in str(one), f"{one['path']}: the value arrived in {names}")
