"""Who else is on the server while it is attacked: a victim with secrets, a probe, and a crowd of innocents."""

import threading
import time

from harness.server import Server

CROWD = 20
CROWD_THREADS = 2
CROWD_PAUSE = 0.05
"""Seconds between two cells of one thread: the crowd is company, and no load test."""

VICTIM_START = """
import os, secrets, socket, threading
TOKEN = {first!r} + {second!r} + '-victim-' + secrets.token_hex(8)
for place in ('/workspace', '/home/user', '/tmp', '/dev/shm'):
    with open(place + '/victim', 'w') as f: f.write(TOKEN)
visits = []
def serve(listener):
    while True:
        stream, _ = listener.accept()
        visits.append(1); stream.sendall(TOKEN.encode()); stream.close()
for family, address in ((socket.AF_INET, ('0.0.0.0', 7777)), (socket.AF_UNIX, '\\0victim'), (socket.AF_UNIX, '/tmp/victim.sock')):
    listener = socket.socket(family); listener.bind(address); listener.listen()
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
"""

VICTIM_LOOK = """
whole = [open(place + '/victim').read() == TOKEN for place in ('/workspace', '/home/user', '/tmp', '/dev/shm')]
print(all(whole), len(visits), len(os.listdir('/workspace')), os.environ['VICTIM'].endswith('victim-environment'))
"""


class Victim:
    """A session under another key that holds tokens in files, a variable, its environment and open sockets."""

    def __init__(self, server: Server) -> None:
        self.api = server.holder("victim", scanned=False)
        # The word comes last and the marker first, so that the value itself is not in any recorded code.
        environment = {"VICTIM": server.tokens.new("environment") + "victim-environment"}
        self.id = self.api.create(env=environment, ttl_seconds=7200, idle_seconds=7200)["id"]
        first, second = server.tokens.halves()
        self._cell(VICTIM_START.format(first=first, second=second))

    def _cell(self, code: str) -> str:
        cell = self.api.cell(self.id, code, timeout_seconds=60)
        if cell["outcome"] != "ok":
            raise RuntimeError(f"the victim's cell ended in {cell['outcome']}: {cell['error']}")
        return cell["stdout"].strip()

    def harm(self) -> list[str]:
        """In words, what was done to it."""
        try:
            said = self._cell(VICTIM_LOOK)
        except Exception as error:
            return [f"the victim is not well: {error}"]
        return [] if said == "True 0 1 True" else [f"the victim was touched: {said}"]


class Probe:
    """A client that only adds two and two, in a sandbox of its own."""

    def __init__(self, server: Server) -> None:
        self.api = server.holder("probe")
        self.id = self.api.create(ttl_seconds=7200, idle_seconds=7200)["id"]

    def live(self) -> float:
        """Seconds for a cell in a session that is there."""
        start = time.monotonic()
        cell = self.api.cell(self.id, "print(2 + 2)", timeout_seconds=60)
        if cell["stdout"] != "4\n":
            raise RuntimeError(f"two and two are {cell['stdout']!r}, {cell['outcome']}")
        return time.monotonic() - start

    def fresh(self) -> float:
        """Seconds for a new session, a cell in it, and its end."""
        start = time.monotonic()
        sandbox = self.api.create()["id"]
        cell = self.api.cell(sandbox, "print(2 + 2)", timeout_seconds=60)
        if cell["stdout"] != "4\n":
            raise RuntimeError(f"two and two are {cell['stdout']!r}, {cell['outcome']}")
        self.api.delete(sandbox)
        return time.monotonic() - start


class Crowd:
    """Twenty sessions of one key that each count for themselves, all the time."""

    def __init__(self, server: Server) -> None:
        self.api = server.holder("crowd")
        self.counts = {self.api.create(ttl_seconds=7200, idle_seconds=7200)["id"]: 0 for _ in range(CROWD)}
        for sandbox in self.counts:
            self.api.cell(sandbox, "count = 0")
        self.faults: list[str] = []
        self.cells = 0
        self._end = threading.Event()
        sandboxes = list(self.counts)
        shares = [sandboxes[one::CROWD_THREADS] for one in range(CROWD_THREADS)]
        self._threads = [threading.Thread(target=self._live, args=(share,), daemon=True) for share in shares]
        for thread in self._threads:
            thread.start()

    def _live(self, sandboxes: list[str]) -> None:
        while True:
            for sandbox in sandboxes:
                if self._end.wait(CROWD_PAUSE):
                    return
                self._count(sandbox)

    def _count(self, sandbox: str) -> None:
        code = "count += 1\nopen('mine', 'a').write('x')\nimport os; print(count, os.path.getsize('mine'))"
        try:
            cell = self.api.cell(sandbox, code, timeout_seconds=60)
        except Exception as error:
            self.faults.append(f"{sandbox}: {error}")
            return
        self.counts[sandbox] += 1
        self.cells += 1
        count = self.counts[sandbox]
        if cell["stdout"] != f"{count} {count}\n":
            self.faults.append(f"{sandbox}: {cell['outcome']} {cell['stdout']!r} in place of {count}")

    def harm(self) -> list[str]:
        """Returns the failures of all clients since the last call, as text."""
        faults, self.faults = self.faults, []
        return [f"an innocent session: {fault}" for fault in faults[:3]]

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        for sandbox in self.counts:
            self.api.delete(sandbox)
