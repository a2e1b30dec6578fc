"""FI-01: Name a file outside by its path.

Claim: No path of a request leads to a file of the host, and none out of the writable places changes anything.
Technique: Dot-dot in every encoding, double slashes, backslashes, zero bytes, overlong UTF-8 and absolute paths, read, written, listed and removed.
Source: -
Tiers: jail contained
"""


def outside(trial):
    api, box = trial.api, trial.id
    canary = trial.host.told["canaries"][0]
    paths = ["../../etc/passwd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..%5cetc%5cpasswd", "//etc/passwd", "%252e%252e%252fetc", "/workspace/../etc/passwd",
             "/workspace/..%2f..%2fetc/passwd", "%c0%ae%c0%ae/etc/passwd", "a%00b", "/etc/passwd", "/workspace/./../../" + canary, canary, "/proc/self/environ",
             "/proc/1/root/etc/passwd", "/dev/shm/../../etc/passwd", "/tmp/../etc/passwd", "/home/user/../../etc/passwd", "..", "/", "%ff%fe", "~/../../etc/passwd",
             "/workspace" + "/.." * 50 + canary, "file:///etc/passwd", "/workspace//../../etc/passwd", "/opt/silica/python", "/data/input/../../etc/passwd"]  # fmt: skip
    passed = {}
    for path in paths:
        base = f"/v1/sandboxes/{box}/files"
        for method, where, body in (("GET", "/content", None), ("PUT", "/content", b"evil"), ("GET", "/stat", None), ("DELETE", "", None), ("GET", "/archive", None), ("PUT", "/archive", b"")):
            answer = api.call(method, f"{base}{where}?path={path}", body)
            trial.tried()
            if answer.status < 400:
                passed[f"{method} {where} {path}"] = answer.status
            trial.check(answer.status < 500, f"{method} {where} {path}: {answer.status}")
    # Names that only look like paths out, in a server that decodes once, are names.
    names = ("..%5c..%5cetc%5cpasswd", "%252e%252e%252fetc", "~/../../etc/passwd", "file:///etc/passwd", "%ff%fe", "%c0%ae%c0%ae/etc/passwd")
    passed = {what: status for what, status in passed.items() if not what.endswith(names)}
    # A process in the sandbox reads plain paths out of the writable places, and finds what the guest finds.
    plain = ("/etc/passwd", "/proc/self/environ", "/proc/1/root/etc/passwd", "/", "/opt/silica/python")
    reads = {f"GET {where} {path}" for where in ("/content", "/stat") for path in plain}
    passed = {what: status for what, status in passed.items() if what not in reads}
    theirs = trial.ask("print(open('/etc/passwd').read())")
    trial.equal(api.get(box, "/etc/passwd").text.strip(), theirs, "what is read of /etc/passwd")
    trial.equal(api.get(box, canary).status, 404, "a file of the host")
    trial.equal(passed, {}, "requests that went out")
    trial.equal(trial.ask("print(open('/etc/passwd').read().count('evil'))"), "0", "inside")
