"""The loop of a kernel: takes frames from the host, runs cells, reports back.

Owns the control channel, the order of output and results, SIGINT, and what a
cell's end means. How code is run belongs to `shell`.
"""

from __future__ import annotations

import _signal
import _thread
import os
import sys

from silica_guest import bundles, interpreter, wire
from silica_guest.shell import Shell

CONTROL_FD = 3
EXIT_WIRE_BROKEN = 120
RESULTS_MAX = 64
RESULT_BYTES_MAX = 8 << 20
# Prints nothing. More than one call, by its last character, so that it is compiled the long way, which holds the short.
REHEARSAL = b"print(end='')\n"
REHEARSAL_FRAME = wire.front_of({"type": "run", "cell": 0, "env": {}}, REHEARSAL) + REHEARSAL


class Interrupts:
    """SIGINT: raises only within a cell, and never within a frame.

    `held` is touched by the main thread alone, the only one to run handlers.
    """

    def __init__(self) -> None:
        self.armed = False
        self.held = 0
        self.pending = False
        self.early = False

    def handle(self, signum: int, frame: object) -> None:
        """The handler itself."""
        if not self.armed:
            # Late for the last cell, or early for the next: the frame that came before it tells.
            self.early = True
            return
        if self.held:
            self.pending = True
            return
        self.pending = False
        raise KeyboardInterrupt

    def hold(self) -> None:
        """Puts interrupts off until `release`."""
        self.held += 1

    def release(self) -> None:
        """Ends a `hold`, raising what arrived meanwhile."""
        self.held -= 1
        if self.pending and not self.held:
            self.pending = False
            if self.armed:
                raise KeyboardInterrupt

    def restore(self) -> None:
        """Takes SIGINT back from user code."""
        if _signal.getsignal(_signal.SIGINT) != self.handle:
            _signal.signal(_signal.SIGINT, self.handle)


