"""Code that waits for a person: one key asks, another decides. Needs SILICA_URL and an admin's SILICA_KEY."""

from silica import Client, Sandbox

# A policy that asks about one module and allows everything else.
POLICY = """
name = "reviewed"
extends = "open"

[[rule]]
id = "native-code"
kind = "import"
severity = "high"
action = "ask"
names = ["ctypes"]
why = "{name} calls native code"
"""

with Client() as client, Sandbox.create(client=client) as sandbox:
    reviewer = Client(key=client.create_key("reviewer", approve=True)["key"])
    cell = sandbox.start_code("import ctypes; print('ran')", policy=POLICY)
    waiting = cell.result()
    print("state:", waiting.state)

    with reviewer:
        # Others may wait too; only this one was read.
        mine = [approval for approval in reviewer.approvals() if approval.id == waiting.approval.id]
        for approval in mine:
            print("to decide:", approval.code)
            reviewer.approve(approval.id, reason="seen", sha256=approval.sha256)

    print("printed:", cell.wait().stdout.strip())
