"""SE-04: Send a placeholder at another place of the request.

Claim: A value is put in at the places its secret names and at no other; a placeholder elsewhere is refused, also encoded.
Technique: The placeholder in the path, the query, bodies of several types, cookies, Basic credentials, and percent, JSON and base64 forms, for a secret of headers, and in headers for a secret of bodies.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import base64
    import os

    own = "api.far.test:28443"
    ask = lambda *words, body=b"": attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request(words[0], words[1], own, *words[2:], body=body)))
    key, of_body = os.environ["HEADER_KEY"], os.environ["BODY_KEY"]
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    inner = base64.b64encode(f"xx{key}yy".encode()).decode()
    hidden = "".join(f"%{ord(letter):02x}" for letter in key)
    json = "Content-Type: application/json"
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
    attack.say(
        "header only",
        {
            "path": ask("GET", f"/bad/{key}"),
            "query": ask("GET", f"/bad?k={key}"),
            "percent": ask("GET", f"/bad?k={hidden}"),
            "basic": ask("GET", "/bad", f"Authorization: Basic {basic}"),
            "base64": ask("GET", "/bad", f"X-Key: {inner}"),
            "json": ask("POST", "/bad", json, body=f'"{key}"'.encode()),
            "form": ask("POST", "/bad", "Content-Type: application/x-www-form-urlencoded", body=f"k={key}".encode()),
            "text": ask("POST", "/bad", "Content-Type: text/plain", body=key.encode()),
        },
    )
    attack.say(
        "body only",
        {
            "header": ask("GET", "/bad", f"X-Key: {of_body}"),
            "cookie": ask("GET", "/bad", f"Cookie: k={of_body}"),
            "query": ask("GET", f"/bad?k={of_body}"),
            "multipart": ask("POST", "/bad", "Content-Type: multipart/form-data; boundary=x", body=of_body.encode()),
        },
    )
    # A form of it that is not looked for is only text.
    attack.say("hidden", [ask("POST", "/hidden", json, body=f'"{escaped}"'.encode()), ask("POST", "/hidden", "Content-Type: application/x-www-form-urlencoded", body=f"k={hidden}".encode())])
    attack.say("control", [ask("GET", "/header", f"X-Key: {key}"), ask("POST", "/body", json, body=f'{{"k": "{of_body}"}}'.encode())])


def outside(trial):
    of_header = trial.secret("of-header", env="HEADER_KEY")
    of_body = trial.secret("of-body", env="BODY_KEY", **{"in": ["body"]})
    trial.sandbox(network={"secrets": ["of-header", "of-body"]})
    trial.run()
    trial.all_refused("header only", ("403",))
    trial.all_refused("body only", ("403", "413"))
    trial.equal(trial.found["control"], ["200", "200"], "the right places")
    seen = [one for one in trial.far.seen if one["path"] != "/hidden"]
    trial.equal([one["path"] for one in seen], ["/header", "/body"], "what arrived")
    trial.check(of_header in str(seen[0]["headers"]) and of_body in seen[1]["body"], "the values did not arrive")
    trial.equal([one["path"] for one in trial.far.seen if of_header in str(one) or of_body in str(one)], ["/header", "/body"], "requests with a value")
