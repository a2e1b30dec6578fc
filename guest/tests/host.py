"""Drives a real kernel process the way the host does: two pipes and a socket pair."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

GUEST = Path(__file__).resolve().parent.parent
FRESH = GUEST / "silica_guest" / "fresh.py"
# Starts the IPython gear before the first cell, as a zygote's child has it.
WARM = (
    "import sys; sys.path.append({guest!r}); from silica_guest import interpreter, kernel, shell; "
    "interpreter.prepare(); interpreter.configure_streams(); s = shell.Shell(); assert s.load_notebook(); kernel.serve(kernel.prepare(s))"
)
WAIT_S = 60


class Gone(Exception):
    """The kernel closed its end of the socket."""


class Host:
    """One kernel and its event list; gear is `plain` or `ipython`."""

    def __init__(self, gear: str = "plain", site: bool = True, **env: str) -> None:
        self.socket, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        args = [str(FRESH)] if gear == "plain" else ["-c", WARM.format(guest=str(GUEST))]
        keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        keep |= {"SILICA_SITE": sysconfig.get_path("purelib") if site else "", "SILICA_PREFIX": sys.prefix}
        launcher = (
            "import os,sys; s=int(sys.argv[1]); os.dup2(s,3); [os.close(f) for f in {s}-{3}]; "
            "os.execv(sys.argv[2], sys.argv[2:])"
        )
        command = [sys.executable, "-I", "-S", "-c", launcher, str(theirs.fileno()), sys.executable, "-I", "-S", "-B"]
        self.process = subprocess.Popen(
            command + args, stdin=subprocess.DEVNULL, stdout=out_write, stderr=err_write,
            pass_fds=[theirs.fileno()], env=keep | env,
        )
        for fd in (out_write, err_write):
            os.close(fd)
        theirs.close()
        self.pipes = {out_read: "out", err_read: "err"}
        self.buffer = b""
        self.cell = 0
        self.metadata: dict = {}
        self.display: tuple = (None, None)
        self.answers: list[str] = []
        self.hello = self.frame()[0]

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()
        for fd in self.pipes:
            os.close(fd)

    def send(self, head: dict, body: bytes = b"") -> None:
        raw = json.dumps(head).encode()
        self.socket.sendall(struct.pack("<II", len(raw), len(body)) + raw + body)

    def frame(self) -> tuple[dict, bytes]:
        """Returns the next frame. It does not read the pipes: a caller that expects output drains them."""
        while (parsed := self._parse()) is None:
            chunk = self.socket.recv(1 << 20)
            if not chunk:
                raise Gone
            self.buffer += chunk
        return parsed

    def _parse(self) -> tuple[dict, bytes] | None:
        if len(self.buffer) < 8:
            return None
        head_len, body_len = struct.unpack_from("<II", self.buffer)
        end = 8 + head_len + body_len
        if len(self.buffer) < end:
            return None
        head, body = self.buffer[8 : 8 + head_len], self.buffer[8 + head_len : end]
        self.buffer = self.buffer[end:]
        return json.loads(head), body

    def drain(self, events: list) -> None:
        """Appends the output that is in the pipes now to `events`, without waiting."""
        while ready := select.select(list(self.pipes), [], [], 0)[0]:
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    del self.pipes[fd]
                    os.close(fd)
                self._output(events, self.pipes.get(fd), data)

    def _output(self, events: list, name: str | None, data: bytes) -> None:
        if name and data:
            if events and events[-1][0] == name:
                events[-1] = (name, events[-1][1] + data)
            else:
                events.append((name, data))

    def start(self, code: str, **limits: int) -> None:
        self.cell += 1
        self.send({"type": "run", "cell": self.cell, **limits}, code.encode("utf-8", "surrogatepass"))

    def step(self, events: list) -> dict | None:
        """Waits for output or a frame and appends it to `events`; returns the head of a `done` frame."""
        deadline = time.monotonic() + WAIT_S
        if (parsed := self._parse()) is None:
            ready = select.select([*self.pipes, self.socket], [], [], deadline - time.monotonic())[0]
            assert ready, "the kernel sent nothing"
            if self.socket not in ready:
                self.drain(events)
                return None
            parsed = self.frame()
        self.drain(events)
        head, body = parsed
        if head["type"] == "result":
            data, at = {}, 0
            for mime, size in head["mimes"]:
                data[mime], at = body[at : at + size], at + size
            assert at == len(body) and head["cell"] == self.cell
            self.metadata = head["metadata"]
            self.display = head.get("display"), head.get("update")
            events.append(("main" if head["main"] else "display", data))
            self.send({"type": "ack", "seq": head["seq"]})
        elif head["type"] in ("clear", "comm", "input"):
            assert head["cell"] == self.cell
            events.append((head["type"], {**head, "body": body}))
            self.send({"type": "ack", "seq": head["seq"]})
            if head["type"] == "input" and self.answers:
                self.send({"type": "input", "cell": self.cell}, self.answers.pop(0).encode())
        elif head["type"] == "error":
            events.append(("error", head))
        elif head["type"] == "done":
            assert head["cell"] == self.cell
            return head
        return None

    def run(self, code: str, **limits: int) -> tuple[list, dict]:
        """Runs a cell; returns its events in order and the done head."""
        self.start(code, **limits)
        events: list = []
        while (done := self.step(events)) is None:
            pass
        return events, done

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


def texts(events: list) -> list:
    """Shortens events for comparing: text/plain of results, name of errors, text of output."""
    short = []
    for kind, data in events:
        if kind in ("main", "display"):
            short.append((kind, data.get("text/plain", b"").decode()))
        elif kind == "error":
            short.append((kind, data["name"]))
        else:
            short.append((kind, data.decode("utf-8", "replace")))
    return short


def strict(body: bytes) -> object:
    """Parses a JSON payload the way the strictest reader would."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    assert body.isascii(), body
    return json.loads(body, parse_constant=refuse)
