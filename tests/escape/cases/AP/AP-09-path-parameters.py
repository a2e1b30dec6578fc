"""AP-09: Put something else into a path's parameters.

Claim: What is no id is not found.
Technique: Dot-dot, encoded slashes, ten thousand characters, other alphabets, quotes and SQL in every parameter.
Source: -
Tiers: jail contained
"""


def outside(trial):
    words = ["..", "%2e%2e", "%2f", "..%2f..%2fetc", "x" * 10_000, "%F0%9F%98%80", "'%20OR%201=1--", "%00", "sbx_%00", "*", "sbx_*", "%25", "null", "%ff", "sbx_" + "0" * 20]
    for word in words:
        for path in ("/v1/sandboxes/{}", "/v1/sandboxes/{}/cells", f"/v1/sandboxes/{trial.id}/cells/{{}}", f"/v1/sandboxes/{trial.id}/kernels/{{}}", f"/v1/sandboxes/{trial.id}/commands/{{}}/events", "/v1/templates/{}"):
            answer = trial.api.call("GET", path.format(word))
            trial.tried()
            trial.check(answer.status in (400, 404, 405, 414, 431, 200) and (answer.status != 200 or word in ("..", "%2e%2e")), f"{path.format(word)[:60]}: {answer.status}")
