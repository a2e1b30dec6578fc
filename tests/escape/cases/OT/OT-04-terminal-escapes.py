"""OT-04: Send terminal escapes to the reader of the output.

Claim: Control characters are escaped in JSON, and in what the command line tools show of names.
Technique: Prints sequences that set the title and the clipboard, move the cursor and answer back; looks at every byte of the answer.
Source: wasmtime filters them
Tiers: jail contained
"""


def inside():
    attack.say("printing", True)
    print("\x1b]52;c;ZXZpbA==\x07\x1b]0;x\x07\x1b[6n\x1bP1$r0m\x1b\\\x9b31m\r\x08\x7f")


def outside(trial):
    for path in ("", "/events"):
        answer = trial.api.call("GET", f"/v1/sandboxes/{trial.id}/cells/{trial.cell['id']}{path}")
        raw = [byte for byte in answer.body if byte < 32 and byte not in (10, 13)]
        trial.equal(raw, [], f"control bytes in the answer{path}")
    trial.check("\x1b" in trial.cell["stdout"], "the program's own output is not changed")