class Kernel:
    """One kernel on one control socket."""

    def __init__(self, channel: wire.Channel, shell: Shell) -> None:
        self.channel = channel
        self.shell = shell
        self.interrupts = Interrupts()
        self.pid = os.getpid()
        self.main_thread = _thread.get_ident()
        self.lock = _thread.RLock()
        self.cell: int | None = None
        self.seq = 0
        shell.emit = self.emit

    def greet(self) -> None:
        """Says the first word."""
        self.send({"type": "hello", "version": wire.VERSION, "python": sys.version.split()[0], "pid": self.pid})

    def rehearse(self) -> None:
        """Runs a cell that nobody sent and forgets it, while the host is busy with the first word.

        In a fork of a zygote the pages that a first cell writes to are this process's own after that. A host that
        has sent more already is not kept waiting. SIGINT is for a cell of the host's, and comes when this is over.
        """
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGINT})
        if not self.channel.has_input():
            self.channel.pretend(REHEARSAL_FRAME)
            status, exit_code, _ = self.perform(*self.channel.receive())
            interpreter.flush_streams()
            wire.front_of(self.end(status, exit_code), b"")
            self.shell.start_over()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def loop(self) -> None:
        """Serves until shutdown or the end of the stream."""
        while True:
            frame = self.channel.receive()
            if frame is None:
                return
            head, body = frame
            kind = head.get("type")
            if kind == "run":
                self.run(head, body)
            elif kind == "setup":
                self.setup(head)
            elif kind == "shutdown":
                return
            elif kind != "interrupt":  # That is one for a cell that has ended.
                raise wire.WireError(f"unexpected frame {kind!r}")

    def setup(self, head: dict) -> None:
        """Applies environment, arguments and working directory."""
        os.environ.update(head.get("env") or {})
        if "argv" in head:
            sys.argv = list(head["argv"])
        if head.get("cwd"):
            # A directory that is gone meanwhile is no reason to be without an interpreter.
            try:
                os.chdir(head["cwd"])
            except OSError:
                pass

    def run(self, head: dict, body: bytes) -> None:
        """Runs one cell and reports how it ended."""
        status, exit_code, error = self.perform(head, body)
        if os.getpid() != self.pid:
            # A child of the user's own fork came back from the cell: the parent speaks for it.
            interpreter.flush_streams()
            os._exit(exit_code)
        self.report(status, exit_code, error)

    def perform(self, head: dict, body: bytes) -> tuple[str, int, BaseException | None]:
        """Runs one cell; returns its status, its exit code and what it raised."""
        self.results_left = int(head.get("results_max", RESULTS_MAX))
        self.result_bytes_max = min(int(head.get("result_bytes_max", RESULT_BYTES_MAX)), wire.BODY_BYTES_MAX)
        self.dropped = self.too_large = 0
        self.cell = int(head["cell"])
        self.interrupts.pending = False
        before = borrow_environment(head.get("env") or {})
        try:
            error = self.attempt(body.decode("utf-8", "replace"))
        except KeyboardInterrupt as second:
            # A second SIGINT hit the few steps between catching and disarming.
            self.interrupts.armed = False
            error = second
        self.interrupts.restore()
        return_environment(before)
        return *self.judge(error), error

    def attempt(self, code: str) -> BaseException | None:
        """Runs the cell and shows open figures; returns what it raised."""
        error: BaseException | None = None
        self.interrupts.armed = True
        try:
            self.catch_up()
            self.shell.run(code)
        except BaseException as raised:  # noqa: BLE001 - user code may raise anything.
            error = raised
        try:
            self.shell.finish()
        except BaseException as raised:  # noqa: BLE001
            error = error or raised
        self.interrupts.armed = False
        return error

    def catch_up(self) -> None:
        """Raises an interrupt that was meant for this cell and arrived before it could."""
        if not self.interrupts.early:
            return
        self.interrupts.hold()
        try:
            self.interrupts.early = False
            while self.channel.has_input():
                head, _ = self.receive() or leave(EXIT_WIRE_BROKEN)
                if head.get("type") == "interrupt" and head.get("cell") == self.cell:
                    self.interrupts.pending = True
        finally:
            self.interrupts.release()

    def judge(self, error: BaseException | None) -> tuple[str, int]:
        """Returns status and exit code by Python's own rules."""
        if error is None:
            return "ok", 0
        if isinstance(error, KeyboardInterrupt):
            return "interrupted", 130
        if not isinstance(error, SystemExit):
            return "raised", 1
        if error.code is None:
            return "exited", 0
        if isinstance(error.code, int):
            return "exited", error.code & 0xFF
        try:
            print(error.code, file=sys.stderr)
        except Exception:  # A broken __str__ or stream; the exit code still tells.
            pass
        return "exited", 1

    def report(self, status: str, exit_code: int, error: BaseException | None) -> None:
        """Sends the error, if any, and the end of the cell."""
        interpreter.flush_streams()
        with self.lock:
            end = self.end(status, exit_code)
            if status in ("raised", "interrupted"):
                self.send_error(end["cell"], error)
            self.channel.send(end)

    def end(self, status: str, exit_code: int) -> dict:
        """Ends the cell; returns what to say of it."""
        cell, self.cell = self.cell, None
        return {
            "type": "done", "cell": cell, "status": status, "exit_code": exit_code, "count": self.shell.count,
            "results_dropped": self.dropped, "results_too_large": self.too_large,
        }  # fmt: skip

    def send_error(self, cell: int, error: BaseException) -> None:
        """Sends the error frame, shortened when its escaped form is over the cap."""
        try:
            from silica_guest import errors

            errors.remember_last(error)
            described = errors.describe(error)
        except (ImportError, OSError, MemoryError):
            # Out of files or memory, so that nothing can be loaded: say the least there is to say.
            described = {"name": type(error).__name__[:200], "value": str(error)[:1000], "traceback": []}
        head = {"type": "error", "cell": cell, **described}
        try:
            self.channel.send(head)
        except wire.FrameTooLarge:
            head["value"] = head["value"][:1000]
            head["traceback"] = head["traceback"][-20:]
            self.channel.send(head)

    def emit(self, data: dict, metadata: object, main: bool) -> None:
        """Sends one result and waits until the host has drained the output before it."""
        if os.getpid() != self.pid:
            return
        found, too_large = bundles.payloads(data, self.result_bytes_max)
        on_main = _thread.get_ident() == self.main_thread
        if on_main:
            self.interrupts.hold()
        try:
            with self.lock:
                self.emit_locked(found, too_large, bundles.safe_metadata(metadata), main)
        finally:
            if on_main:
                self.interrupts.release()

    def emit_locked(self, found: list[tuple[str, bytes]], too_large: bool, metadata: dict, main: bool) -> None:
        """The part of `emit` that has the channel to itself."""
        if self.cell is None:
            return  # A thread displays between cells: no cell to show it in.
        if not (found or too_large):
            return
        if self.results_left <= 0:
            self.dropped += 1
            return
        kept = bundles.fit(found, self.result_bytes_max)
        self.too_large += too_large or len(kept) < len(found)
        if not kept:
            return
        self.results_left -= 1
        self.seq += 1
        interpreter.flush_streams()
        mimes = [[mime, len(body)] for mime, body in kept]
        head = {"type": "result", "cell": self.cell, "seq": self.seq, "main": main, "mimes": mimes}
        self.send({**head, "metadata": metadata}, b"".join([body for _, body in kept]))
        self.await_ack()

    def await_ack(self) -> None:
        """Takes the ack of the result just sent."""
        kind = "interrupt"
        while kind == "interrupt":  # Its signal is what counts.
            frame = self.receive()
            kind = frame[0].get("type") if frame else "shutdown"
        if kind == "shutdown":
            leave(0)
        if kind != "ack" or frame[0].get("seq") != self.seq:
            leave(EXIT_WIRE_BROKEN)

    def send(self, head: dict, body: bytes = b"") -> None:
        """Sends within user code's stack, where our failure must not become its exception."""
        try:
            self.channel.send(head, body)
        except OSError:
            leave(EXIT_WIRE_BROKEN)

    def receive(self) -> tuple[dict, bytes] | None:
        """Receives within user code's stack; see `send`."""
        try:
            return self.channel.receive()
        except (OSError, wire.WireError):
            leave(EXIT_WIRE_BROKEN)


