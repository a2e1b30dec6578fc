"""Both clients over real sockets: connections, retries, broken streams, giving up."""

from __future__ import annotations

import asyncio
import io
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any

import httpx
import pytest
from either import Either
from scripted import Reply, Scripted, answer, events
from test_models import CELL, SANDBOX

import silica
from silica.core import http, requests, retry

START = (1, "start", {"cell": "c1", "kernel": "k1"})
HELLO = (2, "stdout", {"text": "hello "})
WORLD = (3, "stdout", {"text": "wörld\n"})
SHOWN = (4, "result", {"main": True, "data": {"text/plain": "42"}})
DONE = (5, "done", {k: v for k, v in CELL.items() if k not in {"stdout", "stderr", "results"}})

CELLS = "/v1/sandboxes/sbx_1/cells"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.0)


def sandbox(either: Either, server: Scripted, **options: Any) -> Any:
    return either.Sandbox(either.Client(server.url, "key", **options), "sbx_1")


def test_connections_are_kept(either: Either) -> None:
    with Scripted([answer(SANDBOX)] * 3) as server:
        one = sandbox(either, server)
        assert [one.info().id for _ in range(3)] == ["sbx_1"] * 3
    assert [request.connection for request in server.requests] == [1, 1, 1]
    headers = server.requests[0].headers
    assert headers["x-api-key"] == "key"
    assert headers["user-agent"].startswith("silica-python/")
    assert headers["accept-encoding"] == "identity"


def test_small_requests_are_not_held_back() -> None:
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in http.socket_options()
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in http.socket_options()


def test_nobody_there(either: Either) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(
        silica.CannotConnect, match="start the server with `silica serve`"
    ) as caught:
        either.Client(url).stats()
    assert url in str(caught.value)
    assert caught.value.status is None


def test_a_connection_that_fails_is_made_again(either: Either) -> None:
    tries: list[str] = []

    def connect(request: httpx.Request) -> httpx.Response:
        tries.append(request.method)
        if len(tries) < 3:
            raise httpx.ConnectError("refused")
        return httpx.Response(201, json=SANDBOX)

    client = either.Client("http://host", transport=httpx.MockTransport(connect))
    assert either.create(client=client).id == "sbx_1"
    assert tries == ["POST"] * 3


@pytest.mark.parametrize("status", [429, 503])
def test_come_back_later(either: Either, status: int) -> None:
    busy = answer({"code": "queue_full", "detail": "busy"}, status, Retry_After="0")
    with Scripted([busy, busy, answer(SANDBOX), busy]) as server:
        one = sandbox(either, server)
        assert one.info().id == "sbx_1"
        with pytest.raises(silica.SilicaError, match="busy"):
            one.run_code("1")
    assert server.said == ["GET /v1/sandboxes/sbx_1"] * 3 + [f"POST {CELLS}"]


def test_attempts_are_bounded(either: Either) -> None:
    busy = answer({"code": "rate_limited", "detail": "busy"}, 429, Retry_After="0")
    with Scripted([busy] * 9) as server, pytest.raises(silica.RateLimited) as caught:
        sandbox(either, server, retries=2).info()
    assert len(server.requests) == 3
    assert caught.value.retry_after == 0.0


def test_a_long_pause_is_the_callers_to_take(either: Either) -> None:
    busy = answer({"code": "rate_limited", "detail": "busy"}, 429, Retry_After="3600")
    with Scripted([busy] * 9) as server, pytest.raises(silica.RateLimited) as caught:
        sandbox(either, server).info()
    assert len(server.requests) == 1
    assert caught.value.retry_after == 3600.0


def test_a_lost_answer_is_not_asked_for_again(either: Either) -> None:
    with Scripted([Reply(b"", hang_up=True)]) as server, pytest.raises(silica.ConnectionLost):
        sandbox(either, server).info()
    assert len(server.requests) == 1


def test_no_answer_in_time(either: Either) -> None:
    with Scripted([Reply(b"")]) as server, pytest.raises(silica.TimedOut):
        sandbox(either, server, timeout=0.05).info()


