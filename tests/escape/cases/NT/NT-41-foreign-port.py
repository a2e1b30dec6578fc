"""NT-41: Reach a port of another's sandbox, or one that is closed.

Claim: A port is reached by those only whom its owner lets through, and only if it is exposed.
Technique: Another key, no key, tokens and links of other sandboxes and ports, by path, by headers and by host; ports that no list names.
Source: -
Tiers: jail contained
"""

DRIVEN = True

SERVE = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'INSIDE')
for port in (8000, 9000):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print('up')
"""


def outside(trial):
    with trial.own_server(settings={"ports.domain": "ports.test"}, pool="python=1") as server:
        owner, other = server.holder("owner"), server.holder("other")
        made = owner.create(template="python", network={"expose": [8000]})
        foreign = other.create(template="python", network={"expose": [8000]})
        trial.equal(owner.cell(made["id"], SERVE)["stdout"], "up\n", "the server inside")
        url = other.want(200, "POST", f"/v1/sandboxes/{foreign['id']}/ports/8000/link", {})["url"]
        token = url.rsplit("/", 1)[1]
        own = f"8000-{made['id']}.ports.test"
        path = f"/v1/sandboxes/{made['id']}/ports/8000/"
        named = {"E2b-Sandbox-Id": made["id"], "E2b-Sandbox-Port": "8000"}
        cookie = f"silica-port={token}; __Host-silica-port={token}"
        nobody = {"X-API-Key": "silica_" + "0" * 40}
        for headers in ({}, nobody, {"Cookie": cookie}, {"E2b-Traffic-Access-Token": token}):
            for where, more in ((path, {}), ("/", {"Host": own}), ("/", named), (f"/.silica/open/{token}", {"Host": own})):
                answer = other.call("GET", where, headers=headers | more)
                trial.tried()
                trial.check(b"INSIDE" not in answer.body, f"{where} {headers} {more}: {answer.text[:99]}")
        for host in (f"9000-{made['id']}.ports.test", f"49983-{made['id']}.ports.test", f"80-{made['id']}.ports.test", f"x.{own}", f"{own}.", f"{own}@127.0.0.1", f"{own}:1:2"):
            answer = owner.call("GET", "/", headers={"Host": host})
            trial.tried()
            trial.check(b"INSIDE" not in answer.body, f"{host}: {answer.text[:99]}")
        for port in ("9000", "08000", "8000%20", "0x1f40", "8000,9000", "-8000"):
            answer = owner.call("GET", f"/v1/sandboxes/{made['id']}/ports/{port}/")
            trial.tried()
            trial.check(b"INSIDE" not in answer.body, f"port {port}: {answer.text[:99]}")
        # The control: the owner reaches it by each way.
        for where, more in ((path, {}), ("/", {"Host": own}), ("/", named)):
            trial.equal(owner.call("GET", where, headers=more).body, b"INSIDE", f"the owner by {where} {more}")
