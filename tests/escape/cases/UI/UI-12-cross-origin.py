"""UI-12: Call the API from a foreign page.

Claim: No page of another origin can use the API through a visitor's browser.
Technique: Requests with foreign origins, forms, cookies and WebSocket upgrades.
Source: -
Tiers: jail contained
"""


def outside(trial):
    for headers in ({"Origin": "https://evil.test"}, {"Origin": "null"}, {"Origin": "https://evil.test", "Cookie": "a=b"}, {"Origin": "https://evil.test", "Upgrade": "websocket", "Connection": "Upgrade"}, {"Origin": "https://evil.test", "Content-Type": "text/plain"}):
        for method, path in (("POST", "/v1/run"), ("GET", "/v1/sandboxes"), ("DELETE", f"/v1/sandboxes/{trial.id}")):
            answer = trial.api.call(method, path, {"code": "1"} if method == "POST" else None, headers=headers)
            trial.tried()
            trial.check(answer.status == 403, f"{method} {path} with {headers}: {answer.status}")
            trial.check("access-control-allow-origin" not in answer.headers and "set-cookie" not in answer.headers, f"headers: {answer.headers}")
    page = trial.api.call("GET", "/docs")
    trial.check("<script" not in page.text.lower(), "the page runs scripts")
    trial.check("default-src 'none'" in page.headers.get("content-security-policy", ""), f"its policy: {page.headers.get('content-security-policy')}")
