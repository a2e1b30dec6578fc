"""SE-02: Have the far side say the secret again.

Claim: What the bound host sends back has the placeholder in place of the value: in headers, bodies, pieces, parts and common encodings.
Technique: A host that echoes requests whole, in headers, in base64 and percent forms, in a redirect, in chunks divided at every place, in trailers, in parts by Range and compressed.
Source: -
Tiers: jail contained; a host that sends it back reversed or hashed is not noticed
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    own = "api.far.test:28443"
    answers = {}
    for path in ("/echo", "/leak", "/pieces", "/gzip"):
        answers[path] = attack.ask_tls("api.far.test", 28443, attack.request("GET", path, own, f"Authorization: Bearer {key}", "Accept-Encoding: gzip, br"))
    for first in range(0, 80, 8):
        answers[f"range {first}"] = attack.ask_tls("api.far.test", 28443, attack.request("GET", "/range", own, f"Authorization: Bearer {key}", f"Range: bytes={first}-{first + 7}"))[-60:]
    attack.say("key", key)
    attack.say("answers", answers)


def outside(trial):
    value = trial.secret("echo", env="API_KEY")
    trial.sandbox(network={"secrets": ["echo"]})
    # The client searches every answer of the server for the value, in other forms as well.
    trial.run()
    answers, key = trial.found["answers"], trial.found["key"]
    trial.check(value in trial.far.text(), "the far side did not get the value")
    for path in ("/echo", "/leak", "/pieces"):
        trial.check(key in answers[path], f"{path} has no placeholder: {answers[path][:200]}")
    trial.equal(answers["/pieces"].count(key) >= len(value) - 1, True, "pieces")
    trial.check(answers["/gzip"].startswith("HTTP/1.1 502"), f"a compressed answer: {answers['/gzip'][:60]!r}")
    parts = "".join(answer for name, answer in answers.items() if name.startswith("range"))
    trial.check(not any(value[at : at + 8] in parts for at in range(len(value) - 8)), "a part of the value came back")
    trial.check("range" not in {name for one in trial.far.seen for name, _ in one["headers"]}, "a Range arrived")
