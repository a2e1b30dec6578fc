"""The victim: another key that goes on with its work and measures how long everything takes."""

import http.client
import json
import time
from dataclasses import dataclass, field

PATIENCE = 30.0
"""Seconds until a call of the victim counts as not answered."""

PAUSE = 0.004
"""Between two rounds of calls: the victim is a client, no load test."""

ROUNDS_LEAST = 5
"""Rounds of calls, however long they take."""

FILE_BYTES = 16_384

WORK = "n = {}\ntotal = 0\nfor i in range(n):\n    total += i * i"
"""A cell that computes and does nothing else."""


@dataclass
class Measured:
    """What the victim saw: seconds of each call by kind, and calls without the right answer."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, kind: str, seconds: float) -> None:
        self.samples.setdefault(kind, []).append(seconds)

    def quantile(self, kind: str, share: float) -> float | None:
        """The nearest-rank quantile in seconds; None without samples."""
        ordered = sorted(self.samples.get(kind, ()))
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


class Wrong(Exception):
    """An answer that was not the one wanted."""


class Victim:
    """One key with one live sandbox, over one connection that is kept."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self.address, self.key = address, key
        self.connection: http.client.HTTPConnection | None = None
        self.work = 1_000_000
        self.sandbox = self.ask("POST", "/v1/sandboxes", {}, want=201)["id"]
        self.at = f"/v1/sandboxes/{self.sandbox}"
        self.ask("PUT", f"{self.at}/files/content?path=own.bin", bytes(FILE_BYTES), want=201)
        self.kinds = {"print": self.print, "create": self.create, "read": self.read}
        self.kinds |= {"list": self.list, "sandboxes": self.list_sandboxes}

    def ask(self, method: str, path: str, body=None, want: int = 200):
        """One call; the JSON or the bytes of its answer."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        headers = {"X-API-Key": self.key}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            self.connection.request(method, path, data, headers)
            response = self.connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            raise Wrong(f"{method} {path.split('?')[0]}: {type(error).__name__}") from None
        if response.status != want:
            raise Wrong(f"{method} {path.split('?')[0]}: {response.status} {content[:200].decode(errors='replace')}")
        kind = response.headers.get("Content-Type", "")
        return json.loads(content) if "json" in kind else content

    def hang_up(self) -> None:
        if self.connection:
            self.connection.close()
        self.connection = None

    # Its calls.

    def cell(self, code: str) -> dict:
        return self.ask("POST", f"{self.at}/cells", {"code": code})

    def print(self) -> None:
        cell = self.cell("print(1)")
        if cell["stdout"] != "1\n":
            raise Wrong(f"print(1): {cell['outcome']} {cell['stdout'][:80]!r}")

    def create(self) -> None:
        made = self.ask("POST", "/v1/sandboxes", {}, want=201)["id"]
        self.ask("DELETE", f"/v1/sandboxes/{made}", want=204)

    def read(self) -> None:
        if len(self.ask("GET", f"{self.at}/files/content?path=own.bin")) != FILE_BYTES:
            raise Wrong("read: not the file")

    def list(self) -> None:
        entries = self.ask("GET", f"{self.at}/files?path=/workspace")["entries"]
        if not any(entry["name"] == "own.bin" for entry in entries):
            raise Wrong("list: not the file")

    def list_sandboxes(self) -> None:
        if not any(one["id"] == self.sandbox for one in self.ask("GET", "/v1/sandboxes")["sandboxes"]):
            raise Wrong("sandboxes: not the own one")

    def compute(self) -> None:
        cell = self.cell(WORK.format(self.work))
        if cell["outcome"] != "ok":
            raise Wrong(f"the cell that computes: {cell['outcome']} {cell.get('message')}")

    def calibrate(self, seconds: float) -> None:
        """Finds the amount of work that takes this long when nothing else runs."""
        for _ in range(2):
            start = time.monotonic()
            self.compute()
            self.work = max(1000, int(self.work * seconds / (time.monotonic() - start)))

    # Measuring.

    def time(self, measured: Measured, kind: str, call) -> None:
        start = time.monotonic()
        try:
            call()
        except Wrong as wrong:
            measured.failures.append(str(wrong))
            return
        measured.add(kind, time.monotonic() - start)

    def measure(self, seconds: float, computations: int) -> Measured:
        """Goes round all kinds of calls for so long, with cells that compute evenly between them."""
        measured = Measured()
        start = time.monotonic()
        computed, rounds, deadline = 0, 0, start + seconds
        while time.monotonic() < deadline or computed < computations or rounds < ROUNDS_LEAST:
            if rounds and computed < computations and time.monotonic() >= start + seconds * computed / computations:
                self.time(measured, "compute", self.compute)
                computed += 1
                continue
            for kind, call in self.kinds.items():
                self.time(measured, kind, call)
            rounds += 1
            time.sleep(PAUSE)
        return measured

    def leave(self) -> None:
        self.ask("DELETE", self.at, want=204)
        self.hang_up()
