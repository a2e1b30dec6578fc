"""Drives peers that are Python libraries: reads one JSON request a line, does it, and answers with one line.

Usage: python peers.py NAME. Each peer is a class that opens sessions; a session runs code and returns what it printed.
Time is measured here, around the calls of the peer, so the pipe to the bench is not counted. See src/peers.rs.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# How long one piece of code may take.
PATIENCE_SECONDS = 60

# The most sessions that are ever open at once.
SESSIONS_MAX = 128


def version_of(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"


class Jupyter:
    """A kernel of its own for each session, by jupyter_client."""

    package = "ipykernel"

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.start = start_new_kernel

    def open(self) -> JupyterSession:
        return JupyterSession(*self.start())


class JupyterSession:
    def __init__(self, manager, client) -> None:
        self.manager, self.client = manager, client

    def run(self, code: str) -> str:
        message = self.client.execute(code)
        printed = []
        while True:
            got = self.client.get_iopub_msg(timeout=PATIENCE_SECONDS)
            if got["parent_header"].get("msg_id") != message:
                continue
            if collect(got["msg_type"], got["content"], printed):
                break
        self.client.get_shell_msg(timeout=PATIENCE_SECONDS)
        return "".join(printed)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def collect(kind: str, content: dict, printed: list[str]) -> bool:
    """Takes one message of a kernel; true if it was the last."""
    if kind == "stream":
        printed.append(content["text"])
    if kind == "error":
        raise RuntimeError(f"{content['ename']}: {content['evalue']}")
    return kind == "status" and content["execution_state"] == "idle"


class Gateway:
    """Kernels behind HTTP and WebSocket, served by Jupyter Kernel Gateway."""

    package = "jupyter_kernel_gateway"

    def __init__(self) -> None:
        import http.client
        import socket

        self.connect = http.client.HTTPConnection
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={self.port}"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, **quiet)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.request("GET", "/api")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the gateway did not start") from None
                time.sleep(0.05)

    def request(self, method: str, path: str, body: dict | None = None) -> dict:
        connection = self.connect("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{response.status}: {text[:200]!r}")
        return json.loads(text) if text else {}

    def open(self) -> GatewaySession:
        return GatewaySession(self)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class GatewaySession:
    def __init__(self, gateway: Gateway) -> None:
        import websocket

        self.gateway, self.count = gateway, 0
        self.kernel = gateway.request("POST", "/api/kernels", {"name": "python3"})["id"]
        address = f"ws://127.0.0.1:{gateway.port}/api/kernels/{self.kernel}/channels"
        self.socket = websocket.create_connection(address, timeout=PATIENCE_SECONDS)

    def run(self, code: str) -> str:
        self.count += 1
        message = f"{self.kernel}-{self.count}"
        header = {"msg_id": message, "msg_type": "execute_request", "username": "", "session": self.kernel}
        header |= {"date": "2026-01-01T00:00:00Z", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        whole = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.socket.send(json.dumps(whole | {"buffers": []}))
        printed = []
        while True:
            got = json.loads(self.socket.recv())
            if got["parent_header"].get("msg_id") == message and collect(got["msg_type"], got["content"], printed):
                return "".join(printed)

    def close(self) -> None:
        self.socket.close()
        self.gateway.request("DELETE", f"/api/kernels/{self.kernel}")


class Eryx:
    """CPython in WebAssembly, in this process."""

    package = "pyeryx"

    def __init__(self) -> None:
        import eryx

        self.library = eryx

    def open(self) -> EryxSession:
        return EryxSession(self.library.Session())


class EryxSession:
    def __init__(self, session) -> None:
        self.session = session

    def run(self, code: str) -> str:
        printed = self.session.execute(code).stdout
        return printed.decode() if isinstance(printed, bytes) else printed

    def close(self) -> None:
        self.session = None


class Monty:
    """Sessions in worker processes that are kept ready."""

    package = "pydantic-monty"

    def __init__(self) -> None:
        import pydantic_monty

        # Room for a crowd: with fewer, one more session would wait for another to end.
        self.pool = pydantic_monty.Monty(max_processes=SESSIONS_MAX)
        self.pool.__enter__()

    def open(self) -> MontySession:
        return MontySession(self.pool.checkout())

    def end(self) -> None:
        self.pool.__exit__(None, None, None)


class MontySession:
    def __init__(self, checkout) -> None:
        self.checkout, self.session = checkout, checkout.__enter__()

    def run(self, code: str) -> str:
        printed = []
        self.session.feed_run(code, print_callback=lambda _stream, text: printed.append(text))
        return "".join(printed)

    def close(self) -> None:
        self.checkout.__exit__(None, None, None)


class Sandlock:
    """A confined process for each piece of code; there are no sessions."""

    package = "sandlock"

    def __init__(self) -> None:
        import sandlock

        self.library = sandlock
        self.python, self.site = os.environ["BENCH_PYTHON"], os.environ["BENCH_SITE"]
        roots = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev"]
        prefix = os.path.dirname(os.path.dirname(self.python))
        self.readable = [root for root in roots if os.path.exists(root)] + [prefix, self.site]
        os.environ["PYTHONPATH"] = self.site
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    def open(self) -> SandlockSession:
        return SandlockSession(self)


class SandlockSession:
    def __init__(self, peer: Sandlock) -> None:
        self.peer, self.used = peer, False

    def run(self, code: str) -> str:
        if self.used or code == "pass":
            raise RuntimeError("it has no sessions that stay")
        self.used = True
        sandbox = self.peer.library.Sandbox(fs_readable=self.peer.readable, fs_writable=["/tmp"])
        result = sandbox.run([self.peer.python, "-c", code], timeout=PATIENCE_SECONDS)
        if not result.success:
            words = (result.stderr or b"").decode(errors="replace").strip().splitlines()
            raise RuntimeError(words[-1] if words else f"it failed: {getattr(result, 'error', None)}")
        return result.stdout.decode()

    def close(self) -> None:
        pass


PEERS = {"ipykernel": Jupyter, "gateway": Gateway, "eryx": Eryx, "monty": Monty, "sandlock": Sandlock}


class Driver:
    """Answers requests by means of a peer."""

    def __init__(self, peer) -> None:
        self.peer, self.sessions, self.next = peer, {}, 0

    def fresh(self, code: str, **_) -> dict:
        began = time.perf_counter()
        session = self.peer.open()
        output = session.run(code)
        seconds = time.perf_counter() - began
        session.close()
        return {"seconds": seconds, "output": output}

    def open(self, **_) -> dict:
        session = self.peer.open()
        session.run("pass")
        self.next += 1
        self.sessions[self.next] = session
        return {"session": self.next}

    def run(self, session: int, code: str, **_) -> dict:
        live = self.sessions[session]
        began = time.perf_counter()
        output = live.run(code)
        return {"seconds": time.perf_counter() - began, "output": output}

    def close(self, session: int, **_) -> dict:
        self.sessions.pop(session).close()
        return {}

    def crowd(self, count: int, code: str, **_) -> dict:
        def one(_) -> object:
            session = self.peer.open()
            session.run(code)
            return session

        with ThreadPoolExecutor(count) as threads:
            began = time.perf_counter()
            sessions = list(threads.map(one, range(count)))
            seconds = time.perf_counter() - began
            list(threads.map(lambda session: session.close(), sessions))
        return {"seconds": seconds}

    def rate(self, clients: int, code: str, **others) -> dict:
        began, counts, errors = time.perf_counter(), [0] * clients, []

        def work(client: int) -> None:
            try:
                while time.perf_counter() - began < others["for"]:
                    session = self.peer.open()
                    session.run(code)
                    session.close()
                    counts[client] += 1
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(client,)) for client in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return {"seconds": time.perf_counter() - began, "count": sum(counts)}


def said(error: Exception) -> dict:
    """What an error says, on one line; the last is where Python puts the reason."""
    words = [line.strip() for line in str(error).splitlines() if line.strip()]
    return {"error": f"{type(error).__name__}: {words[-1] if words else 'no reason'}"}


def main(name: str) -> None:
    # Answers have a way of their own: libraries print what they like.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: dict) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        peer = PEERS[name]()
    except Exception as error:
        answer(said(error))
        return
    driver = Driver(peer)
    answer({"version": version_of(peer.package)})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(driver, request.pop("do"))(**request))
        except Exception as error:
            answer(said(error))
    for session in driver.sessions.values():
        session.close()
    if hasattr(peer, "end"):
        peer.end()


main(sys.argv[1])
