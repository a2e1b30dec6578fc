"""Every method against a real server, in both kinds.

Nothing here measures time: what has to run for a while waits for a file that the test makes.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from either import Either

import silica

pytestmark = pytest.mark.live

# Says that it runs, then waits for the file `go`.
WAITING = """
import os, time
print("waiting", flush=True)
while not os.path.exists("/workspace/go"):
    time.sleep(0.01)
print("went")
"""


@pytest.fixture
def sandbox(live: Either) -> Iterator[Any]:
    with live.Sandbox.create(template="python", ttl_seconds=300) as one:
        yield one


# Sandboxes


def test_a_sandbox_from_birth_to_death(live: Either, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"\0\1")
    with live.Sandbox.create(
        template="python",
        limits={"memory_bytes": 256 << 20, "wall_seconds": 20},
        env={"GREETING": "hello"},
        metadata={"test": "birth"},
        ttl_seconds=100,
        idle_seconds=50,
        max_cells=10,
        inputs={"a.txt": "text", "b.bin": b"\xff", "m": tmp_path / "m"},
        interpreter="fresh",
    ) as one:
        info = one.info()
        assert (info.id, info.state, info.template) == (one.id, "running", "python")
        assert info.metadata == {"test": "birth"}
        assert info.limits["memory_bytes"] == 256 << 20
        assert (info.idle_seconds, info.max_cells) == (50, 10)
        assert [kernel.id for kernel in info.kernels] == ["k1"]
        assert info.containment is not None
        code = """
import os
names = ("a.txt", "b.bin", "m")
os.environ["GREETING"], *(open("/data/input/" + name, "rb").read() for name in names)
"""
        shown = one.run_code(code).raise_for_error().text
        assert shown == r"('hello', b'text', b'\xff', b'\x00\x01')"
        assert one.info().cells_run == 1
        one.extend(1000)
        assert info.expires_at is not None
        assert one.info().expires_at > info.expires_at
        usage = one.usage()
        assert usage.now.disk_bytes is None or usage.now.disk_bytes >= 0
        id = one.id
    ended = live.connect(id)
    assert ended.info().state == "ended"
    assert ended.info().end_reason == "deleted"
    with pytest.raises(silica.SandboxEnded):
        ended.run_code("1")
    ended.delete()
    ended.close()


def test_connecting(live: Either, sandbox: Any) -> None:
    sandbox.run_code("x = 42")
    with live.Sandbox.connect(sandbox.id) as again:
        assert again.run_code("x").text == "42"
    assert sandbox.info().state == "running"
    with pytest.raises(silica.NotFound) as caught:
        live.connect("sbx_nothing")
    assert caught.value.code == "sandbox_not_found"
    assert caught.value.request_id


def test_copies_of_a_sandbox(live: Either, sandbox: Any) -> None:
    sandbox.run_code("import os; x = [1]; r, w = os.pipe(); open('notes', 'w').write('kept')")
    twins = sandbox.fork(2, metadata={"copy": "yes"}, ttl_seconds=200)
    for number, twin in enumerate(twins):
        assert twin.info().metadata == {"copy": "yes"}
        assert {thing.kind for thing in twin.left_behind} == {"pipe"}
        twin.run_code(f"x.append({number}); open('notes', 'a').write('{number}')")
        assert twin.run_code("print(x, open('notes').read())").stdout == f"[1, {number}] kept{number}\n"
    assert sandbox.run_code("print(x, open('notes').read())").stdout == "[1] kept\n"
    for twin in twins:
        twin.delete()
    sandbox.run_code("import subprocess; child = subprocess.Popen(['sleep', '99'])")
    with pytest.raises(silica.Conflict, match="process sleep"):
        sandbox.fork()
    (twin,) = sandbox.fork(processes="leave")
    with twin:
        assert [thing.name for thing in twin.left_behind if thing.kind == "process"] == ["sleep"]


def test_snapshots_and_undo(live: Either, sandbox: Any) -> None:
    sandbox.run_code("x = 1; open('notes', 'w').write('one')")
    mark = sandbox.mark()
    snapshot = sandbox.snapshot("loaded")
    assert (snapshot.name, snapshot.sandbox, snapshot.left_behind) == ("loaded", sandbox.id, [])
    sandbox.run_code("x = 2; open('notes', 'w').write('two')")
    assert sandbox.undo() == mark
    look = "print(x, open('notes').read())"
    assert sandbox.run_code(look).stdout == "1 one\n"
    sandbox.run_code("x = 3")
    assert sandbox.undo(mark) == mark
    with live.Sandbox.create(snapshot=snapshot, ttl_seconds=100) as other:
        assert other.run_code(look).stdout == "1 one\n"
    with pytest.raises(silica.NotFound):
        sandbox.undo("m99")


def test_listing(live: Either) -> None:
    made = [live.create(template="python", metadata={"test": "listing"}) for _ in range(3)]
    try:
        listed = live.Sandbox.list(metadata={"test": "listing"}, page_size=2)
        assert {info.id for info in listed} == {one.id for one in made}
        assert list(live.Sandbox.list(metadata={"test": "no such thing"})) == []
        made[0].delete()
        states = [
            info.state
            for info in live.Sandbox.list(metadata={"test": "listing"}, state="ended")
            if info.id == made[0].id
        ]
        assert states == ["ended"]
    finally:
        for one in made:
            one.delete()
            one.close()


def test_the_last_cell(live: Either) -> None:
    with live.Sandbox.create(template="python", max_cells=1) as one:
        assert one.run_code("print('x' * 1_000_000)").outcome == "ok"
        with pytest.raises(silica.SandboxEnded):
            one.run_code("1")


# Cells


def test_a_cell(sandbox: Any) -> None:
    heard: list[Any] = []
    code = """
