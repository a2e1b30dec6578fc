"""Times E2B's own Python SDK against a server, and the same calls against a bare one on loopback.

Usage: python e2b.py URL KEY SAMPLES; the answer is one JSON object with lists of seconds. The bare server says the
same words and does nothing, so what it takes is what the SDK and the loopback take.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys
import threading
import time

from e2b_code_interpreter import Sandbox

CREATED = {
    "templateID": "code-interpreter", "alias": "code-interpreter-v1", "sandboxID": "sbx" + "0" * 20, "clientID": "bare",
    "envdVersion": "0.6.7", "envdAccessToken": "x", "trafficAccessToken": "x", "domain": None,
}  # fmt: skip
LINES = (
    b'{"type":"number_of_executions","execution_count":1}\n'
    b'{"type":"stdout","text":"1\\n","timestamp":"2026-01-01T00:00:00.000000Z"}\n'
    b'{"type":"end_of_execution"}\n'
)


def read_request(stream) -> str | None:
    """Reads one request to its end; returns its first line."""
    first = stream.readline()
    if not first:
        return None
    length, chunked = 0, False
    while (line := stream.readline().strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        chunked = chunked or line == b"transfer-encoding: chunked"
    stream.read(length)
    while chunked and (size := int(stream.readline(), 16)) + 1:
        stream.read(size + 2)
        chunked = size > 0
    return first.decode()


def answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = connection.makefile("rb")
    while (first := read_request(stream)) is not None:
        if "/execute" in first:
            status, body = "200 OK", LINES
        elif first.startswith("DELETE"):
            status, body = "204 No Content", b""
        else:
            status, body = "201 Created", json.dumps(CREATED).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)


def serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def timed(times: list[float], act):
    began = time.perf_counter()
    done = act()
    times.append(time.perf_counter() - began)
    return done


def main(url: str, key: str, samples: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    bare = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    bare.start()
    places = {"": url, "_bare": f"http://127.0.0.1:{listener.getsockname()[1]}"}
    times = {f"{what}{where}": [] for what in ("run_code", "create") for where in places}
    options = {where: {"api_key": key, "api_url": place, "sandbox_url": place} for where, place in places.items()}
    live = {where: Sandbox.create(timeout=600, **options[where]) for where in places}
    for sandbox in live.values():
        assert sandbox.run_code("print(1)").logs.stdout == ["1\n"]
    for _ in range(samples):
        for where, sandbox in live.items():
            timed(times[f"run_code{where}"], lambda: sandbox.run_code("print(1)"))
        for where, option in options.items():
            timed(times[f"create{where}"], lambda: Sandbox.create(timeout=60, **option)).kill()
    for sandbox in live.values():
        sandbox.kill()
    bare.terminate()
    print(json.dumps(times))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