def test_a_cell(either: Either) -> None:
    heard: list[Any] = []
    with Scripted([events(START, HELLO, WORLD, SHOWN, DONE)]) as server:
        execution = sandbox(either, server).run_code(
            "print()", on_stdout=heard.append, on_result=heard.append, timeout=5, kernel="k1"
        )
    assert server.said == [f"POST {CELLS}"]
    sent = server.requests[0]
    assert sent.json == {"code": "print()", "kernel": "k1", "timeout_seconds": 5}
    assert sent.headers["accept"] == "text/event-stream"
    assert execution.ok
    assert execution.stdout == "hello wörld\n"
    assert execution.text == "42"
    assert heard == ["hello ", "wörld\n", execution.results[0]]


# Without its last line end an event is incomplete, and is requested again.
@pytest.mark.parametrize(("cut", "after"), [(0, 3), (1, 2), (2, 2), (30, 2), (60, 1)])
def test_a_stream_that_breaks_is_taken_up_again(either: Either, cut: int, after: int) -> None:
    heard: list[str] = []
    script = [
        events(START, HELLO, WORLD, cut=cut, ended=False),
        Reply(b"", hang_up=True),
        events(HELLO, WORLD, SHOWN, ended=False),
        events(DONE),
    ]
    with Scripted(script) as server:
        execution = sandbox(either, server).run_code("x", on_stdout=heard.append)
    assert heard == ["hello ", "wörld\n"]
    assert execution.stdout == "hello wörld\n"
    assert [result.text for result in execution.results] == ["42"]
    assert server.said == [
        f"POST {CELLS}",
        f"GET {CELLS}/c1/events?after={after}",
        f"GET {CELLS}/c1/events?after={after}",
        f"GET {CELLS}/c1/events?after=4",
    ]


def test_a_stream_that_breaks_before_it_names_the_cell(either: Either) -> None:
    with Scripted([events(ended=False)]) as server:
        with pytest.raises(
            silica.ConnectionLost, match="before the server sent the id of the cell"
        ):
            sandbox(either, server).run_code("x")
        assert server.said == [f"POST {CELLS}"]


def test_the_head_of_a_stream_may_name_the_cell(either: Either) -> None:
    script = [events(ended=False, location=f"{CELLS}/c1"), events(START, DONE)]
    with Scripted(script) as server:
        assert sandbox(either, server).run_code("x").ok
    assert server.said[1] == f"GET {CELLS}/c1/events"


def test_a_stream_that_breaks_too_often(either: Either) -> None:
    script = [events(START, ended=False), *([Reply(b"", hang_up=True)] * 99)]
    with Scripted(script) as server:
        with pytest.raises(silica.ConnectionLost, match="cell c1 may still be running"):
            sandbox(either, server).run_code("x")
        assert len(server.requests) == 7


def test_output_that_was_cut_is_reported_as_the_server_kept_it(either: Either) -> None:
    truncated = {"stdout": 7, "stderr": 0, "results": 0}
    done = (5, "done", {**DONE[2], "truncated": truncated})
    kept = {**CELL, "stdout": "he…d", "truncated": truncated}
    with Scripted([events(START, HELLO, done), answer(kept)]) as server:
        assert sandbox(either, server).run_code("x").stdout == "he…d"
    assert server.said[1] == f"GET {CELLS}/c1"


def test_a_gap_is_filled_from_what_the_server_kept(either: Either) -> None:
    gap = b'event: gap\ndata: {"events": 3}\n\n'
    stream = events(START, (5, "stdout", {"text": "end"}), (6, "done", DONE[2]))
    raw = stream.raw.replace(b"id: 5\n", gap + b"id: 5\n")
    head, _, content = raw.partition(b"\r\n\r\n")
    size, _, rest = content.partition(b"\r\n")
    length = b"%x" % (int(size, 16) + len(gap))
    script = [Reply(head + b"\r\n\r\n" + length + b"\r\n" + rest), answer(CELL)]
    with Scripted(script) as server:
        assert sandbox(either, server).run_code("x").stdout == CELL["stdout"]


def test_a_callback_that_raises_interrupts_the_cell(either: Either) -> None:
    def fail(text: str) -> None:
        raise ZeroDivisionError(text)

    with Scripted([events(START, HELLO, ended=False), answer(None, 204)]) as server:
        with pytest.raises(ZeroDivisionError, match="hello"):
            sandbox(either, server).run_code("x", on_stdout=fail)
        assert server.said[1] == f"POST {CELLS}/c1/interrupt"


