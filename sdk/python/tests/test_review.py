"""Policies, approvals and prompts against a real server, with both clients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from either import Either

import silica

pytestmark = pytest.mark.live

# Allows everything, and requires an approval for code that removes files.
ASKS = """
name = "careful"
extends = "open"

[[rule]]
id = "no-deletes"
kind = "call"
severity = "medium"
action = "ask"
names = ["os.remove"]
why = "{name} removes files"
"""

REMOVES = "import os\nopen('x', 'w').close(); os.remove('x'); print('removed')"


@pytest.fixture
def approver(live: Either) -> Any:
    """A client with a key that has the right to approve."""
    with live.Client() as admin:
        key = admin.create_key("on duty", approve=True)
    return live.Client(key=key["key"])


def test_what_a_policy_blocks_is_an_error_that_says_why(live: Either) -> None:
    with live.Sandbox.create(template="python") as sandbox:
        runs: list[Callable[[], Any]] = [
            lambda: sandbox.run_code("x = 1\nimport socket", policy="data"),
            lambda: sandbox.start_code("x = 1\nimport socket", policy="data"),
            lambda: sandbox.kernels.get("k1").run_code("x = 1\nimport socket", policy="data"),
            lambda: live.run("x = 1\nimport socket", template="python", policy="data"),
        ]
        for run in runs:
            with pytest.raises(silica.PolicyBlocked) as caught:
                run()
            assert caught.value.code == "policy_blocked"
            finding = caught.value.findings[0]
            assert (finding.rule, finding.action, finding.line) == ("network", "block", 2)
            assert "network" in str(finding)
        assert sandbox.run_code("x").error.name == "NameError"


def test_what_a_policy_warns_of_is_reported(live: Either) -> None:
    with live.Sandbox.create(template="python") as sandbox:
        execution = sandbox.run_code("import ctypes", policy=ASKS)
        assert (execution.ok, execution.policy) == (True, "careful")
        assert [finding.action for finding in execution.findings] == ["warn"]
        assert "finding" in repr(execution)
        assert sandbox.run_code("1", policy="open").findings == []


def test_a_person_approves(live: Either, approver: Any) -> None:
    with live.Sandbox.create(template="python") as sandbox, approver as person:
        cell = sandbox.start_code(REMOVES, policy=ASKS)
        waiting = cell.result()
        assert (waiting.state, waiting.done) == ("awaiting_approval", False)
        assert waiting.approval.state == "pending"
        asked = next(one for one in person.approvals() if one.id == waiting.approval.id)
        assert (asked.cell, asked.sandbox, asked.runnable) == (cell.id, sandbox.id, True)
        assert person.approval(asked.id).code == REMOVES
        with pytest.raises(silica.Conflict):
            person.approve(asked.id, sha256="0" * 64)
        decided = person.approve(asked.id, reason="seen", sha256=asked.sha256)
        assert (decided.state, decided.reason) == ("approved", "seen")
        execution = cell.wait(30)
        assert (execution.stdout, execution.approval.state) == ("removed\n", "approved")
        with pytest.raises(silica.Conflict):
            person.deny(asked.id)
        kinds = [type(event) for event in cell.events()]
        assert kinds[:3] == [silica.Asked, silica.Asked, silica.Start]


def test_a_person_denies_what_somebody_waits_for(live: Either, approver: Any) -> None:
    heard: list[silica.Approval] = []

    def deny(approval: silica.Approval) -> None:
        heard.append(approval)
        if approval.state == "pending":
            # The callback may be called by an event loop, which cannot wait for another call.
            decider = threading.Thread(target=_deny, args=(approver, approval.id))
            decider.start()
            decider.join()

    with live.Sandbox.create(template="python") as sandbox:
        execution = sandbox.run_code(REMOVES, policy=ASKS, on_approval=deny)
        assert (execution.outcome, execution.exit_code) == ("denied", 126)
        assert [approval.state for approval in heard] == ["pending", "denied"]
        assert execution.approval.reason == "not today"
        with pytest.raises(silica.ExecutionFailed):
            execution.raise_for_error()


def _deny(approver: Any, id: str) -> None:
    target = getattr(approver, "_target", approver)
    with silica.Client(target.url, target._settings.key) as client:
        client.deny(id, reason="not today")


def test_nobody_approves_their_own(live: Either) -> None:
    with live.Client() as client:
        sandbox = live.create(template="python", client=client)
        cell = sandbox.start_code(REMOVES, policy=ASKS)
        approval = cell.result().approval
        with pytest.raises(silica.Forbidden) as caught:
            client.approve(approval.id)
        assert caught.value.code == "own_approval"
        # The key that submitted the code may deny it.
        assert client.deny(approval.id).state == "denied"
        assert approval.id in [one.id for one in client.approvals(state="denied")]
        sandbox.delete()


def test_a_prompt_is_answered(live: Either) -> None:
    with live.Client() as client:
        answer = client.interpret("Print four squares", template="python")
        assert (answer.ok, answer.output, answer.ending) == (True, "[0, 1, 4, 9]", "answered")
        assert answer.code == "print([n * n for n in range(4)])"
        assert (answer.usage.requests, len(answer.attempts)) == (1, 1)
        assert "[0, 1, 4, 9]" in repr(answer)


def test_a_prompt_is_heard_while_it_is_answered(live: Either) -> None:
    heard: dict[str, list[str]] = {"text": [], "code": [], "stdout": []}
    with live.Client() as client:
        answer = client.interpret(
            "Print four squares",
            template="python",
            on_text=heard["text"].append,
            on_code=heard["code"].append,
            on_stdout=heard["stdout"].append,
        )
        assert "".join(heard["text"]).startswith("Here it is.")
        assert heard["code"] == [answer.code]
        assert "".join(heard["stdout"]) == "[0, 1, 4, 9]\n"
        assert answer.ok


def test_files_go_in_and_come_out(live: Either) -> None:
    with live.Client() as client:
        answer = client.interpret("Write a file", template="python", files={"in.txt": "hello"})
        assert [(file.path, file.content) for file in answer.files] == [
            ("/workspace/out.txt", b"HELLO")
        ]


def test_a_conversation_goes_on(live: Either) -> None:
    with live.Client() as client:
        first = client.interpret("Remember seven", template="python", conversation="new")
        again = client.interpret("And again", conversation=first.conversation_id)
        assert (again.output, again.sandbox_id) == ("8", first.sandbox_id)
        live.connect(first.sandbox_id, client=client).delete()


def test_prompts_that_come_to_nothing(live: Either) -> None:
    with live.Client() as client:
        blocked = client.interpret("Use the network", template="python", rounds=0)
        assert (blocked.ok, blocked.blocked, blocked.ending) == (False, True, "blocked")
        assert blocked.attempts[0].findings[0].rule == "network"
        for listening in ({}, {"on_text": str}):
            with pytest.raises(silica.SilicaError) as caught:
                client.interpret("Nobody knows this one", template="python", **listening)
            assert caught.value.code == "model_failed", caught.value
            with pytest.raises(silica.NotFound) as missing:
                client.interpret("Print squares", conversation="cnv_0", **listening)
            assert missing.value.code == "conversation_not_found"
