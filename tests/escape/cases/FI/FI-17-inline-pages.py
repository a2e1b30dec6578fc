"""FI-17: Have a page shown from the API's origin.

Claim: Files are downloads: a browser shows none of them as a page of the server.
Technique: HTML, SVG, XML and script files, downloaded with and without a signed link.
Source: stored scripts in notebook servers
Tiers: jail contained
"""


def outside(trial):
    from urllib.parse import urlsplit

    from harness.api import Api

    api, box = trial.api, trial.id
    nobody = Api(trial.server.address, None, trial.server.tokens)
    for name in ("evil.html", "evil.svg", "evil.xml", "evil.js", "evil"):
        api.put(box, name, b"<script>alert(1)</script>")
        link = api.want(200, "POST", f"/v1/sandboxes/{box}/files/link", {"path": name, "method": "GET"})["url"]
        parts = urlsplit(link)
        for answer in (api.get(box, name), nobody.call("GET", f"{parts.path}?{parts.query}")):
            trial.tried()
            trial.equal(answer.status, 200, name)
            trial.check(answer.headers.get("content-disposition", "").startswith("attachment"), f"{name}: {answer.headers}")
            trial.equal(answer.headers.get("x-content-type-options"), "nosniff", f"{name}: sniffing")
            kind = answer.headers.get("content-type", "")
            trial.check("html" not in kind and "svg" not in kind and "xml" not in kind, f"{name}: {kind}")
