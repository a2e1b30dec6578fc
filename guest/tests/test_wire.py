"""How a kernel waits for the host."""

from __future__ import annotations

import os
import select  # noqa: F401 - A channel waits with it where it is loaded.
import socket
import time
from pathlib import Path

import pytest
from silica_guest import wire

PATIENCE_SECONDS = 5


def sleeps(pid: int) -> int:
    """Waits until a process sleeps; returns how often it has gone to sleep."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        if status["State"].startswith("S"):
            return int(status["voluntary_ctxt_switches"])
        time.sleep(0.01)
    raise TimeoutError("it never sleeps")


def test_whoever_waits_notices_that_its_socket_was_replaced():
    ours, theirs = socket.socketpair()
    channel = wire.Channel(theirs.fileno())
    reader, writer = os.pipe()
    os.dup2(writer, theirs.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        channel.receive()


def test_whoever_waits_is_not_woken_when_the_host_reads(monkeypatch):
    monkeypatch.setattr(wire, "SOON_MILLIS", PATIENCE_SECONDS * 1000)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        channel = wire.Channel(theirs.fileno())
        channel.send({"type": "hello"})
        os._exit(0 if channel.receive() == ({"type": "run"}, b"1") else 1)
    host = wire.Channel(ours.fileno())
    before = sleeps(pid)
    assert host.receive() == ({"type": "hello"}, b"")
    time.sleep(0.1)
    after = sleeps(pid)
    host.send({"type": "run"}, b"1")
    assert os.waitpid(pid, 0)[1] == 0
    assert after == before
