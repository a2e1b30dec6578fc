"""NT-42: Act on another origin, or learn a key, from an exposed port.

Claim: What an exposed port answers acts on its own origin only, and no key, token or cookie of the server reaches it.
Technique: Cookies for the parent domain and under the server's own names, service workers, CORS, alternative services and redirects in every answer; each request is kept and searched.
Source: -
Tiers: jail contained
"""

DRIVEN = True

SERVE = """
import http.server, json, threading
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        seen.append(self.requestline + str(self.headers))
        self.send_response(302)
        for name, value in (('Set-Cookie', 'a=1; Domain=ports.test'), ('Set-Cookie', 'silica-port=stolen'), ('Set-Cookie', '__Host-silica-port=stolen; Secure; Path=/'),
                            ('Service-Worker-Allowed', '/'), ('Access-Control-Allow-Origin', '*'), ('Access-Control-Allow-Credentials', 'true'), ('Clear-Site-Data', '"*"'),
                            ('Alt-Svc', 'h2="evil.test:443"'), ('Strict-Transport-Security', 'max-age=99'), ('WWW-Authenticate', 'Basic realm="your key"'), ('Location', '/v1/keys'), ('X-Request-Id', 'forged')):
            self.send_header(name, value)
        self.end_headers()
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print('up')
"""

REFUSED = ("service-worker-allowed", "alt-svc")
OF_ORIGIN = ("set-cookie", "access-control-allow-origin", "access-control-allow-credentials", "clear-site-data", "strict-transport-security", "www-authenticate")


def outside(trial):
    with trial.own_server(settings={"ports.domain": "ports.test"}, pool="python=1") as server:
        owner = server.holder("owner")
        made = owner.create(template="python", network={"expose": [8000]})
        trial.equal(owner.cell(made["id"], SERVE)["stdout"], "up\n", "the server inside")
        own = f"8000-{made['id']}.ports.test"
        path = f"/v1/sandboxes/{made['id']}/ports/8000"
        token = owner.want(200, "POST", f"{path}/link", {})["url"].rsplit("/", 1)[1]
        sent = {"Authorization": f"Bearer {owner.key}", "Cookie": f"a=1; silica-port={token}; __Host-silica-port={token}", "E2b-Traffic-Access-Token": "SECRETTOKEN", "Referer": f"http://x/{token}"}
        by_path = owner.call("GET", f"{path}/x", headers=sent)
        named = {"E2b-Sandbox-Id": made["id"], "E2b-Sandbox-Port": "8000"}
        by_headers = owner.call("GET", "/x", headers=sent | named)
        by_host = owner.call("GET", "/x", headers={**sent, "Host": own, "Referer": ""})
        for name, answer in (("path", by_path), ("headers", by_headers), ("host", by_host)):
            trial.tried()
            trial.equal(answer.status, 302, f"by {name}")
            trial.check(not [header for header in REFUSED if header in answer.headers], f"by {name}: {answer.headers}")
            trial.check("forged" not in answer.headers.get("x-request-id", ""), f"by {name}: a forged id")
        for name, answer in (("path", by_path), ("headers", by_headers)):
            trial.check(not [header for header in OF_ORIGIN if header in answer.headers], f"by {name}: {answer.headers}")
            trial.equal(answer.headers.get("content-security-policy"), "sandbox", f"by {name}")
        trial.equal(by_path.headers.get("location"), f"{path}/v1/keys", "where a redirect leads")
        cookies = by_host.headers.get("set-cookie", "")
        trial.check("domain" not in cookies.lower() and "stolen" not in cookies, f"cookies: {cookies}")
        seen = owner.cell(made["id"], "print(json.dumps(seen))")["stdout"]
        trial.equal(seen.count("GET /x"), 3, "what came in")
        for secret in (owner.key, token, "SECRETTOKEN"):
            trial.tried()
            trial.check(secret not in seen, "a secret of the server came in")
