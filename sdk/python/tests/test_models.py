"""The values parsed from JSON of the server, and their repr."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from silica import (
    BadAnswer,
    CommandFailed,
    CommandResult,
    Entry,
    Execution,
    ExecutionFailed,
    Listing,
    Result,
    Run,
    SandboxInfo,
    Usage,
)
from silica.core.fields import Fields

CELL: dict[str, Any] = {
    "id": "c1",
    "kernel": "k1",
    "state": "done",
    "outcome": "ok",
    "exit_code": 0,
    "stdout": "hello\nworld\n",
    "stderr": "",
    "text": "42",
    "results": [{"main": True, "data": {"text/plain": "42", "image/png": "aGk="}}],
    "error": None,
    "files": {
        "created": [{"path": "/workspace/a.csv", "size": 10}],
        "changed": [],
        "removed": [{"path": "/workspace/b"}],
        "truncated": False,
    },
    "duration_ms": 1,
    "limits_hit": [],
    "truncated": {"stdout": 0, "stderr": 0, "results": 0},
    "usage": {"cpu_ms": 1.0, "memory_peak_bytes": None},
    "kernel_state": "ready",
    "lost": None,
    "a field of the future": [1],
}

SANDBOX: dict[str, Any] = {
    "id": "sbx_1",
    "state": "running",
    "template": "python",
    "metadata": {"user": "42"},
    "limits": {"cpus": 1.0},
    "created_at": "2026-01-01T00:00:00.000Z",
    "expires_at": "2026-01-01T01:00:00.000Z",
    "idle_seconds": 600,
    "max_cells": None,
    "cells_run": 0,
    "kernels": [{"id": "k1", "state": "idle", "cell": None, "cells_run": 0, "restarts": 0}],
    "end_reason": None,
    "ended_at": None,
    "containment": {"tier": "jail", "measures": {}},
}


def fields(values: object) -> Fields:
    return Fields.of(json.dumps(values), "it")


def cell(**changes: object) -> Execution:
    return Execution.parse(fields({**CELL, **changes}))


def test_a_cell() -> None:
    execution = cell()
    assert execution.ok
    assert execution.done
    assert execution.text == "42"
    assert execution.stdout == "hello\nworld\n"
    assert execution.results[0].png == b"hi"
    assert execution.files.created[0].path == "/workspace/a.csv"
    assert execution.files.removed[0].size is None
    assert execution.usage.cpu_ms == 1.0
    assert not execution.truncated
    assert execution.raise_for_error() is execution


def test_a_cell_that_runs() -> None:
    execution = Execution.parse(fields({"id": "c1", "kernel": "k1", "state": "running"}))
    assert not execution.done
    assert not execution.ok
    assert execution.outcome is None
    assert execution.results == []


def test_a_cell_that_raised() -> None:
    error = {"name": "ValueError", "value": "no", "traceback": ["Traceback", "ValueError: no"]}
    execution = cell(outcome="raised", error=error)
    with pytest.raises(ExecutionFailed, match="ValueError: no") as caught:
        execution.raise_for_error()
    assert caught.value.execution is execution
    assert caught.value.code == "raised"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limits_hit": [{"limit": "wall", "message": "over 30 s"}]}, "over 30 s"),
        ({"message": "too long"}, "too long"),
        ({"lost": "variables are gone"}, "variables are gone"),
        ({}, "the cell ended as timed_out"),
    ],
)
def test_what_a_failure_says(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ExecutionFailed, match=words):
        cell(outcome="timed_out", **changes).raise_for_error()


def test_an_execution_at_a_prompt() -> None:
    assert repr(cell()) == (
        "<Execution c1, ok, 1.0 ms>\n"
        "  stdout  hello\n"
        "          world\n"
        "  result  42, image/png\n"
        "  files   +/workspace/a.csv -/workspace/b"
    )
    error = {"name": "ValueError", "value": "no", "traceback": []}
    failed = cell(outcome="raised", error=error, stdout="x" * 1000, results=[], files=None)
    assert repr(failed) == (
        "<Execution c1, raised, 1.0 ms>\n"
        f"  stdout  {'x' * 400}… (1000 characters)\n"
        "  error   ValueError: no"
    )


def test_a_result_in_a_notebook() -> None:
    result = Result(main=True, data={"text/plain": "1", "text/html": "<b>1</b>"})
    assert result._repr_mimebundle_() == result.data
    assert result._repr_mimebundle_(include=["text/html"]) == {"text/html": "<b>1</b>"}
    assert result._repr_mimebundle_(exclude=["text/html"]) == {"text/plain": "1"}
    assert repr(result) == "<Result 1, text/html>"


def test_the_kinds_of_a_result() -> None:
    data = {
        "text/plain": "t",
        "text/html": "h",
        "text/markdown": "m",
        "text/latex": "l",
        "image/svg+xml": "s",
        "image/jpeg": "aGk=",
        "application/pdf": "aGk=",
        "application/json": {"a": 1},
        "application/vnd.silica.chart+json": '{"type": "line"}',
    }
    result = Result(main=False, data=data)
    texts = (result.text, result.html, result.markdown, result.latex, result.svg)
    assert texts == ("t", "h", "m", "l", "s")
    assert (result.png, result.jpeg, result.pdf) == (None, b"hi", b"hi")
    assert (result.json, result.chart, result.table) == ({"a": 1}, {"type": "line"}, None)
    with pytest.raises(BadAnswer, match="image/png is not valid base64"):
        _ = Result(main=False, data={"image/png": "a"}).png


def test_a_run() -> None:
    outputs = [
        {"path": "/workspace/a", "size": 2, "content_base64": "aGk="},
        {"path": "/workspace/b", "error": "there is no such file"},
    ]
    run = Run.parse(fields({**CELL, "outputs": outputs}))
    assert run.ok
    assert run.outputs == {"/workspace/a": b"hi"}
    assert run.missing == {"/workspace/b": "there is no such file"}
    assert repr(run).splitlines()[-2:] == [
        "  missing /workspace/b",
        "  outputs /workspace/a (2 bytes)",
    ]


def test_a_sandbox() -> None:
    info = SandboxInfo.parse(fields(SANDBOX))
    assert info.created_at == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert info.kernels[0].id == "k1"
    assert info.metadata == {"user": "42"}
    assert info.containment == {"tier": "jail", "measures": {}}


def test_a_command() -> None:
    result = CommandResult.parse(
        fields(
            {
                "id": "p1",
                "state": "done",
                "command": "false",
                "exit_code": 1,
                "outcome": "exited",
                "stderr": "a\nbad\n",
                "truncated": {"stdout": 0, "stderr": 3},
            }
        )
    )
    assert not result.ok
    assert result.truncated.stderr == 3
    assert repr(result) == "<CommandResult p1, exited 1: 'false'>\n  stderr  a\n          bad"
    with pytest.raises(CommandFailed, match="'false' exited with 1: bad") as caught:
        result.raise_for_error()
    assert caught.value.result is result


def test_a_listing() -> None:
    entry = {"path": "/workspace/a", "name": "a", "kind": "file", "size": 1, "mode": "644"}
    listing = Listing.parse(fields({"entries": [entry], "truncated": True}))
    assert listing == [Entry("/workspace/a", "a", "file", 1, 0o644, None)]
    assert listing.truncated


def test_usage() -> None:
    sample = {"at": "2026-01-01T00:00:10Z", "cpu_ms": 5, "memory_bytes": None}
    usage = Usage.parse(fields({"now": sample, "samples": [sample]}))
    assert usage.now.cpu_ms == 5.0
    assert usage.samples == [usage.now]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": None}, "id of it is a NoneType"),
        ({"id": 1}, "id of it is a int"),
        ({"cells_run": True}, "cells_run of it is a bool"),
        ({"kernels": {}}, "kernels of it is a dict"),
        ({"kernels": [1]}, "one of kernels of it must be a JSON object"),
        ({"created_at": "yesterday"}, "created_at of it is not a valid time"),
    ],
)
def test_an_answer_that_makes_no_sense(changes: dict[str, object], words: str) -> None:
    with pytest.raises(BadAnswer, match=words):
        SandboxInfo.parse(fields({**SANDBOX, **changes}))


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", "1", "[" * 100_000])
def test_an_answer_that_is_no_object(text: str) -> None:
    with pytest.raises(BadAnswer):
        Fields.of(text, "it")


def test_a_missing_field() -> None:
    with pytest.raises(BadAnswer, match="it has no id"):
        SandboxInfo.parse(fields({}))
