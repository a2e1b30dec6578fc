"""AP-15: Find a server that asks for no key.

Claim: There is no way to serve without keys, and serving beyond this machine without TLS is warned of.
Technique: Starts a server and asks it without a key; looks for settings that would turn keys off.
Source: CVE-2025-3248 (Langflow) and others that ran code of any client
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    import subprocess

    from harness.api import Api

    with trial.own_server(pool="python=0") as server:
        nobody = Api(server.address, None, trial.server.tokens)
        for method, path in (("POST", "/v1/run"), ("POST", "/v1/sandboxes"), ("GET", "/v1/sandboxes"), ("GET", "/v1/keys")):
            trial.equal(nobody.call(method, path, {} if method == "POST" else None).status, 401, path)
            trial.tried()
    shown = subprocess.run([trial.server.ground.binary, "config", "--default"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "SILICA_HOME": str(trial.server.home)}).stdout
    keys, section = [], ""
    for line in shown.splitlines():
        line = line.strip("# ")
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif "=" in line:
            keys.append(f"{section}.{line.split('=')[0].strip()}")
    # How the server shows itself to a provider of models is no way in.
    own = [key for key in keys if not key.startswith("model.")]
    trial.check(".listen" in own, f"settings: {own}")
    off = [key for key in own if "auth" in key or "anonymous" in key or "insecure" in key]
    trial.check(not off, f"settings: {off}")
