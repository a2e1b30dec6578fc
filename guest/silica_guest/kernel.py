"""The loop of a kernel: takes frames from the host, runs cells, reports back.

Owns the control channel, the order of output and results, SIGINT, and the
status of a finished cell. `shell` runs the code.
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
PROMPT_CHARS_MAX = 10_000
DISPLAY_ID_CHARS_MAX = 200
COMM_CHARS_MAX = 1000
COMM_PARTS_MAX = 256
# Frames that may arrive while another is awaited. An `interrupt` precedes a signal, and an `input` is for
# code that does not wait for it any more.
LATE = ("interrupt", "input")
# Prints nothing. The newline at its end makes `Shell._compile_call` decline it, so that the fast path's
# check and the whole slow path run.
REHEARSAL = b"print(end='')\n"
REHEARSAL_FRAME = wire.front_of({"type": "run", "cell": 0, "env": {}}, REHEARSAL) + REHEARSAL


class Interrupts:
    """Raises KeyboardInterrupt on SIGINT while a cell runs, but never in the middle of a frame.

    Only the main thread runs signal handlers, and only it changes `held`.
    """

    def __init__(self) -> None:
        self.armed = False
        self.held = 0
        self.pending = False
        self.early = False

    def handle(self, signum: int, frame: object) -> None:
        """Handles SIGINT: raises KeyboardInterrupt, or records the signal if it must not raise now."""
        if not self.armed:
            # Late for the last cell or early for the next one. The `interrupt` frame that the host
            # sends before the signal names the cell; `catch_up` reads it.
            self.early = True
            return
        if self.held:
            self.pending = True
            return
        self.pending = False
        raise KeyboardInterrupt

    def hold(self) -> None:
        """Delays interrupts until `release`."""
        self.held += 1

    def release(self) -> None:
        """Ends a `hold`; raises KeyboardInterrupt if a signal arrived during it."""
        self.held -= 1
        if self.pending and not self.held:
            self.pending = False
            if self.armed:
                raise KeyboardInterrupt

    def restore(self) -> None:
        """Reinstalls this handler if user code replaced it."""
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
        self.writers: list[int] = []  # Processes that write an image of this one, to be reaped.
        shell.emit = self.emit
        shell.clear = self.clear
        shell.send_comm = self.send_comm

    def greet(self, left_behind: list[tuple[str, str]] | None = None) -> None:
        """Sends the `hello` frame, with what was not there when an image was woken."""
        head = {"type": "hello", "version": wire.VERSION}
        self.send(head if not left_behind else {**head, "left_behind": left_behind})

    def rehearse(self) -> None:
        """Runs an empty cell and discards it, while the host processes the `hello` frame.

        In a fork of a zygote this copies the pages that a cell writes to before the host's first cell
        needs them. It is skipped if the host has already sent a frame. SIGINT is blocked during it,
        since it is meant for a cell of the host, and is delivered afterwards.
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
        """Serves frames until the host closes the stream."""
        while True:
            frame = self.channel.receive()
            if frame is None:
                return
            head, body = frame
            kind = head.get("type")
            if self.writers:
                self.reap_writers()
            if kind == "run":
                self.run(head, body)
            elif kind == "setup":
                self.setup(head)
            elif kind == "complete":
                self.complete(head, body)
            elif kind == "write":
                self.write(head)
            elif kind == "inspect":
                self.inspect(head, body)
            elif kind == "check":
                self.check(head, body)
            elif kind not in LATE:  # One of these is for a cell that has ended.
                raise wire.WireError(f"unexpected frame {kind!r}")

    def setup(self, head: dict) -> None:
        """Applies environment, arguments and working directory."""
        os.environ.update(head.get("env") or {})
        if "argv" in head:
            sys.argv = list(head["argv"])
        if head.get("cwd"):
            # The directory may have been removed since; the kernel starts without it.
            try:
                os.chdir(head["cwd"])
            except OSError:
                pass

    def complete(self, head: dict, body: bytes) -> None:
        """Answers which names can follow the code before the cursor.

        Looking up attributes runs code of the user. The host interrupts it if it takes long.
        """
        from silica_guest import completion

        start, matches = 0, []
        self.interrupts.armed = True
        try:
            start, matches = completion.complete(self.shell, body.decode("utf-8", "replace"))
        except BaseException:  # noqa: BLE001 - user code may raise anything; there are no matches then.
            pass
        self.interrupts.armed = False
        self.interrupts.restore()
        interpreter.flush_streams()
        self.send({"type": "completions", "start": start, "matches": matches})

    def write(self, head: dict) -> None:
        """Has an image of this process written. Returns also in the process that has become the image."""
        from silica_guest import carry

        interpreter.flush_streams()
        carry.write(self, head)

    def reap_writers(self) -> None:
        """Reaps the processes that have written an image."""
        for writer in list(self.writers):
            try:
                ended, _ = os.waitpid(writer, os.WNOHANG)
            except ChildProcessError:
                ended = writer  # User code has reaped it.
            if ended:
                self.writers.remove(writer)

    def inspect(self, head: dict, body: bytes) -> None:
        """Answers what the name at the cursor is."""
        from silica_guest import inspection

        code = body.decode("utf-8", "replace")
        text = self.looked_up(inspection.inspect, code, int(head["cursor"]), int(head["detail"]))
        found = text is not None
        self.send({"type": "inspection", "found": found}, (text or "").encode("utf-8", "replace"))

    def check(self, head: dict, body: bytes) -> None:
        """Answers whether code is complete."""
        from silica_guest import inspection

        checked = self.looked_up(inspection.is_complete, body.decode("utf-8", "replace"))
        status, indent = checked or ("invalid", "")
        self.send({"type": "checked", "status": status, "indent": indent})

    def looked_up(self, look, *arguments: object):
        """Calls a function that may run code of the user; returns None if that raises or is interrupted."""
        found = None
        self.interrupts.armed = True
        try:
            found = look(self.shell, *arguments)
        except BaseException:  # noqa: BLE001 - user code may raise anything.
            pass
        self.interrupts.armed = False
        self.interrupts.restore()
        interpreter.flush_streams()
        return found

    def run(self, head: dict, body: bytes) -> None:
        """Runs one cell and reports how it ended."""
        status, exit_code, error = self.perform(head, body)
        if os.getpid() != self.pid:
            # This is a process that user code forked, and it returned from the cell. Only the
            # parent reports to the host.
            interpreter.flush_streams()
            os._exit(exit_code)
        self.report(status, exit_code, error)

    def perform(self, head: dict, body: bytes) -> tuple[str, int, BaseException | None]:
        """Runs one cell; returns its status, its exit code and the exception it raised."""
        self.results_left = int(head.get("results_max", RESULTS_MAX))
        self.result_bytes_max = min(int(head.get("result_bytes_max", RESULT_BYTES_MAX)), wire.BODY_BYTES_MAX)
        self.dropped = self.too_large = 0
        self.cell = int(head["cell"])
        self.interrupts.pending = False
        before = override_environment(head.get("env") or {})
        if "argv" in head:
            sys.argv = list(head["argv"])
        try:
            error = self.attempt(head, body)
        except KeyboardInterrupt as second:
            # A second SIGINT arrived between catching the first and disarming.
            self.interrupts.armed = False
            error = second
        self.interrupts.restore()
        if "input" in head:
            from silica_guest import asking

            asking.remove()
        restore_environment(before)
        return *self.judge(error), error

    def attempt(self, head: dict, body: bytes) -> BaseException | None:
        """Runs the cell and shows open figures; returns the exception it raised."""
        error: BaseException | None = None
        if "input" in head:
            from silica_guest import asking

            asking.install(self.ask)
        self.interrupts.armed = True
        try:
            self.catch_up()
            if "comm" in head:
                from silica_guest import comms

                comms.deliver(head["comm"], body)
            else:
                self.shell.run(body.decode("utf-8", "replace"), head.get("name"))
        except BaseException as raised:  # noqa: BLE001 - user code may raise anything.
            error = raised
        try:
            self.shell.finish()
        except BaseException as raised:  # noqa: BLE001
            error = error or raised
        self.interrupts.armed = False
        return error

    def catch_up(self) -> None:
        """Raises an interrupt for this cell whose signal arrived before the cell was armed."""
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
        except Exception:  # A broken __str__ or stream; the exit code still reports the failure.
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
        """Ends the cell; returns the head of its `done` frame."""
        cell, self.cell = self.cell, None
        return {
            "type": "done", "cell": cell, "status": status, "exit_code": exit_code,
            "results_dropped": self.dropped, "results_too_large": self.too_large,
        }  # fmt: skip

    def send_error(self, cell: int, error: BaseException) -> None:
        """Sends the error frame, shortened when its escaped form is over the cap."""
        try:
            from silica_guest import errors

            errors.remember_last(error)
            described = errors.describe(error)
        except (ImportError, OSError, MemoryError):
            # Out of descriptors or memory, so `errors` cannot be loaded: send the minimum.
            described = {"name": type(error).__name__[:200], "value": str(error)[:1000], "traceback": []}
        head = {"type": "error", "cell": cell, **described}
        try:
            self.channel.send(head)
        except wire.FrameTooLarge:
            head["value"] = head["value"][:1000]
            head["traceback"] = head["traceback"][-20:]
            self.channel.send(head)

    def emit(self, data: dict, metadata: object, main: bool, display: tuple[str, bool] | None = None) -> None:
        """Sends one result and waits until the host has drained the output before it.

        `display` is the id of the result, and whether it replaces earlier ones of that id.
        """
        if os.getpid() != self.pid:
            return
        found, too_large = bundles.payloads(data, self.result_bytes_max)
        more = {"main": main, "metadata": bundles.safe_metadata(metadata)}
        if display is not None:
            more["display"], more["update"] = str(display[0])[:DISPLAY_ID_CHARS_MAX], bool(display[1])
        self.undisturbed(self.emit_locked, found, too_large, more)

    def undisturbed(self, send, *arguments: object) -> None:
        """Calls a function that sends frames: under the lock, and without an interrupt in the middle."""
        on_main = _thread.get_ident() == self.main_thread
        if on_main:
            self.interrupts.hold()
        try:
            with self.lock:
                send(*arguments)
        finally:
            if on_main:
                self.interrupts.release()

    def clear(self, wait: bool) -> None:
        """Asks the client to remove what the cell has shown."""
        if os.getpid() == self.pid:
            self.undisturbed(self.send_in_order, {"type": "clear", "wait": bool(wait)})

    def send_comm(self, kind: str, comm_id: str, target: str, metadata: object, parts: list[bytes]) -> None:
        """Sends a message of a comm: its data as JSON, and its buffers."""
        if os.getpid() != self.pid:
            return
        if len(parts) > COMM_PARTS_MAX or sum(map(len, parts)) > self.result_bytes_max:
            raise ValueError("the message of a comm is too large")
        head = {
            "type": "comm", "kind": kind, "id": str(comm_id)[:COMM_CHARS_MAX], "target": str(target)[:COMM_CHARS_MAX],
            "metadata": bundles.safe_metadata(metadata), "parts": [len(part) for part in parts],
        }  # fmt: skip
        self.undisturbed(self.send_in_order, head, b"".join(parts))

    def send_in_order(self, head: dict, body: bytes = b"") -> None:
        """Sends a frame of the running cell after the output before it; the caller holds the lock."""
        if self.cell is None:
            return  # A user thread sent it between cells; it belongs to no cell.
        self.seq += 1
        interpreter.flush_streams()
        self.send({**head, "cell": self.cell, "seq": self.seq}, body)
        self.await_ack()

    def ask(self, prompt: str, password: bool) -> str:
        """Asks the client for a line, and waits for it; an interrupt ends the wait."""
        if os.getpid() != self.pid or self.cell is None:
            raise EOFError("EOF when reading a line")
        self.undisturbed(
            self.send_in_order, {"type": "input", "prompt": prompt[:PROMPT_CHARS_MAX], "password": password}
        )
        with self.lock:
            while True:
                self.channel.wait()
                self.interrupts.hold()
                try:
                    head, body = self.receive() or leave(0)
                finally:
                    self.interrupts.release()
                if head.get("type") == "input":
                    return body.decode("utf-8", "replace")
                if head.get("type") != "interrupt":
                    leave(EXIT_WIRE_BROKEN)

    def emit_locked(self, found: list[tuple[str, bytes]], too_large: bool, more: dict) -> None:
        """Sends one result and waits for its ack; the caller holds the lock."""
        if self.cell is None:
            return  # A user thread displayed a value between cells; it belongs to no cell.
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
        mimes = [[mime, len(body)] for mime, body in kept]
        self.send_in_order({"type": "result", "mimes": mimes, **more}, b"".join([body for _, body in kept]))

    def await_ack(self) -> None:
        """Waits for the ack of the result just sent; ends the process if the host has closed the stream."""
        kind = "interrupt"
        while kind in LATE:  # The signal that follows an `interrupt` is for the cell, not for the frame.
            head, _ = self.receive() or leave(0)
            kind = head.get("type")
        if kind != "ack" or head.get("seq") != self.seq:
            leave(EXIT_WIRE_BROKEN)

    def send(self, head: dict, body: bytes = b"") -> None:
        """Sends a frame; ends the process if that fails.

        User code is on the stack: an exception of ours must not reach its handlers.
        """
        try:
            self.channel.send(head, body)
        except OSError:
            leave(EXIT_WIRE_BROKEN)

    def receive(self) -> tuple[dict, bytes] | None:
        """Receives a frame; ends the process if that fails, like `send`."""
        try:
            return self.channel.receive()
        except (OSError, wire.WireError):
            leave(EXIT_WIRE_BROKEN)