import sys
print("out")
print("err", file=sys.stderr)
open("made.txt", "w").write("12345")
"""
    execution = sandbox.run_code(
        code,
        on_stdout=lambda text: heard.append(("stdout", text)),
        on_stderr=lambda text: heard.append(("stderr", text)),
        on_result=lambda result: heard.append(("result", result.text)),
    )
    assert execution.ok
    assert (execution.stdout, execution.stderr, execution.text) == ("out\n", "err\n", "5")
    assert [result.main for result in execution.results] == [True]
    assert [(file.path, file.size) for file in execution.files.created] == [
        ("/workspace/made.txt", 5)
    ]
    assert execution.kernel_state == "ready"
    assert execution.duration_ms > 0
    assert sorted(heard) == [("result", "5"), ("stderr", "err\n"), ("stdout", "out\n")]
    assert sandbox.cells()[0].id == execution.id


def test_code_that_raises(sandbox: Any) -> None:
    heard: list[Any] = []
    execution = sandbox.run_code("1/0", on_error=heard.append)
    assert execution.outcome == "raised"
    assert execution.error.name == "ZeroDivisionError"
    assert heard == [execution.error]
    with pytest.raises(silica.ExecutionFailed, match="division by zero"):
        execution.raise_for_error()


def test_a_cell_that_takes_too_long(sandbox: Any) -> None:
    execution = sandbox.run_code("while True: pass", timeout=0.3)
    assert execution.outcome == "timed_out"
    assert execution.limits_hit[0].limit == "wall"


def test_more_output_than_is_kept(live: Either) -> None:
    heard: list[str] = []
    with live.Sandbox.create(template="python", limits={"output_bytes": 4096}) as one:
        execution = one.run_code("print('x' * 3_000_000)", on_stdout=heard.append)
        quiet = one.run_code("print('x' * 3_000_000)")
    assert "".join(heard) == "x" * 3_000_000 + "\n"
    assert execution.truncated.stdout > 0
    assert len(execution.stdout) < 8192
    assert execution.stdout == quiet.stdout


def test_a_cell_in_the_background(sandbox: Any) -> None:
    cell = sandbox.start_code(WAITING)
    events = iter(cell.events())
    assert next(events) == silica.Start(1, cell.id)
    assert next(events) == silica.Stdout(2, "waiting\n")
    assert cell.result().state == "running"
    with pytest.raises(silica.TimedOut):
        cell.wait(timeout=0)
    cell.extend(5)
    sandbox.files.write("go", "")
    rest = list(events)
    assert rest[0] == silica.Stdout(3, "went\n")
    assert isinstance(rest[-1], silica.Done)
    assert rest[-1].execution.outcome == "ok"
    assert cell.wait().stdout == "waiting\nwent\n"
    assert cell.wait(timeout=5).ok
    assert list(cell.events(after=3)) == rest[1:]
    assert list(cell.events(after=rest[-1].id)) == []
    assert sandbox.cell(cell.id).result().done
    with pytest.raises(silica.Conflict) as caught:
        cell.interrupt()
    assert caught.value.code == "cell_ended"
    with pytest.raises(silica.NotFound):
        sandbox.cell("c999").result()


def test_interrupting_a_cell(sandbox: Any) -> None:
    cell = sandbox.start_code(WAITING)
    for event in cell.events():
        if isinstance(event, silica.Stdout):
            cell.interrupt()
    execution = cell.wait()
    assert execution.outcome == "interrupted"
    assert sandbox.run_code("1").text == "1"


def test_control_c(server: dict[str, str]) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with (
        silica.Client(server["url"], server["key"]) as client,
        silica.Sandbox.create(template="python", client=client) as one,
    ):
        pressed = threading.Event()

        def press() -> None:
            pressed.wait()
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            one.run_code(WAITING, on_stdout=lambda _: pressed.set())
        # The next cell of the kernel runs only because the first has ended.
        assert one.run_code("1").text == "1"
        assert one.cells()[-1].outcome == "interrupted"


class Flaky:
    """A proxy that cuts each connection after a number of bytes of answers."""

    def __init__(self, url: str, cut_after: int) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port or 80)
        self._cut_after = cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._address)
            threading.Thread(target=_copy, args=(client, server, None), daemon=True).start()
            copied = (server, client, self._cut_after)
            threading.Thread(target=_copy, args=copied, daemon=True).start()

    def close(self) -> None:
        """Accepts no more connections."""
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket, left: int | None) -> None:
    with suppress(OSError):
        while left is None or left > 0:
            data = source.recv(1024 if left is None else min(left, 1024))
            if not data:
                break
            left = None if left is None else left - len(data)
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def test_a_bad_line_misses_nothing(live: Either, server: dict[str, str]) -> None:
    heard: list[str] = []
    with live.Sandbox.create(template="python", limits={"output_bytes": 4 << 20}) as one:
        # Room for several events of the largest size, so that each connection brings some.
        flaky = Flaky(server["url"], 300_000)
        try:
            far = live.Sandbox(live.Client(flaky.url, server["key"]), one.id)
            code = "for number in range(60_000): print(number, 'x' * 20)"
            execution = far.run_code(code, on_stdout=heard.append)
        finally:
            flaky.close()
    expected = "".join(f"{number} {'x' * 20}\n" for number in range(60_000))
    assert "".join(heard) == expected
    assert execution.stdout == expected
    assert flaky.connections > 2


# Kernels


def test_kernels(sandbox: Any) -> None:
    sandbox.run_code("x = 1")
    second = sandbox.kernels.create(env={"WHO": "second"}, directory="/tmp")
    assert [kernel.id for kernel in sandbox.kernels.list()] == ["k1", second.id]
    assert second.run_code("import os; os.environ['WHO'], os.getcwd()").text == (
        "('second', '/tmp')"
    )
    assert second.run_code("x").error.name == "NameError"
    assert sandbox.run_code("x", kernel="k1").text == "1"
    assert sandbox.run_code("os.getcwd()", kernel=second).text == "'/tmp'"
    assert second.info().cells_run == 3
    cell = second.start_code("import time\nprint('here', flush=True)\ntime.sleep(100)")
    for event in cell.events():
        if isinstance(event, silica.Stdout):
            second.interrupt()
    assert cell.wait().outcome == "interrupted"
    second.interrupt()
    second.restart()
    assert second.run_code("os").error.name == "NameError"
    assert second.info().restarts == 1
    started = sandbox.start_code("2", kernel=second, timeout=9)
    assert started.wait().text == "2"
    second.delete()
    with pytest.raises(silica.SilicaError):
        second.run_code("1")
    with pytest.raises(silica.NotFound):
        sandbox.kernels.get("k999").info()


# Commands


def test_a_command(sandbox: Any) -> None:
    heard: list[str] = []
    result = sandbox.commands.run(
        "echo out; echo err >&2; echo $WHO; pwd; exit 3",
        env={"WHO": "me"},
        directory="/tmp",
        timeout=30,
        on_stdout=heard.append,
    )
    assert (result.exit_code, result.outcome, result.ok) == (3, "exited", False)
    assert (result.stdout, result.stderr) == ("out\nme\n/tmp\n", "err\n")
    assert "".join(heard) == result.stdout
    with pytest.raises(silica.CommandFailed, match="exited with 3: err"):
        result.raise_for_error()
    assert sandbox.commands.run(["printf", "%s", "a b; c"]).stdout == "a b; c"
    assert sandbox.commands.list()[0].id
    with pytest.raises(silica.CannotStart):
        sandbox.commands.run(["no-such-program"])


def test_a_command_with_input(sandbox: Any) -> None:
    assert sandbox.commands.run("cat", stdin="häl").stdout == "häl"
    assert sandbox.commands.run("wc -c", stdin=b"\0" * 300_000).stdout.strip() == "300000"
    assert sandbox.commands.run("head -c 1", stdin="x" * 1_000_000).ok
    assert sandbox.commands.run("cat").stdout == ""


def test_a_command_that_runs(sandbox: Any) -> None:
    handle = sandbox.commands.start("while read line; do echo got $line; done", stdin=True)
    handle.send_stdin("one\n")
    events = iter(handle)
    assert isinstance(next(events), silica.Start)
    assert next(events).text == "got one\n"
    assert handle.result().state == "running"
    with pytest.raises(silica.TimedOut):
        handle.wait(timeout=0)
    handle.send_stdin(b"two\n")
    handle.close_stdin()
    assert isinstance(list(events)[-1], silica.Exited)
    result = handle.wait()
    assert result.ok
    assert result.stdout == "got one\ngot two\n"
    assert [event.text for event in handle.events() if isinstance(event, silica.Stdout)]
    assert sandbox.commands.get(handle.id).wait(timeout=5).ok


def test_signals(sandbox: Any) -> None:
    trapping = "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    handle = sandbox.commands.start(trapping)
    for event in handle:
        if isinstance(event, silica.Stdout) and "ready" in event.text:
            handle.signal("TERM")
    assert handle.wait().exit_code == 7
    handle = sandbox.commands.start("sleep 1000")
    handle.signal(15)
    assert (handle.wait().outcome, handle.wait().exit_code) == ("killed", 143)
    handle = sandbox.commands.start("sleep 1000")
    handle.kill()
    assert handle.wait().exit_code == 137
    with pytest.raises(silica.Conflict):
        handle.kill()
    assert sandbox.commands.run("sleep 1000", timeout=0.2).outcome == "timed_out"


def test_a_terminal(sandbox: Any) -> None:
    handle = sandbox.commands.start("stty size; read x; stty size", terminal=(100, 30))
    printed = ""
    for event in handle:
        if isinstance(event, silica.Stdout):
            printed += event.text
            if "30 100" in event.text:
                handle.resize(120, 40)
                handle.send_stdin("\n")
    assert handle.wait().ok
    assert printed.index("30 100") < printed.index("40 120")


# Files


def test_files(sandbox: Any) -> None:
    files = sandbox.files
    written = files.write("dir/a.txt", "häl\r\n", mode=0o600)
    assert (written.path, written.name, written.kind) == ("/workspace/dir/a.txt", "a.txt", "file")
    assert (written.size, written.mode) == (6, 0o600)
    assert files.read("./dir//a.txt") == "häl\r\n"
    assert files.write("b", b"0123456789").size == 10
    assert files.read_bytes("b", start=2, length=3) == b"234"
    assert files.read_bytes("b", start=8) == b"89"
    assert files.stat("/workspace/b").size == 10
    assert files.exists("b")
    assert not files.exists("c")
    files.mkdir("deep/er")
    files.mkdir("deep/er")
    assert {entry.path for entry in files.list()} == {
        "/workspace/dir",
        "/workspace/b",
        "/workspace/deep",
    }
    assert {entry.name for entry in files.list("dir")} == {"a.txt"}
    assert "/workspace/deep/er" in {entry.path for entry in files.list(".", depth=2)}
    files.move("b", "deep/b")
    with pytest.raises(silica.Conflict):
        files.move("deep/b", "dir/a.txt")
    files.move("deep/b", "dir/a.txt", overwrite=True)
    assert files.read("dir/a.txt") == "0123456789"
    files.remove("dir")
    assert not files.exists("dir")
    assert sandbox.run_code("import os; sorted(os.listdir('/workspace'))").text == "['deep']"


def test_files_that_cannot_be(sandbox: Any) -> None:
    files = sandbox.files
    sandbox.run_code("import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')")
    files.write("a", "")
    with pytest.raises(silica.NotFound) as caught:
        files.read("none")
    assert caught.value.code == "file_not_found"
    for refused in ("link", "pipe"):
        with pytest.raises(silica.Refused):
            files.read(refused)
    # What the code can read outside the writable directories is read, and nothing there is written.
    assert files.read("/etc/passwd")
    with pytest.raises(silica.SilicaError):
        files.write("/etc/passwd", "x")
    with pytest.raises(silica.BadRequest):
        files.read("../etc/passwd")
    with pytest.raises(silica.NotAFile):
        files.read(".")
    with pytest.raises(silica.NotADirectory):
        files.list("a")


def test_a_full_disk(live: Either) -> None:
    limits = {"disk_bytes": 2 << 20, "file_bytes": 64 << 20}
    with live.Sandbox.create(template="python", limits=limits) as one:
        with pytest.raises((silica.DiskFull, silica.TooLarge)):
            one.files.write("a", b"x" * (4 << 20))
        assert one.files.write("b", "x").size == 1


def test_transfers(sandbox: Any, tmp_path: Path) -> None:
    data = os.urandom(5_000_000)
    (tmp_path / "big.bin").write_bytes(data)
    files = sandbox.files
    assert files.upload(tmp_path / "big.bin").size == len(data)
    with (tmp_path / "big.bin").open("rb") as file:
        assert files.upload(file, "copy.bin", mode=0o640).mode == 0o640
    code = "import hashlib; hashlib.sha256(open('copy.bin', 'rb').read()).hexdigest()"
    assert sandbox.run_code(code).text == repr(hashlib.sha256(data).hexdigest())
    assert files.download("copy.bin", tmp_path).read_bytes() == data
    assert files.download("copy.bin", tmp_path / "back").read_bytes() == data
    sink = io.BytesIO()
    files.download("big.bin", sink)
    assert sink.getvalue() == data


def test_directories(sandbox: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub/empty").mkdir(parents=True)
    (source / "sub/a").write_text("1")
    (source / "ü").write_text("2")
    sandbox.files.upload_dir(source, "project")
    assert sandbox.files.read("project/sub/a") == "1"
    sandbox.run_code("open('project/new', 'w').write('3')")
    target = sandbox.files.download_dir("project", tmp_path / "target")
    found = {str(path.relative_to(target)) for path in target.rglob("*")}
    assert found == {"sub", "sub/empty", "sub/a", "ü", "new"}
    assert (target / "new").read_text() == "3"


def test_links(sandbox: Any) -> None:
    put = sandbox.files.link("a b.txt", method="PUT", expires_seconds=60)
    assert httpx.put(put.url, content=b"by link").is_success
    get = sandbox.files.link("a b.txt")
    assert httpx.get(get.url).content == b"by link"
    assert httpx.put(get.url, content=b"no").status_code == 403


# Other resources


def test_a_one_off_run(live: Either, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"2")
    run = live.run(
        "import sys, os; open('out', 'wb').write(open('a', 'rb').read() + open('b', 'rb').read());"
        "print(sys.argv[1], os.environ['K'])",
        template="python",
        env={"K": "V"},
        arguments=["arg"],
        limits={"wall_seconds": 20},
        timeout=10,
        files={"a": "1", "b": tmp_path / "b"},
        outputs=["/workspace/out", "missing"],
    )
    assert run.ok
    assert run.stdout == "arg V\n"
    assert run.outputs == {"/workspace/out": b"12"}
    assert list(run.missing) == ["/workspace/missing"]


def test_keys_and_the_audit(live: Either) -> None:
    with live.Client() as client:
        made = client.create_key("of a test")
        with live.Client(key=made["key"]) as other:
            assert other.stats()["sandboxes"] == 0
            with pytest.raises(silica.Forbidden):
                other.keys()
            with live.Sandbox.create(template="python", client=other) as one:
                one.run_code("'needle in the audit'")
                with pytest.raises(silica.NotFound):
                    live.connect(one.id, client=client)
                assert other.audit(sandbox=one.id, limit=5)["executions"]
        assert made["id"] in {key["id"] for key in client.keys()["keys"]}
        client.revoke_key(made["id"])
        with live.Client(key=made["key"]) as other, pytest.raises(silica.Unauthorized):
            other.stats()
        assert client.verify_audit()["ok"] is True
        assert "python" in {template["name"] for template in client.templates()["templates"]}
        assert client.template("python")["name"] == "python"
        with pytest.raises(silica.NotFound):
            client.template("no-such-template")


def test_a_wrong_key(live: Either) -> None:
    with live.Client(key="silica_" + "0" * 40) as client, pytest.raises(silica.Unauthorized):
        client.stats()


def test_bad_limits(live: Either) -> None:
    with pytest.raises(silica.BadRequest) as caught:
        live.create(limits={"cpus": -1})
    assert caught.value.code == "bad_limit"
    with pytest.raises(silica.BadRequest):
        live.create(limits={"wheels": 4})
    with pytest.raises(silica.NotFound):
        live.create(template="no-such-template")


def test_code_is_completed_inspected_and_answered(sandbox: Any) -> None:
    kernel = sandbox.kernels.get("k1")
    assert kernel.complete("import math; prin") == ["print"]
    assert "sep" in kernel.inspect("print", 2)
    assert kernel.inspect("nothing_like_this") is None
    cell = sandbox.start_code("print('hello', input('name? '))", input=True)
    asked = []
    for event in cell.events():
        if isinstance(event, silica.Question):
            asked.append((event.prompt, event.password))
            cell.input("bob")
    assert asked == [("name? ", False)]
    assert cell.wait().stdout == "hello bob\n"
