"""Fixtures: both clients, and a real server if SILICA_BINARY names one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from either import Either, async_kind, sync_kind

# In the background of a script Ctrl-C is ignored, and Python then raises nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The answers of the model to prompts that contain a word.
TURNS = [
    ("squares", "print([n * n for n in range(4)])"),
    ("seven", "x = 7"),
    ("again", "print(x + 1)"),
    ("file", "text = open('in.txt').read(); open('out.txt', 'w').write(text.upper())"),
    ("network", "import socket"),
]


def _turn(when: str, code: str) -> str:
    said = f"Here it is.\n```python\n{code}\n```\n"
    return f"[[turn]]\nwhen = {json.dumps(when)}\ntext = {json.dumps(said)}\n"


@pytest.fixture(params=["sync", "async"])
def either(request: pytest.FixtureRequest) -> Iterator[Either]:
    """The blocking classes, then the asynchronous ones under the same names."""
    if request.param == "sync":
        yield sync_kind()
        return
    loop = asyncio.new_event_loop()
    yield async_kind(loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server for the test session: its `url` and an admin `key`.

    In the place of a model it has one that knows a few answers by heart.
    """
    binary = os.environ.get("SILICA_BINARY")
    if not binary:
        pytest.skip("SILICA_BINARY names no binary")
    script = tmp_path_factory.mktemp("model") / "script.toml"
    script.write_text("".join(_turn(*turn) for turn in TURNS))
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--print", "json"]
    for setting in ("model.provider=scripted", f"model.script={script}"):
        command += ["--set", setting]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"the server said nothing and ended with {process.wait()}"
            yield json.loads(line)
        finally:
            process.terminate()
            process.wait()


@pytest.fixture
def live(server: dict[str, str], either: Either, monkeypatch: pytest.MonkeyPatch) -> Either:
    """Each client, with the environment variables of the real server."""
    monkeypatch.setenv("SILICA_URL", server["url"])
    monkeypatch.setenv("SILICA_KEY", server["key"])
    return either
