"""The real SDK against the server that `run` has started; addresses and key are in the environment."""

from __future__ import annotations

import importlib.metadata
import os
import time

import e2b_code_interpreter
import pytest
from either import Blocking, Loop

URL = os.environ["E2B_API_URL"]
IS_OLD = importlib.metadata.version("e2b") == "2.26.0"


def pytest_configure(config) -> None:
    config.addinivalue_line("markers", "newest: only what the newest SDK can say")


def pytest_collection_modifyitems(items) -> None:
    # What an old SDK has no words for is not run with it; `run` counts both.
    if IS_OLD:
        items[:] = [item for item in items if not item.get_closest_marker("newest")]


@pytest.fixture(scope="session")
def loop():
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=["sync", "async"])
def flavour(request) -> str:
    return request.param


@pytest.fixture
def api(flavour, loop):
    """The class `Sandbox`."""
    if flavour == "sync":
        return e2b_code_interpreter.Sandbox
    return Blocking(e2b_code_interpreter.AsyncSandbox, loop)


@pytest.fixture
def sandbox(api):
    sandbox = api.create(timeout=300)
    yield sandbox
    sandbox.kill()


def eventually(look, patience_s: float = 60):
    """Waits until something is true, and returns it."""
    until = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.02)
    return found


@pytest.fixture(name="eventually")
def eventually_fixture():
    return eventually
