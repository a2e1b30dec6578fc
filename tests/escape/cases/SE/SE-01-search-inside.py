"""SE-01: Find a secret's value inside the sandbox.

Claim: The value is nowhere inside: not in variables, files, memory or what processes show; a placeholder is.
Technique: A search of the environment, of all files that can be read, of /proc and of the memory of the interpreter and its children, before and after the secret was used.
Source: -
Tiers: jail contained
"""

DRIVEN = True
TIMEOUT = 100


def inside(first, second):
    import os
    import re

    # The word is not in one piece, so that the search does not find itself.
    pattern = re.compile(f"{first}[{second[0]}]{second[1:]}".encode())
    key = os.environ["API_KEY"]
    attack.say("placeholder", key)
    own = "api.far.test:28443"
    attack.say("used", attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("GET", "/", own, f"Authorization: Bearer {key}"))))
    found = [name for name, value in os.environb.items() if pattern.search(value)]
    searched = 0
    for top in ("/home", "/tmp", "/workspace", "/run", "/etc", "/opt/silica", "/dev/shm", "/var"):
        for directory, _, files in os.walk(top):
            for name in files:
                path = os.path.join(directory, name)
                try:
                    if os.path.isfile(path) and os.path.getsize(path) < 16 << 20:
                        with open(path, "rb") as file:
                            searched += 1
                            if pattern.search(file.read()):
                                found.append(path)
                except OSError:
                    continue
    for process in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline", "mem"):
            try:
                with open(f"/proc/{process}/{name}", "rb", 0) as file:
                    if name != "mem":
                        searched += 1
                        found += [f"{process} {name}"] * bool(pattern.search(file.read()))
                        continue
                    for line in open(f"/proc/{process}/maps"):
                        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                        if " r" in line[:40] and "[v" not in line and end - begin < 256 << 20:
                            try:
                                file.seek(begin)
                                searched += 1
                                found += [f"{process} {line}"] * bool(pattern.search(file.read(end - begin)))
                            except (OSError, ValueError, OverflowError):
                                continue
            except OSError:
                continue
    attack.say("searched", searched)
    attack.say("found", found)
    kept = (first + second).encode()
    with open("/tmp/control", "wb") as file:
        file.write(kept)
    attack.say("control", bool(pattern.search(open("/tmp/control", "rb").read())))
    os.remove("/tmp/control")


def outside(trial):
    # Of its own word: the common one of all tokens is in the attack's program.
    import secrets

    value = "s" + secrets.token_hex(20)
    answer = trial.api.call("PUT", "/v1/secrets/search", {"value": value, "hosts": ["api.far.test:28443"], "env": "API_KEY", "prefix": "sk-"})
    trial.check(answer.status in (200, 201), f"the secret: {answer.status} {answer.text[:200]}")
    trial.finally_do(lambda: trial.api.call("DELETE", "/v1/secrets/search"))
    trial.sandbox(network={"secrets": ["search"]})
    trial.run(f"inside({value[:20]!r}, {value[20:]!r})")
    trial.check(trial.found["placeholder"].startswith("sk-silica_secret_search_"), f"the placeholder: {trial.found['placeholder']}")
    trial.equal((trial.found["used"], trial.found["control"]), ("200", True), "the use and the control")
    trial.check(trial.found["searched"] > 100, f"{trial.found['searched']} places were searched")
    trial.equal(trial.found["found"], [], "places with the value")
    trial.check(value in trial.far.text(), "the far side did not get the value")
    raw = value.encode()
    kept = [str(path) for path in trial.server.home.rglob("*") if path.is_file() and not path.is_symlink() and raw in path.read_bytes()]
    trial.equal(kept, [], "files of the server with the value")
