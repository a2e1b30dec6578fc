"""FI-26: Have the server fetch an address.

Claim: The server fetches nothing for a client: no field accepts a URL.
Technique: Inputs, files, templates and commands that name file:, http: and data: addresses of the host's listeners.
Source: -
Tiers: jail contained
"""


def outside(trial):
    port = trial.host.told["tcp"]
    for url in (f"http://127.0.0.1:{port}/", "file:///etc/passwd", "data:text/plain,x", "gopher://127.0.0.1/", f"//127.0.0.1:{port}/x"):
        bodies = [
            {"inputs": [{"name": "x", "url": url}]},
            {"inputs": [{"name": "x", "shared": url}]},
            {"template": url},
            {"image": url},
            {"inputs": [url]},
        ]
        for body in bodies:
            answer = trial.api.call("POST", "/v1/sandboxes", body)
            trial.tried()
            trial.check(400 <= answer.status < 500, f"{body}: {answer.status}")
            if answer.status == 201:
                trial.api.delete(answer.json["id"])