def test_control_c_interrupts_the_cell() -> None:
    main = threading.main_thread().ident
    assert main is not None
    heard = threading.Event()

    def press() -> None:
        heard.wait()
        signal.pthread_kill(main, signal.SIGINT)

    # The stream stays open and silent, so the client is waiting when the signal comes.
    silent = Reply(events(START, HELLO).raw.removesuffix(b"0\r\n\r\n"))
    with Scripted([silent, answer(None, 204)]) as server:
        one = silica.Sandbox(silica.Client(server.url), "sbx_1")
        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            one.run_code("x", on_stdout=lambda _: heard.set())
        assert server.said == [f"POST {CELLS}", f"POST {CELLS}/c1/interrupt"]


def test_a_cancelled_task_interrupts_the_cell() -> None:
    async def cancelled(url: str) -> None:
        async with silica.AsyncClient(url) as client:
            heard = asyncio.Event()

            async def note(_: str) -> None:
                heard.set()

            one = silica.AsyncSandbox(client, "sbx_1")
            task = asyncio.create_task(one.run_code("x", on_stdout=note))
            await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    silent = Reply(events(START, HELLO).raw.removesuffix(b"0\r\n\r\n"))
    with Scripted([silent, answer(None, 204)]) as server:
        asyncio.run(cancelled(server.url))
        assert server.said == [f"POST {CELLS}", f"POST {CELLS}/c1/interrupt"]


def test_events_of_a_cell(either: Either) -> None:
    script = [events(WORLD, ended=False), events(SHOWN, DONE)]
    with Scripted(script) as server:
        found = list(sandbox(either, server).cell("c1").events(after=2))
    assert [event.id for event in found] == [3, 4, 5]
    assert found[-1] == silica.Done(5, found[-1].execution)
    assert server.said == [
        f"GET {CELLS}/c1/events?after=2",
        f"GET {CELLS}/c1/events?after=3",
    ]


def test_events_after_the_last(either: Either) -> None:
    with Scripted([events(), answer(CELL)]) as server:
        assert list(sandbox(either, server).cell("c1").events(after=5)) == []


def test_events_may_be_left_early(either: Either) -> None:
    with Scripted([events(START, HELLO, ended=False), answer(CELL)]) as server:
        cell = sandbox(either, server).cell("c1")
        for event in cell.events():
            assert event == silica.Start(1, "c1")
            break
        assert cell.result().done


def test_waiting_goes_through_broken_connections(either: Either) -> None:
    running = answer({"id": "c1", "kernel": "k1", "state": "running"})
    script = [running, Reply(b"", hang_up=True), answer(CELL)]
    with Scripted(script) as server:
        assert sandbox(either, server).cell("c1").wait().ok
    assert server.said == [f"GET {CELLS}/c1?wait=20"] * 3


def test_waiting_for_too_long(either: Either) -> None:
    running = answer({"id": "c1", "kernel": "k1", "state": "running"})
    with Scripted([running]) as server, pytest.raises(silica.TimedOut, match="it is still running"):
        sandbox(either, server).cell("c1").wait(timeout=0)


ENTRY = {"path": "/workspace/a b", "name": "a b", "kind": "file", "size": 3, "mode": "644"}
CONTENT = "/v1/sandboxes/sbx_1/files/content"


