"""FI-11: Upload under names that are none.

Claim: An upload lands in the sandbox under the name that was given, or is refused.
Technique: Dot-dot, absolute, empty, very long, with line ends, controls, bidi marks and option-like names, as file, directory, move and input.
Source: -
Tiers: jail contained
"""


def outside(trial):
    api, box = trial.api, trial.id
    names = ["../../x", "/abs", "a\0b", ".", "..", "", "y" * 300, "z/" * 3000 + "z", "/etc/evil", "../workspace2/x", "/workspace/../tmp/../etc/x"]
    for name in names:
        for answer in (api.put(box, name, b"x"), api.call("POST", f"/v1/sandboxes/{box}/files/directory", {"path": name}),
                       api.call("POST", f"/v1/sandboxes/{box}/files/move", {"from": "ok", "to": name, "overwrite": True})):  # fmt: skip
            trial.tried()
            trial.check(400 <= answer.status < 500 or name == "." and answer.status == 200, f"{name[:30]!r}: {answer.status}")
    for name in ("-rf", "a\r\nb", "x\u202egpj.exe", "\x1b[31m", "$(id)", "`id`", ";id", "a b", "%s%n"):
        answer = api.put(box, name, b"x")
        trial.check(answer.status in (201, 400), f"{name!r}: {answer.status}")
    for name in ("../x", "/abs", "", ".", "..", "a/b", "x" * 300, "a\0b"):
        answer = api.call("POST", "/v1/sandboxes", {"inputs": [{"name": name, "content": "x"}]})
        trial.check(answer.status == 400, f"an input named {name[:30]!r}: {answer.status}")
        if answer.status == 201:
            api.delete(answer.json["id"])
        files = {"code": "1", "files": [{"path": "../../" + name, "content": "x"}]}
        trial.check(400 <= api.call("POST", "/v1/run", files).status < 500, f"a run's file {name[:30]!r}")
