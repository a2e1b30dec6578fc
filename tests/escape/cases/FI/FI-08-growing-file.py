"""FI-08: Grow a file while it is read.

Claim: A download ends, however the file changes under it.
Technique: A thread appends, truncates and replaces the file while it is downloaded again and again.
Source: -
Tiers: jail bounded
"""


def inside():
    import os
    import threading

    def grow():
        while True:
            with open("f", "ab") as file:
                file.write(b"x" * 100_000)
            if os.path.getsize("f") > 20 << 20:
                os.truncate("f", 10)

    def replace():
        while True:
            open("g.new", "wb").write(b"y" * 1000)
            os.rename("g.new", "g")

    open("f", "w").close()
    open("g", "w").close()
    for target in (grow, replace):
        threading.Thread(target=target, daemon=True).start()
    attack.say("growing", True)


def outside(trial):
    import http.client

    for _ in range(10):
        for name in ("f", "g"):
            try:
                answer = trial.api.get(trial.id, name, patience=30)
            except http.client.IncompleteRead:
                continue  # It was cut short under the download, and the connection says so.
            trial.check(answer.status in (200, 404, 409, 422), f"{name}: {answer.status}")
            trial.check(len(answer.body) <= 24 << 20, f"{len(answer.body)} bytes")