def test_an_upload(either: Either, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    (tmp_path / "a b").write_bytes(data)
    handle = io.BytesIO(b"skipped" + data)
    handle.seek(7)
    with Scripted([answer(ENTRY, 201)] * 3) as server:
        files = sandbox(either, server).files
        assert files.upload(tmp_path / "a b").size == 3
        files.upload(str(tmp_path / "a b"), "/tmp/x&y", mode=0o600)
        files.upload(handle, "b")
    assert server.said == [
        f"PUT {CONTENT}?path=a%20b",
        f"PUT {CONTENT}?path=%2Ftmp%2Fx%26y&mode=600",
        f"PUT {CONTENT}?path=b",
    ]
    assert all(request.body == data for request in server.requests)
    lengths = {request.headers.get("content-length") for request in server.requests}
    assert lengths == {str(len(data))}


def test_an_upload_of_unknown_length(either: Either) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with Scripted([answer(ENTRY, 201)]) as server:
        sandbox(either, server).files.upload(Pipe(b"x" * 1_000_000), "b")
    assert server.requests[0].body == b"x" * 1_000_000
    assert "content-length" not in server.requests[0].headers


def test_an_upload_is_sent_again_only_from_its_start(either: Either) -> None:
    busy = answer({"detail": "busy"}, 503, Retry_After="0")
    with Scripted([busy, answer(ENTRY, 201)]) as server:
        sandbox(either, server).files.upload(io.BytesIO(b"abc"), "b")
    assert [request.body for request in server.requests] == [b"abc", b"abc"]


def test_a_download(either: Either, tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    sink = io.BytesIO()
    with Scripted([Reply(head + data)] * 3) as server:
        files = sandbox(either, server).files
        assert files.download("out/a.bin", tmp_path) == tmp_path / "a.bin"
        assert files.download("out/a.bin", tmp_path / "b") == tmp_path / "b"
        assert files.download("out/a.bin", sink) is None
    assert (tmp_path / "a.bin").read_bytes() == data
    assert (tmp_path / "b").read_bytes() == data
    assert sink.getvalue() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "b"]


def test_half_a_download_leaves_nothing(either: Either, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    half = Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", hang_up=True)
    missing = answer({"code": "file_not_found", "detail": "no"}, 404)
    with Scripted([half, missing]) as server:
        files = sandbox(either, server).files
        with pytest.raises(silica.ConnectionLost):
            files.download("a", tmp_path)
        with pytest.raises(silica.NotFound):
            files.download("a", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_directories(either: Either, tmp_path: Path) -> None:
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/sub/a").write_text("hi")
    with Scripted([answer(None, 204)]) as server:
        sandbox(either, server).files.upload_dir(tmp_path / "in", "data")
    sent = server.requests[0]
    assert sent.target == "/v1/sandboxes/sbx_1/files/archive?path=data"
    assert sent.headers["content-type"] == "application/x-tar"
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(sent.body)}\r\n\r\n".encode()
    with Scripted([Reply(head + sent.body)]) as server:
        out = tmp_path / "out"
        assert sandbox(either, server).files.download_dir("data", out) == out
    assert (tmp_path / "out/sub/a").read_text() == "hi"


def test_a_command_with_input(either: Either) -> None:
    started = {"id": "p1", "state": "running", "command": "head -1"}
    done = {"id": "p1", "state": "done", "command": "head -1", "outcome": "exited", "exit_code": 0}
    stream = events(
        (1, "start", {"command": "p1"}),
        (2, "stdout", {"base64": "/w=="}),
        (3, "done", done),
    )
    ended = answer({"code": "command_ended", "detail": "it has"}, 409)
    with Scripted([answer(started, 202), ended, stream]) as server:
        result = sandbox(either, server).commands.run("head -1", stdin="a\nb\n")
    assert result.ok
    assert result.stdout == "\ufffd"
    commands = "/v1/sandboxes/sbx_1/commands"
    assert server.said == [
        f"POST {commands}",
        f"POST {commands}/p1/stdin?close=true",
        f"GET {commands}/p1/events",
    ]
    assert server.requests[0].json == {"command": "head -1", "stdin": True, "background": True}
    assert server.requests[1].body == b"a\nb\n"


def test_a_command_given_up_is_killed(either: Either) -> None:
    def fail(text: str) -> None:
        raise ZeroDivisionError(text)

    stream = events((1, "start", {"command": "p1"}), HELLO, ended=False)
    with Scripted([stream, answer(None, 204)]) as server:
        with pytest.raises(ZeroDivisionError):
            sandbox(either, server).commands.run(["cat", "x"], on_stdout=fail)
        assert server.requests[0].json == {"arguments": ["cat", "x"]}
        assert server.requests[1].target.endswith("/commands/p1/signal")
        assert server.requests[1].json == {"signal": "KILL"}


def test_pages(either: Either) -> None:
    pages = [
        answer({"sandboxes": [SANDBOX, {**SANDBOX, "id": "sbx_2"}], "next_page": "p/2"}),
        answer({"sandboxes": [{**SANDBOX, "id": "sbx_3"}], "next_page": None}),
    ]
    with Scripted(pages) as server:
        client = either.Client(server.url)
        listed = either.Sandbox.list(metadata={"user": "4 2"}, state="ended", client=client)
        assert [info.id for info in listed] == ["sbx_1", "sbx_2", "sbx_3"]
    assert server.said == [
        "GET /v1/sandboxes?state=ended&metadata.user=4%202",
        "GET /v1/sandboxes?state=ended&page=p%2F2&metadata.user=4%202",
    ]


def test_a_sandbox_is_deleted_at_the_end(
    either: Either, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"\0")
    inputs = {"a": "text", "b": b"hi", "c": tmp_path / "x", "d": silica.Shared("corpus")}
    with Scripted([answer(SANDBOX, 201), answer(None, 204)]) as server:
        monkeypatch.setenv("SILICA_URL", server.url)
        limits: silica.Limits = {"cpus": 0.5}
        with either.Sandbox.create(limits=limits, inputs=inputs, ttl_seconds=60) as one:
            assert one.id == "sbx_1"
    assert server.said == ["POST /v1/sandboxes", "DELETE /v1/sandboxes/sbx_1"]
    assert server.requests[0].json == {
        "limits": {"cpus": 0.5},
        "ttl_seconds": 60,
        "inputs": [
            {"name": "a", "content": "text"},
            {"name": "b", "content_base64": "aGk="},
            {"name": "c", "content_base64": "AA=="},
            {"name": "d", "shared": "corpus"},
        ],
    }


def test_one_that_was_connected_to_is_left(either: Either, monkeypatch: pytest.MonkeyPatch) -> None:
    with Scripted([answer(SANDBOX)]) as server:
        monkeypatch.setenv("SILICA_URL", server.url)
        with either.Sandbox.connect("sbx_1") as one:
            assert one.id == "sbx_1"
    assert server.said == ["GET /v1/sandboxes/sbx_1"]


def test_an_error_in_the_block_matters_more(either: Either) -> None:
    fault = answer({"detail": "cannot delete"}, 500)
    with Scripted([answer(SANDBOX, 201), fault, answer(SANDBOX, 201), fault]) as server:
        client = either.Client(server.url)
        with pytest.raises(ZeroDivisionError), either.Sandbox.create(client=client):
            _ = 1 / 0
        with (
            pytest.raises(silica.ServerFault, match="cannot delete"),
            either.Sandbox.create(client=client),
        ):
            pass


def test_deleting_what_has_ended_is_fine(either: Either) -> None:
    gone = answer({"code": "sandbox_not_found", "detail": "no"}, 404)
    ended = answer({"code": "sandbox_ended", "detail": "no"}, 409)
    with Scripted([gone, ended]) as server:
        one = sandbox(either, server)
        one.delete()
        one.delete()


def test_whether_a_file_exists(either: Either) -> None:
    missing = answer({"code": "file_not_found", "detail": "no"}, 404)
    gone = answer({"code": "sandbox_not_found", "detail": "no"}, 404)
    with Scripted([answer(ENTRY), missing, gone]) as server:
        files = sandbox(either, server).files
        assert files.exists("a b")
        assert not files.exists("c")
        with pytest.raises(silica.NotFound):
            files.exists("d")


def test_a_part_of_a_file(either: Either) -> None:
    part = Reply(b"HTTP/1.1 206 x\r\nContent-Length: 2\r\n\r\nhi")
    with Scripted([part] * 3) as server:
        files = sandbox(either, server).files
        assert files.read_bytes("a", start=5, length=2) == b"hi"
        assert files.read_bytes("a", start=5) == b"hi"
        assert files.read_bytes("a", length=2) == b"hi"
        with pytest.raises(ValueError, match="length at least 1"):
            files.read_bytes("a", length=0)
    ranges = [request.headers["range"] for request in server.requests]
    assert ranges == ["bytes=5-6", "bytes=5-", "bytes=0-1"]


def test_ids_stay_in_their_place(either: Either) -> None:
    with Scripted([answer(SANDBOX)]) as server:
        client = either.Client(server.url)
        either.Sandbox(client, "../keys?x#y").info()
        for wrong in ("", ".", ".."):
            with pytest.raises(ValueError, match="is not a valid id"):
                either.Sandbox(client, wrong).info()
    assert server.said == ["GET /v1/sandboxes/..%2Fkeys%3Fx%23y"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("./a//b/", "a/b"),
        ("/tmp/./x", "/tmp/x"),
        (".", "/workspace"),
        ("", "/workspace"),
        ("/", "/"),
        ("a/../b", "a/../b"),
    ],
)
def test_paths(given: str, sent: str) -> None:
    assert requests.normal(given) == sent


# Prompts

ANSWER = {"prompt": "p", "code": "1", "output": "1", "success": True, "ending": "answered"}


def test_a_prompt_goes_as_it_was_given(either: Either, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\xff")
    with Scripted([answer(ANSWER)]) as server:
        client = either.Client(server.url, "silica_k")
        found = client.interpret("p", rounds=0, files={"a": tmp_path / "in"}, timeout=3)
        assert (found.ok, found.output, found.usage.requests) == (True, "1", 0)
    (asked,) = server.requests
    assert (asked.method, asked.target) == ("POST", "/v1/interpret")
    assert asked.json == {
        "prompt": "p",
        "rounds": 0,
        "files": [{"path": "a", "content_base64": "/w=="}],
        "timeout_seconds": 3,
    }


def test_what_an_answer_says_on_the_way(either: Either) -> None:
    heard: list[str] = []
    script = events(
        (0, "asking", {"request": 1}),
        (0, "text", {"text": "t"}),
        (0, "code", {"code": "c"}),
        (0, "approval", {"approval": "apr_1"}),
        (0, "of_the_future", {}),
        (0, "done", ANSWER),
    )
    with Scripted([script]) as server:
        client = either.Client(server.url, "silica_k")
        hear = heard.append
        assert client.interpret("p", on_text=hear, on_code=hear, on_approval=hear).ok
    assert heard == ["t", "c", "apr_1"]
    assert server.requests[0].headers["accept"] == "text/event-stream"


def test_an_answer_that_breaks_off_is_not_asked_for_again(either: Either) -> None:
    for ended in (True, False):
        with Scripted([events((0, "text", {"text": "t"}), ended=ended)]) as server:
            with pytest.raises(silica.ConnectionLost):
                either.Client(server.url, "silica_k").interpret("p", on_text=str)
            assert server.said == ["POST /v1/interpret"]


def test_an_answer_that_fails_on_the_way(either: Either) -> None:
    problem = {"status": 503, "code": "model_busy", "detail": "words", "request_id": "req_1"}
    with Scripted([events((0, "problem", problem))]) as server:
        with pytest.raises(silica.Unavailable) as caught:
            either.Client(server.url, "silica_k").interpret("p", on_text=str)
        assert (caught.value.code, caught.value.request_id) == ("model_busy", "req_1")


def test_what_was_heard_is_not_displayed_again(
    either: Either, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    displayed: list[Any] = []
    module = types.ModuleType("IPython.display")
    module.display = displayed.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with Scripted([events(START, HELLO, WORLD, SHOWN, DONE)] * 2) as server:
        one = sandbox(either, server)
        silent = one.run_code("x")
        loud = one.run_code("x", on_stdout=lambda text: print(text, end=""))
    assert capsys.readouterr().out == "hello wörld\n"
    loud._ipython_display_()
    assert capsys.readouterr().out == ""
    assert [result.text for result in displayed] == ["42"]
    silent._ipython_display_()
    assert capsys.readouterr().out == "hello wörld\n"
    assert loud == silent


def test_a_run_waits_for_a_person(either: Either) -> None:
    waiting = {"id": "c1", "kernel": "k1", "state": "awaiting_approval", "sandbox": "sbx_9"}
    script = [
        answer({**waiting, "outputs": []}, status=202),
        answer({"id": "c1", "kernel": "k1", "state": "awaiting_approval"}),
        answer(CELL),
        Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmade"),
        answer({"detail": "gone", "code": "file_not_found"}, status=404),
        Reply(b"HTTP/1.1 204 No Content\r\n\r\n"),
    ]
    with Scripted(script) as server:
        run = either.Client(server.url, "key").run("x", outputs=["made", "missing"])
    assert run.done
    assert run.outputs == {"made": b"made"}
    assert list(run.missing) == ["missing"]
    assert server.said[0] == "POST /v1/run"
    assert server.said[-1] == "DELETE /v1/sandboxes/sbx_9"


def test_a_certificate_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SILICA_CA", str(tmp_path / "missing.pem"))
    settings = http.Settings.of("https://127.0.0.1:1", None, 1.0, 0)
    with pytest.raises(ValueError, match="SILICA_CA names"):
        settings.transport_arguments()
    (tmp_path / "missing.pem").write_text("no certificate")
    with pytest.raises(ValueError, match="SILICA_CA names"):
        settings.transport_arguments()
    # Without TLS it is not read.
    assert http.Settings.of("http://127.0.0.1:1", None, 1.0, 0).transport_arguments()
    failed = settings.translated(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] x"))
    assert "set SILICA_CA" in str(failed)
