"""The objects of a zygote become immortal if CPython has immortal objects, and stay counted if not.

Each test runs in a process of its own: an immortal object cannot be made mortal again.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GUEST = Path(__file__).resolve().parent.parent
SINCE = (3, 12)

START = f"""
import ctypes, decimal, gc, json, re, sys, threading, weakref
sys.path.append({str(GUEST)!r})
from silica_guest import immortal
count = lambda thing: ctypes.c_uint32.from_address(id(thing)).value
def use():
    match = re.match("(a+)b", "aab")
    assert json.loads(json.dumps({{"a": [1.5, None]}})) == {{"a": [1.5, None]}} and match[1] == "aa"
    assert decimal.Decimal("1.1") + 1 == decimal.Decimal("2.1")
use()
"""


def newer_pythons() -> list[str]:
    """Interpreters on this machine that have immortal objects, one of each version."""
    names = [f"python3.{minor}" for minor in range(SINCE[1], SINCE[1] + 8)]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = {path.name: str(path) for path in versions.glob("*/bin/python3.*")}
    found = [kept.get(name) or shutil.which(name) for name in names]
    return [path for path in found if path and answers(path)]


def answers(path: str) -> bool:
    done = subprocess.run([path, "-I", "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    return done.returncode == 0 and eval(done.stdout) >= SINCE


def run(python: str, body: str) -> str:
    done = subprocess.run([python, "-I", "-B", "-c", START + body], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=newer_pythons() or [None])
def newer(request):
    if request.param is None:
        pytest.skip("no Python 3.12 or newer on this machine")
    return request.param


def test_use_writes_to_no_count(newer):
    body = """
held = [json.dumps, json.dumps.__code__, json.dumps.__code__.co_names, re.compile, decimal.Decimal, threading.Thread, "held"]
assert any(count(thing) != count(None) for thing in held)
assert immortal.make_immortal() > 10_000
assert [count(thing) for thing in held] == [count(None)] * len(held)
use()
assert [count(thing) for thing in held] == [count(None)] * len(held)
"""
    assert run(newer, body) == ""


def test_what_is_made_later_ends_as_ever(newer):
    body = """
class Node: pass
immortal.make_immortal(); gc.freeze()
ended = []
one = Node(); weakref.finalize(one, ended.append, "one"); del one
ring = Node(); ring.self = ring; weakref.finalize(ring, ended.append, "ring"); del ring
gc.collect()
made = type("Made", (Node,), {}); weakref.finalize(made, ended.append, "type"); del made
gc.collect()
thread = threading.Thread(target=use); thread.start(); thread.join()
print(ended)
"""
    assert run(newer, body) == "['one', 'ring', 'type']\n"


def test_child_has_nothing_that_the_parent_does_not(newer):
    # Hooks that make objects in children, as those of `threading` and `random` do: they must not run.
    body = """
import os, random
os.register_at_fork(after_in_child=lambda: setattr(json, "left", [object() for _ in range(1000)]))
immortal.make_immortal()
assert not hasattr(json, "left")
use(); gc.collect(); use()
random.random()
"""
    assert run(newer, body) == ""


def test_child_that_fails_changes_nothing(newer):
    body = """
before = count(json.dumps)
def fail(thing): raise MemoryError
immortal.parts = fail
print(immortal.make_immortal(), count(json.dumps) == before)
"""
    assert run(newer, body) == "0 True\n"


@pytest.mark.skipif(sys.version_info >= SINCE, reason="this Python has immortal objects")
def test_older_ones_go_on_counting():
    assert run(sys.executable, "print(immortal.make_immortal(), count(None) < immortal.IMMORTAL_LEAST); use()") == "0 True\n"
