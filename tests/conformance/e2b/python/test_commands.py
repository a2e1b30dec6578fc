"""Commands and terminals."""

from __future__ import annotations

import threading

import pytest
from conftest import IS_OLD
from e2b import CommandExitException, PtySize
from e2b.exceptions import (
    AuthenticationException,
    InvalidArgumentException,
    NotFoundException,
    SandboxException,
    TimeoutException,
)

if IS_OLD:
    import httpcore


def test_what_a_command_says(sandbox):
    out, err = [], []
    result = sandbox.commands.run(
        "echo one; echo two >&2; pwd; echo $HOME $USER $A; whoami",
        envs={"A": "b c"},
        on_stdout=out.append,
        on_stderr=err.append,
    )
    assert result.stdout == "one\n/home/user\n/home/user user b c\nuser\n"
    assert (result.stderr, result.exit_code) == ("two\n", 0) and not result.error
    assert ("".join(out), "".join(err)) == (result.stdout, result.stderr)
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    many = sandbox.commands.run("seq 1 100000").stdout.split()
    assert many == [str(number) for number in range(1, 100_001)]


def test_how_a_command_ends(sandbox):
    with pytest.raises(CommandExitException) as raised:
        sandbox.commands.run("echo out; echo err >&2; exit 3")
    ended = raised.value
    assert (ended.exit_code, ended.stdout, ended.stderr, ended.error) == (3, "out\n", "err\n", "exit status 3")
    with pytest.raises(CommandExitException) as raised:
        sandbox.commands.run("no-such-program")
    assert raised.value.exit_code == 127
    with pytest.raises(CommandExitException) as raised:
        sandbox.commands.run("kill -9 $$")
    assert raised.value.error == "signal: killed"


def test_what_is_refused(sandbox):
    with pytest.raises(AuthenticationException):
        sandbox.commands.run("id", user="root")
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run("pwd", cwd="/no/such/directory")
    assert sandbox.commands.run("id -un", user="user").stdout == "user\n"


def test_time_runs_out(sandbox, eventually):
    # The old SDK looks at the clock itself as well, and then says it in its HTTP library's words.
    with pytest.raises((TimeoutException, httpcore.TimeoutException) if IS_OLD else TimeoutException):
        sandbox.commands.run("sleep 600", timeout=1)
    assert eventually(lambda: sandbox.commands.list() == [])


def test_in_the_background(sandbox):
    handle = sandbox.commands.run("echo begun; sleep 600", background=True, envs={"X": "y"}, timeout=0)
    listed = sandbox.commands.list()
    assert [one.pid for one in listed] == [handle.pid]
    assert (listed[0].cmd, listed[0].args) == ("/bin/bash", ["-l", "-c", "echo begun; sleep 600"])
    assert (listed[0].envs, listed[0].cwd) == ({"X": "y"}, "/home/user") and not listed[0].tag
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException):
        handle.wait()
    assert sandbox.commands.list() == []
    assert sandbox.commands.kill(handle.pid) is False
    assert sandbox.commands.kill(99999) is False


def test_waiting_for_one_in_the_background(sandbox):
    handle = sandbox.commands.run("echo a; sleep 0.2; echo b", background=True)
    result = handle.wait()
    assert (result.stdout, result.exit_code) == ("a\nb\n", 0)


def test_input(sandbox):
    handle = sandbox.commands.run("read line; echo got $line; read line; echo $line", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "one\n")
    sandbox.commands.send_stdin(handle.pid, "two\n")
    assert handle.wait().stdout == "got one\ntwo\n"
    with pytest.raises((NotFoundException, SandboxException)):
        sandbox.commands.send_stdin(99999, "x")


@pytest.mark.newest
def test_the_end_of_input(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "all")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "all"


@pytest.mark.newest
def test_input_as_a_stream(flavour, sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    if flavour == "sync":
        sandbox.commands.stream_input(handle.pid, iter(["one\n", b"two\n"]))
    else:
        stream = sandbox.commands.stream_input(handle.pid)
        stream.send("one\n")
        stream.send(b"two\n")
        stream.close()
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "one\ntwo\n"


def test_a_command_outlives_its_client(sandbox, eventually):
    script = "until [ -e go ]; do sleep 0.02; done; echo late; echo done > result"
    handle = sandbox.commands.run(script, background=True, timeout=0)
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    assert [one.pid for one in sandbox.commands.list()] == [handle.pid]
    sandbox.files.write("go", "")
    assert again.wait().stdout == "late\n"
    assert sandbox.files.read("result") == "done\n"
    # Its end is kept for clients that connect later.
    assert sandbox.commands.connect(handle.pid).wait().exit_code == 0
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(99999)


def test_commands_of_a_killed_sandbox(api, sandbox):
    handle = sandbox.commands.run("sleep 600", background=True, timeout=0)
    sandbox.kill()
    # The connection breaks. The old SDK says so in its HTTP library's words.
    broken = (httpcore.NetworkError, httpcore.RemoteProtocolError) if IS_OLD else ()
    with pytest.raises((TimeoutException, SandboxException, *broken)):
        handle.wait()
    with pytest.raises(TimeoutException):
        sandbox.commands.run("echo")
    with pytest.raises(TimeoutException):
        sandbox.files.list(".")


def test_terminal(flavour, sandbox, eventually):
    said = bytearray()

    def take(data) -> None:
        said.extend(data)

    size = PtySize(rows=24, cols=80)
    if flavour == "sync":
        handle = sandbox.pty.create(size, cwd="/tmp", envs={"A": "b"}, timeout=0)

        def read() -> None:
            # The terminal is ended by its shell, and that is no failure.
            handle.wait(on_pty=take)

        thread = threading.Thread(target=read)
        thread.start()
    else:
        handle, thread = sandbox.pty.create(size, on_data=take, cwd="/tmp", envs={"A": "b"}, timeout=0), None
    sandbox.pty.send_stdin(handle.pid, b"echo $((6*7)) $A $PWD; tput cols\n")
    assert eventually(lambda: b"42 b /tmp" in said)
    sandbox.pty.resize(handle.pid, PtySize(rows=50, cols=132))
    sandbox.pty.send_stdin(handle.pid, b"stty size\n")
    assert eventually(lambda: b"50 132" in said)
    sandbox.pty.send_stdin(handle.pid, b"exit\n")
    if thread:
        thread.join(60)
    else:
        handle.wait()
    other = sandbox.pty.create(size, timeout=0) if flavour == "sync" else sandbox.pty.create(size, on_data=take, timeout=0)
    assert sandbox.pty.kill(other.pid) is True
    assert eventually(lambda: sandbox.commands.list() == [])
    assert sandbox.pty.kill(other.pid) is False
