"""FI-27: Attack the process that reads for the host.

Claim: What lies outside the writable places is read by a process in the sandbox; a guest that replaces its tools, stops it or writes in its place deceives itself alone.
Technique: Tools and modules of the reader's names in every writable place, hostile variables; readers stopped, flooded and killed by a thread that hunts them, while the host asks for listings, descriptions and files.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60


def inside():
    import os
    import signal
    import sys
    import threading
    import time

    version = "python%d.%d" % sys.version_info[:2]
    os.environ.update(PATH="/workspace", PYTHONPATH="/workspace", PYTHONHOME="/workspace", LD_PRELOAD="/workspace/evil.so")
    for place in ("/workspace", "/home/user", "/tmp", f"/home/user/.local/lib/{version}/site-packages"):
        os.makedirs(place, exist_ok=True)
        for name in ("os.py", "stat.py", "encodings.py", "sitecustomize.py", "usercustomize.py", "python3", "pyvenv.cfg", "evil.pth"):
            with open(f"{place}/{name}", "w") as file:
                file.write("import builtins; builtins.open('/workspace/ran', 'w').close()\n")
            os.chmod(f"{place}/{name}", 0o755)
    refused = 0
    for path in ("/opt/silica/guest/silica_guest/reader.py", "/opt/silica/guest/silica_guest", sys.executable, os.__file__):
        try:
            os.rename(path, "/tmp/taken") if os.path.isdir(path) else open(path, "r+b").close()
        except OSError:
            refused += 1
    attack.say("refused", refused)

    def flood(pid):
        try:
            pipe = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
            while True:
                os.write(pipe, b"e\xff\xff\xff\xff" * 1000)
        except OSError:
            pass

    def hunt():
        seen = set()
        ways = ("stop", "flood", "kill")
        while True:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if pid in seen:
                    continue
                try:
                    line = open(f"/proc/{pid}/cmdline").read()
                    if "reader.py" not in line:
                        continue
                    seen.add(pid)
                    os.kill(int(pid), signal.SIGSTOP)
                    way = ways[len(seen) % 3]
                    with open("/workspace/hunted", "a") as file:
                        file.write(way + "\n")
                    if way == "flood":
                        threading.Thread(target=flood, args=(pid,), daemon=True).start()
                        os.kill(int(pid), signal.SIGCONT)
                    elif way == "kill":
                        os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.0005)

    attack.say("passwd", open("/etc/passwd").read())
    threading.Thread(target=hunt, daemon=True).start()
    attack.say("hunting", 1)


def outside(trial):
    import time

    api, box = trial.api, trial.id
    trial.equal(trial.found.get("refused"), 4, "changes of the reader's own files that were refused")
    memory = trial.server.memory_bytes()
    slowest = 0.0
    for number in range(6):
        path = ("/etc/passwd", "/", "/usr")[number % 3]
        where = ("/content", "", "/stat")[number % 3]
        began = time.monotonic()
        answer = api.call("GET", api.files(box, where, path=path), patience=90)
        slowest = max(slowest, time.monotonic() - began)
        trial.tried()
        trial.check(answer.status in (0, 200, 404, 413, 422, 429), f"{where} {path}: {answer.status} {answer.text[:200]}")
    grown = trial.server.memory_bytes() - memory
    trial.check(grown < 64 << 20, f"the server grew by {grown >> 20} MiB")
    trial.check(slowest < 60, f"an answer took {slowest:.1f} s")
    trial.equal(trial.ask("import os; print(os.path.exists('/workspace/ran'))"), "False", "code of the guest in the reader")
    hunted = trial.ask("import os; print(open('/workspace/hunted').read().split() if os.path.exists('/workspace/hunted') else [])")
    trial.check(hunted != "[]", "no reader was caught: the case did not try")
    canary = trial.host.told["canaries"][0]
    fresh = trial.sandbox().id
    trial.equal(api.call("GET", api.files(fresh, "/content", path=canary)).status, 404, "a file of the host")
    trial.equal(api.call("GET", api.files(fresh, "/content", path="/etc/passwd")).text, trial.found["passwd"], "what the guest reads")