def borrow_environment(variables: dict[str, str]) -> dict[str, str | None]:
    """Sets variables for one cell; returns what they were."""
    if not variables:
        return {}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    return before


def return_environment(before: dict[str, str | None]) -> None:
    """Puts variables back, whatever the cell made of them."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def leave(code: int) -> None:
    """Ends the process without running anything of the user's."""
    interpreter.flush_streams()
    os._exit(code)


def _close_control() -> None:
    """Gives up the socket in the user's forks, so that the host sees the kernel's end when they outlive it."""
    try:
        os.close(CONTROL_FD)
    except OSError:
        pass  # The user closed it before.


def prepare(shell: Shell) -> Kernel:
    """Makes all of a kernel but its process: a zygote does it once for all of its children."""
    os.register_at_fork(after_in_child=_close_control)
    kernel = Kernel(wire.Channel(CONTROL_FD), shell)
    kernel.interrupts.restore()
    return kernel


def serve(kernel: Kernel | None = None) -> None:
    """Speaks for this process on the control socket until the end; never returns.

    With a kernel that was prepared this is a fork of its zygote, else a process of its own.
    """
    code = EXIT_WIRE_BROKEN
    try:
        os.set_inheritable(CONTROL_FD, False)
        os.set_blocking(CONTROL_FD, True)
        forked = kernel is not None
        if not forked:
            interpreter.configure_streams()
            kernel = prepare(Shell())
        kernel.pid = os.getpid()
        kernel.greet()
        if forked:
            kernel.rehearse()
        kernel.loop()
        code = 0
    finally:
        # Whatever was raised, the host is gone or makes no sense, and the
        # interpreter's own exit could wait for the user's threads for ever.
        leave(code)