def override_environment(variables: dict[str, str]) -> dict[str, str | None]:
    """Sets variables for one cell; returns their previous values, None for those that were unset."""
    if not variables:
        return {}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    return before


def restore_environment(before: dict[str, str | None]) -> None:
    """Restores the values that `override_environment` returned, even if the cell changed the variables."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def leave(code: int) -> None:
    """Flushes the streams and ends the process without running exit handlers of user code."""
    interpreter.flush_streams()
    os._exit(code)


def _close_control() -> None:
    """Closes the control socket in processes that user code forks.

    Otherwise the host would not see the end of a kernel that such a process outlives.
    """
    try:
        os.close(CONTROL_FD)
    except OSError:
        pass  # User code has closed it.


def prepare(shell: Shell) -> Kernel:
    """Builds a kernel that `serve` can run. A zygote does this once for all its children."""
    os.register_at_fork(after_in_child=_close_control)
    kernel = Kernel(wire.Channel(CONTROL_FD), shell)
    kernel.interrupts.restore()
    return kernel


def serve(kernel: Kernel | None = None) -> None:
    """Serves the host on the control socket; never returns.

    With a prepared `kernel` this process is a fork of a zygote, without one a new interpreter.
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
        # Whatever was raised, the host has closed or broken the stream. The
        # interpreter's own exit could wait for user threads for ever.
        leave(code)
